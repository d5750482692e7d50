//! What the publication does not say, and what was taken for it.

/// Name, value, label, reason.
pub const OPEN: [[&str; 4]; 15] = [
    [
        "scale",
        "partition 3 GiB, a quarter of the published; for F2FS's sustained writes, devices and logs 768 MiB, a sixteenth; the cleaning experiment an eighth, its files shorter still by 24 %, so that the volume is as full",
        "given, divided",
        "so that all takes minutes; `nandlab run papers/f2fs/emmc.toml --set chip.size=\"16 GiB\" --set fs.size=\"12 GiB\" --set workload.files=36` has the published size",
    ],
    [
        "chip behind the eMMC",
        "4 dies of 2 planes, pages of 4 KiB, blocks of 1 MiB; 60 us, 1.3 ms, 5 ms, 100 MB/s",
        "assumed",
        "MLC of 2011; which chip the Samsung eMMC holds is not said. Pages of 8 KiB would make each 4 KiB a read and a write of twice as much; devices of the time map units of 4 KiB",
    ],
    [
        "superpage, superblock",
        "a page, a block of each plane of each die: 32 KiB, 8 MiB",
        "assumed",
        "\"simultaneously programmable\", \"simultaneously erasable unit\"",
    ],
    [
        "mapping",
        "hybrid, 4:4+2, 32 log blocks in all",
        "given; the number of log blocks assumed",
        "the slide's example; all but the aged phone is run on a page map with 7 % spare too, since the publication's 4 MB/s of ext4 at random are not those of a hybrid mapping",
    ],
    [
        "section, zone",
        "8 MiB, 32 MiB: superblock, group of the mapping",
        "given",
        "\"section: FTL GC unit\", \"zone: data block group\"",
    ],
    [
        "the device's past",
        "every sector written once",
        "assumed",
        "a phone that was in use",
    ],
    [
        "ext4",
        "the driver of Linux 6.1, mounted as it comes, its requests recorded in a guest and replayed one after the other",
        "measured",
        "the publication has Linux 3.3 and 3.0.8",
    ],
    [
        "discards",
        "none, on both",
        "assumed",
        "neither was mounted so by default at the time",
    ],
    [
        "processor",
        "takes no time, on both",
        "assumed",
        "only the device differs in what it is asked; so whole seconds of a phone, in which applications compute, are not comparable, their order is",
    ],
    [
        "fs_mark",
        "1000 files of 51200 bytes, an fsync each",
        "assumed",
        "the program's defaults; the publication names the program only",
    ],
    [
        "IOzone",
        "64 MiB in records of 64 KiB, an fsync at the end of each phase; 8 MiB in records of 4 KiB, each durable",
        "assumed",
        "the publication names the program only",
    ],
    [
        "bonnie++",
        "its tests of names, 1000 files, a sync after each phase",
        "assumed",
        "so that what was named is on the device",
    ],
    [
        "the aged phone",
        "a third full, a fifth of that replaced five times, with files of 64 KiB to 32 MiB",
        "assumed",
        "\"aged\" is not described",
    ],
    [
        "cleaning experiment",
        "greedy, cost-benefit, age-threshold in the foreground, sections of 2 MiB, 5 % kept back, records of 4 KiB, 0.5 ms a call",
        "assumed",
        "the slide has the amounts only; run without threaded logging and with it",
    ],
    [
        "age-threshold",
        "no threshold of age, otherwise Linux's numbers",
        "assumed",
        "its week is longer than the run",
    ],
];
