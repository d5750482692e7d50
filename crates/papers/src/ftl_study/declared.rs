//! What the paper does not say, and what was taken for it.

use super::cells::{Cells, Study, TABLE_1};
use crate::Assumption;
use nandlab_stack::DescriptionError;

/// Name, value, label, reason.
const OPEN: [[&str; 4]; 14] = [
    [
        "processor, memory, flash",
        "400 MHz, 64 MB, 64 MB",
        "given",
        "section 4.1",
    ],
    [
        "replacement blocks, log blocks",
        "64",
        "given",
        "section 4.1",
    ],
    ["partition, NVRAM", "32 MB, 128 KB", "given", "section 4.1"],
    [
        "photos, index, units, transactions, footprint",
        "300 to 500 KB, 96 B, 512 B, 10 of 20 photos, 79.67 MB",
        "given",
        "section 4.2",
    ],
    [
        "flash geometry",
        "512 B pages, 32 to a block of 16 KiB, 4096 blocks",
        "assumed",
        "the usual 64 MB part of the time (K9F1208 class)",
    ],
    [
        "flash times",
        "read 15 us, program 200 us, erase 2 ms",
        "datasheet",
        "K9F1208 class",
    ],
    [
        "the device's past",
        "every sector written once",
        "assumed",
        "a used device; a fresh one favours every scheme",
    ],
    [
        "first sector of the partition within an erase block",
        "0",
        "assumed",
        "all 32 are run for BAST and FAST",
    ],
    [
        "cluster",
        "2 KiB",
        "assumed",
        "of 512 B to 8 KiB the one that gives the published 60 % and 0.2 %: chosen with these two in view",
    ],
    [
        "FAST: pages whose newest version is elsewhere",
        "not merged",
        "assumed",
        "both are run",
    ],
    [
        "FAST: a write that does not continue the sequential log block",
        "merges it",
        "assumed",
        "the pseudo-code as retold; both are run",
    ],
    [
        "NFTL",
        "longest chain folded, freeness verified",
        "given",
        "the paper took Linux's module; its other choices are run",
    ],
    [
        "BAST: which log block gives way, and when",
        "least recently written, when the next write needs it",
        "assumed",
        "its paper could not be had",
    ],
    [
        "too many photos",
        "looked at after the creates; then all are deleted, otherwise half of the new ones",
        "assumed",
        "otherwise 80 photos overflow 32 MB",
    ],
];

/// All of it: open points, costs of the processor, calibrated constants.
pub fn assumptions(study: &Study, cells: &Cells) -> Result<Vec<Assumption>, DescriptionError> {
    let mut all = Assumption::all(&OPEN, Some("arm-400mhz"))?;
    let constants = TABLE_1.iter().filter(|layer| study.published(layer, false).is_some()).map(|layer| Assumption {
        name: format!("{}: time for each sector written beyond all of these", layer.name),
        value: format!("{:.3} ms", cells.constant(layer) * 1e3),
        label: "calibrated on its No-Hot cell".into(),
        why: "what the board and the authors' layers cost beyond the declared; the only constant of the layer".into(),
    });
    all.extend(constants);
    Ok(all)
}
