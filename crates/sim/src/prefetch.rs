//! Asking for memory before it is needed.
//!
//! The maps of large devices do not fit the processor's caches, and a simulated write takes less
//! time than one miss. An ordinary load, its value unused, does not help: it holds up every
//! instruction behind it until it has arrived.

/// Asks the processor to bring `slice[index]` near; does nothing where that is out of bounds or the
/// processor offers no such thing.
#[inline]
#[allow(unsafe_code)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = slice.get(index) {
        // Safety: a prefetch reads nothing and faults on nothing, whatever its address; this one is
        // that of a live reference.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
                core::ptr::from_ref(item).cast(),
            )
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
