//! The bits of a cell, and the chip's blocks in SLC mode.

use super::time;
use crate::{DescriptionError, Section};
use nandlab_nand::SlcMode;

const KEYS: [&str; 4] = ["slc-read", "slc-program", "slc-erase", "slc-rated-erases"];

/// The SLC mode of a chip; none if its cells hold one bit. `own` is what an erase takes in the
/// chip's own mode, and how many of them a block is rated for.
pub(super) fn slc_mode(
    section: &mut Section,
    base: Option<SlcMode>,
    own: (u64, u32),
) -> Result<Option<SlcMode>, DescriptionError> {
    let cell_bits = section.checked(
        "cell-bits",
        base.map_or(1, |slc| slc.cell_bits),
        |bits| (1..=4).contains(bits),
        "1 to 4",
    )?;
    if cell_bits == 1 {
        section.inapplicable(&KEYS, "chip.cell-bits above 1")?;
        return Ok(None);
    }
    Ok(Some(SlcMode {
        cell_bits,
        read_ns: time(section, "slc-read", base.map(|slc| slc.read_ns))?,
        program_ns: time(section, "slc-program", base.map(|slc| slc.program_ns))?,
        erase_ns: time(
            section,
            "slc-erase",
            Some(base.map_or(own.0, |slc| slc.erase_ns)),
        )?,
        rated_erases: section.or(
            "slc-rated-erases",
            base.map_or(own.1, |slc| slc.rated_erases),
        )?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Description, Document};
    use std::path::Path;

    fn take(text: &str) -> Result<Option<SlcMode>, String> {
        let text = format!("[chip]\n{text}");
        let mut document =
            Document::parse("e.toml", Path::new(""), &text, &[]).map_err(|e| e.to_string())?;
        let description = Description::take(&mut document).map_err(|e| e.to_string())?;
        Ok(description.chip.spec.slc)
    }

    #[test]
    fn a_preset_has_its_mode_until_a_key_says_otherwise() {
        let preset = take("preset = \"tlc-24GiB\"").unwrap().unwrap();
        let given = take("preset = \"tlc-24GiB\"\ncell-bits = 4\nslc-program = \"0.2 ms\"");
        let expected = SlcMode {
            cell_bits: 4,
            program_ns: 200_000,
            ..preset
        };
        assert_eq!(given, Ok(Some(expected)));
        assert_eq!(take("preset = \"tlc-24GiB\"\ncell-bits = 1"), Ok(None));
        assert_eq!(take("preset = \"slc-2k\""), Ok(None));
    }

    #[test]
    fn other_chips_need_the_times_and_take_the_erase_from_their_own_mode() {
        let mlc = "preset = \"slc-2k\"\ncell-bits = 2\n";
        let error = take(mlc).unwrap_err();
        assert!(
            error.contains("chip.slc-read: missing, expected a time"),
            "{error}"
        );
        let times = format!("{mlc}slc-read = \"20 us\"\nslc-program = \"100 us\"");
        let expected = SlcMode {
            cell_bits: 2,
            read_ns: 20_000,
            program_ns: 100_000,
            erase_ns: 1_500_000,
            rated_erases: 100_000,
        };
        assert_eq!(take(&times), Ok(Some(expected)));
    }

    #[test]
    fn nonsense_is_refused_at_its_key() {
        for (line, expected) in [
            ("cell-bits = 5", "chip.cell-bits: found 5, expected 1 to 4"),
            ("cell-bits = 0", "chip.cell-bits: found 0, expected 1 to 4"),
            (
                "slc-read = \"20 us\"",
                "chip.slc-read: has no effect, it needs chip.cell-bits above 1",
            ),
        ] {
            let error = take(&format!("preset = \"slc-2k\"\n{line}")).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
