//! What the paper does not say, and what was taken for it.

/// Name, value, label, reason.
pub const OPEN: [[&str; 4]; 13] = [
    [
        "chip",
        "128 MB, pages of 512 B, blocks of 16 KB, read 25 us, program 100 us, erase 2 ms",
        "given",
        "section 4",
    ],
    [
        "time on the bus",
        "none",
        "assumed",
        "nandsim charges none unless told to",
    ],
    [
        "Bonnie's call, IOzone's file",
        "4 KB, 4096 KB",
        "given",
        "section 4",
    ],
    [
        "Bonnie's file",
        "4 to 64 MiB",
        "assumed",
        "the figure's axis is not in the text; the whole chip has 128 MB",
    ],
    ["IOzone's records", "4 KB to 4096 KB", "given", "section 4"],
    [
        "all data is written to flash",
        "after each record of IOzone (-o), and a sync(2) of everything at the end of each phase, within its time",
        "assumed",
        "\"we guarantee all the data are written to flash memory, not be cached to main memory\": so committed blocks come home within the time; an fsync alone is run too",
    ],
    [
        "translation layer beneath JFTL",
        "page mapping, 7 % over-provisioning, map on flash",
        "assumed",
        "the paper describes a page map and no more; 20 % is run too",
    ],
    [
        "remap record",
        "on flash, 12 bytes a page, at each commit",
        "assumed",
        "the paper keeps the mapping in memory and says nothing of its loss",
    ],
    [
        "the device's past",
        "every sector written once",
        "assumed",
        "a series of runs leaves such a device; nandsim begins erased, and that is run too",
    ],
    [
        "blocks of the volume, journal",
        "1 KiB, 4 MiB",
        "assumed",
        "what mke2fs takes for 128 MB; 4 KiB and 16 MiB are run too",
    ],
    [
        "barriers",
        "none",
        "assumed",
        "the default of the time; with them is run too",
    ],
    [
        "memory, write-back",
        "512 MiB, Linux 2.6's limits and timers, commits every 5 s",
        "assumed",
        "a PC that holds nandsim's 128 MB as well",
    ],
    [
        "who writes committed blocks home",
        "kupdate after 30 s, pdflush, checkpoints for room in the log",
        "assumed",
        "Linux 2.6; the rest the sync",
    ],
];
