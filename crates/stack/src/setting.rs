//! One key as it took effect.

use std::fmt;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The description or an override.
    Given,
    /// The preset of this name.
    Preset(String),
    /// No source sets it; the default holds.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One key of a description as it took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key as `section.key`.
    pub key: String,
    /// Its value, as TOML writes it.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}
