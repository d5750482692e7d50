//! Options whose defaults stand beside their fields.

/// Defines a struct whose fields have defaults, and its [`Default`].
///
/// ```
/// nandlab_sim::with_defaults! {
///     /// How a volume is mounted.
///     #[derive(Debug)]
///     pub struct Options {
///         /// Nothing is ever written.
///         pub read_only: bool = false,
///         /// Bytes of the cache.
///         pub cache_bytes: u64 = 4 << 20,
///     }
/// }
/// assert_eq!(Options::default().cache_bytes, 4_194_304);
/// ```
#[macro_export]
macro_rules! with_defaults {
    (
        $(#[$outer:meta])*
        $vis:vis struct $name:ident {
            $($(#[$inner:meta])* $field_vis:vis $field:ident: $type:ty = $default:expr,)*
        }
    ) => {
        $(#[$outer])*
        $vis struct $name {
            $($(#[$inner])* $field_vis $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                }
            }
        }
    };
}
