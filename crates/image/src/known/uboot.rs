//! Recognises images that U-Boot boots: legacy images, and device trees with what they may hold.

use super::{Format, Known, Sign, View, date};
use crate::fdt::{Fdt, Step};
use crate::known::printable;
use crate::words::counted;

pub(super) const FORMATS: &[Format] = &[
    Format {
        signs: &[Sign::new(0, &[0x27, 0x05, 0x19, 0x56])],
        look: legacy,
    },
    Format {
        signs: &[Sign::new(0, &[0xD0, 0x0D, 0xFE, 0xED])],
        look: tree,
    },
];

/// Bytes of a legacy image's header.
const HEAD: u64 = 64;
const SYSTEMS: &[(u8, &str)] = &[
    (1, "OpenBSD"),
    (2, "NetBSD"),
    (3, "FreeBSD"),
    (5, "Linux"),
    (14, "VxWorks"),
    (16, "QNX"),
    (17, "U-Boot"),
    (18, "RTEMS"),
    (25, "Trusted Firmware"),
    (26, "TEE"),
    (27, "OpenSBI"),
    (28, "EFI"),
];
const PROCESSORS: &[(u8, &str)] = &[
    (1, "Alpha"),
    (2, "ARM"),
    (3, "x86"),
    (5, "MIPS"),
    (6, "MIPS64"),
    (7, "PowerPC"),
    (9, "SuperH"),
    (10, "SPARC"),
    (12, "M68K"),
    (13, "Nios II"),
    (14, "MicroBlaze"),
    (15, "Nios II"),
    (19, "OpenRISC"),
    (22, "ARM64"),
    (23, "ARC"),
    (24, "x86-64"),
    (25, "Xtensa"),
    (26, "RISC-V"),
];
const KINDS: &[(u8, &str)] = &[
    (1, "standalone program"),
    (2, "kernel"),
    (3, "ramdisk"),
    (4, "multi-file image"),
    (5, "firmware"),
    (6, "script"),
    (7, "file system"),
    (8, "device tree"),
    (14, "kernel"),
    (17, "firmware"),
];
const COMPRESSIONS: &[(u8, &str)] = &[
    (0, "not compressed"),
    (1, "gzip"),
    (2, "bzip2"),
    (3, "lzma"),
    (4, "lzo"),
    (5, "lz4"),
    (6, "zstd"),
];

/// The word for a number, or the number itself.
fn word(words: &[(u8, &str)], number: u8, what: &str) -> String {
    let found = words.iter().find(|(known, _)| *known == number);
    found.map_or_else(|| format!("{what} {number}"), |(_, word)| (*word).into())
}

/// A legacy image: a header with its checksum, and the data with theirs.
fn legacy(view: &mut View<'_>) -> Option<Known> {
    let mut head: [u8; HEAD as usize] = view.get(0)?;
    let expected = view.be32(4)?;
    head[4..8].fill(0);
    if crc32fast::hash(&head) != expected {
        return None;
    }
    let size = u64::from(view.be32(12)?);
    let expected = view.be32(24)?;
    let contents = match view.crc32(HEAD, size) {
        Some(found) if found == expected => "data checksum matches",
        Some(_) => "data checksum does not match",
        None if HEAD + size > view.len() => "cut short by the end of the image",
        None => "data checksum not looked at",
    };
    let name = view.shown(32, 32)?;
    let system = word(SYSTEMS, head[28], "system");
    let processor = word(PROCESSORS, head[29], "processor");
    let kind = word(KINDS, head[30], "kind");
    let compression = word(COMPRESSIONS, head[31], "compression");
    let made = date(view.be32(8)?);
    Some(Known {
        name: "U-Boot image",
        len: Some(HEAD + size),
        says: format!(
            "{system} {processor} {kind}, \"{name}\", {compression}, made {made}, {contents}"
        ),
        proven: true,
    })
}

/// The parts of a device tree that tell what it is for.
#[derive(Default)]
struct Summary {
    model: String,
    compatible: String,
    description: String,
    /// A flattened image tree has images.
    images: u64,
    /// Data of the present image that lie behind the tree.
    offset: u64,
    size: u64,
    /// Where the last of such data end.
    end: u64,
}

impl Summary {
    /// `depth` 1 is the root, 3 an image.
    fn take(&mut self, fdt: &mut Fdt<'_, '_>, depth: usize, in_images: bool, step: &Step) {
        let Step::Property { name, .. } = step else {
            return;
        };
        let external = depth == 3 && in_images;
        match &name[..] {
            b"model" if depth == 1 => self.model = text(fdt, step),
            b"compatible" if depth == 1 => self.compatible = text(fdt, step),
            b"description" if depth == 1 => self.description = text(fdt, step),
            b"data-offset" if external => {
                let base = fdt.total().next_multiple_of(4);
                self.offset = fdt.cell(step).map_or(0, |cell| base + u64::from(cell));
            }
            b"data-position" if external => self.offset = fdt.cell(step).unwrap_or(0).into(),
            b"data-size" if external => self.size = fdt.cell(step).unwrap_or(0).into(),
            _ => {}
        }
    }
}

fn text(fdt: &mut Fdt<'_, '_>, step: &Step) -> String {
    let value = fdt.value(step, 256).unwrap_or_default();
    let end = value.iter().position(|byte| *byte == 0);
    printable(&value[..end.unwrap_or(value.len())])
}

/// A device tree, or a flattened image tree (FIT).
fn tree(view: &mut View<'_>) -> Option<Known> {
    let mut fdt = Fdt::new(view).ok()?;
    let mut found = Summary::default();
    let mut depth = 0usize;
    let mut in_images = false;
    let mut is_whole = true;
    loop {
        let step = match fdt.step() {
            Ok(Some(step)) => step,
            Ok(None) => break,
            Err(_) => {
                is_whole = false;
                break;
            }
        };
        match &step {
            Step::Begin { name } => {
                depth += 1;
                in_images = if depth == 2 {
                    name == b"images"
                } else {
                    in_images && depth > 2
                };
                found.images += u64::from(in_images && depth == 3);
            }
            Step::End => {
                depth = depth.saturating_sub(1);
                found.end = found.end.max(found.offset + found.size);
                found.offset = 0;
                found.size = 0;
            }
            Step::Property { .. } => found.take(&mut fdt, depth, in_images, &step),
        }
    }
    let mut says = match (found.images, found.model.is_empty()) {
        (0, true) => format!("for \"{}\"", found.compatible),
        (0, false) => format!("for \"{}\"", found.model),
        (images, _) => format!("\"{}\", {}", found.description, counted(images, "image")),
    };
    if !is_whole {
        says += ", damaged or cut short";
    }
    Some(Known {
        name: if found.images > 0 {
            "FIT image"
        } else {
            "device tree"
        },
        len: Some(fdt.total().max(found.end)),
        says,
        proven: false,
    })
}
