//! Partitions that U-Boot's environment lists: in `mtdparts`, or in the kernel's arguments.

use super::{Partition, Result, mtdparts_of};
use crate::known::env::Environment;

/// The partitions for a device of `len` bytes, or `None` if no variable has any.
///
/// U-Boot's own numbers of devices (`mtdids`) are no ids here: `nand0=spi0.0` in `mtdids` means
/// that the id is `spi0.0`.
pub fn environment(
    environment: &Environment,
    device: Option<&str>,
    len: u64,
) -> Result<Option<Vec<Partition>>> {
    let value = environment.get("mtdparts").or_else(|| {
        let arguments = environment.get("bootargs")?;
        let is_key = |part: &[u8]| part == b"mtdparts=";
        arguments.windows(9).any(is_key).then_some(arguments)
    });
    match value.map(String::from_utf8_lossy) {
        Some(text) => mtdparts_of(&text, device, len).map(Some),
        None => Ok(None),
    }
}
