//! What the paper does not say, and what was taken for it.

/// Name, value, label, reason.
pub const OPEN: [[&str; 4]; 12] = [
    [
        "chip",
        "OneNAND, 128 MB, pages of 2 KiB, blocks of 128 KiB; read 30 us, program 220 us, erase 2 ms",
        "given",
        "Table 1",
    ],
    [
        "time on the bus",
        "9.26 ns a byte to the chip's buffer",
        "datasheet",
        "16 bits at 54 MHz; the processor's part is host.pio-ns-per-byte",
    ],
    ["machine", "ARM9 at 192 MHz, 32 MB", "given", "section 4"],
    [
        "contents",
        "zeros",
        "assumed",
        "tiobench writes anonymous memory that it never fills, unless told to check; text and random bytes are run too",
    ],
    [
        "the file",
        "truncated to its full length first",
        "assumed",
        "as tiobench does; without is run too",
    ],
    [
        "threads",
        "1",
        "assumed",
        "the paper does not say; its rows have as many writes as one thread makes",
    ],
    [
        "compression",
        "zlib, level 3, as today's kernels try it behind LZO",
        "assumed",
        "see fs.compression; Linux 2.6.9 has zlib and rtime",
    ],
    [
        "memory for pinned pages",
        "as much as Linux lets be dirty: 40 % of the memory",
        "assumed",
        "the paper says only that the threshold is the available memory; 16 and 20 MiB are run too",
    ],
    [
        "timer flash_writeback",
        "1 s, 250 ms from half of that memory on, 62 ms from three quarters on",
        "assumed",
        "\"reducing the timer wakeup intervals\"; others are run too",
    ],
    [
        "a pass of wb_flash",
        "64 elements or 100 ms, 4 and 16 times as much under pressure",
        "assumed",
        "\"number of flushed requests are also increased\"; others are run too",
    ],
    [
        "who waits for a pass",
        "the next call of the program",
        "assumed",
        "one processor, a kernel that is not preempted: fflush runs when a call returns",
    ],
    [
        "the device's past",
        "freshly formatted",
        "assumed",
        "JFFS2's writes of more than 100 ms in the paper's table are not explained by a fresh one",
    ],
];
