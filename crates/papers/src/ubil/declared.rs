//! What the paper does not say, and what was taken for it.

/// Name, value, label, reason.
pub const OPEN: [[&str; 4]; 11] = [
    [
        "chip",
        "pages of 2 KiB, blocks of 128 KiB; read 25 us, program 200 us, erase 1.5 ms",
        "datasheet",
        "\"SLC NAND flash\": K9F1G08U0B class; the paper names no part",
    ],
    [
        "headers",
        "a page each",
        "given",
        "Figure 1; a chip with sub-pages has both in one page, which halves a scan",
    ],
    [
        "attach time",
        "until the last page is read and the tables stand",
        "assumed",
        "the paper does not say where it starts and stops its watch; mounting UBIFS is not in ours",
    ],
    [
        "what is on the device",
        "half of its logical blocks are mapped",
        "assumed",
        "both headers of a free block are read as well",
    ],
    [
        "after a cut",
        "150 changes since the last commit",
        "assumed",
        "the paper has no numbers for an unclean detach",
    ],
    [
        "sizes beyond 8 GiB",
        "blocks of 4 MiB, pages of 16 KiB, at the same times",
        "assumed",
        "such chips have such blocks; headers and tables only are kept, a sixteenth of the blocks is mapped",
    ],
    [
        "file system",
        "JFFS2 on a volume",
        "assumed",
        "the paper has UBIFS, which is not here",
    ],
    [
        "IOzone",
        "a file of 12 MiB, records of 64 KiB, an fsync at the end of each phase",
        "assumed",
        "the paper says none of it",
    ],
    [
        "MB/s",
        "10^6 bytes",
        "assumed",
        "IOzone counts KiB; the paper's unit is not said, and ratios do not have it",
    ],
    [
        "headers of UBIL",
        "none",
        "assumed",
        "\"EL writing frequency is same as meta data write frequency of UBI\" and faster writes speak for it; with them is run too",
    ],
    [
        "UBI's thread",
        "a step after each write and erase",
        "assumed",
        "on one processor that waits for the chip it takes the program's time; at rest is run too",
    ],
];
