//! The rows of `jffs2_costs.sh`: what a page of a file costs a processor.
//!
//! JFFS2's rows are without its flash: mtdram and nandsim stand for chips and drivers that a board
//! has, and their shares have rows of their own.

use super::costs::{Measured, Row};

/// What 64 KiB have more than 4 KiB.
const FURTHER_PAGES: f64 = 15.0;

/// Rounds of an fsync before the collector erases its first block. The later ones depend on when
/// its thread runs, and so on the clock.
const ROUNDS_WITHOUT_ERASE: usize = 32;

pub fn table(m: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name, what, ticks| rows.push(Row { name, what, ticks });
    work(m, &mut row);
    nor(m, &mut row);
    nand(m, &mut row);
    compressed(m, &mut row);
    simulations(m, &mut row);
    ext2(m, &mut row);
    rows
}

/// What each page more takes in a call of sixteen, outside the flash.
fn further(m: &Measured, key: &str) -> f64 {
    (m.outside_flash(&format!("{key}-64k"), 0) - m.outside_flash(key, 0)) / FURTHER_PAGES
}

fn work(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key| m.path(key, [0; 5]);
    row(
        "deflate-zeros",
        "`zlib_deflate` of a page as JFFS2 calls it: zeros",
        of("deflate-zeros"),
    );
    row("deflate-text", "the same, text", of("deflate-text"));
    row(
        "deflate-noise",
        "the same, noise: given up once it has filled a page",
        of("deflate-noise"),
    );
    row(
        "inflate-zeros",
        "`zlib_inflate` to a page: zeros",
        of("inflate-zeros"),
    );
    row("inflate-text", "the same, text", of("inflate-text"));
    row(
        "lzo-zeros",
        "`lzo1x_1_compress` of a page: zeros",
        of("lzo-zeros"),
    );
    row("lzo-text", "the same, text", of("lzo-text"));
    row("lzo-noise", "the same, noise: given up", of("lzo-noise"));
    row(
        "unlzo-zeros",
        "`lzo1x_decompress_safe` to a page: zeros",
        of("unlzo-zeros"),
    );
    row("unlzo-text", "the same, text", of("unlzo-text"));
    row(
        "rtime-noise",
        "JFFS2's rtime of a page of noise: given up",
        m.outside_flash("nor-any", 0) - m.outside_flash("nor-noise", 0) - of("lzo-noise"),
    );
    row("crc-4096", "`crc32` of 4096 bytes, eight a step", of("crc"));
    row(
        "copy-4096",
        "`memcpy` of 4096 bytes, eight a `rep movsq` step",
        of("copy"),
    );
    row(
        "from-user-4096",
        "`copy_from_user` of 4096 bytes",
        of("from-user"),
    );
    row(
        "enqueue",
        "`kmalloc` of 64 bytes, `get_page`, `list_add_tail`",
        of("enqueue"),
    );
    row("dequeue", "`list_del`, `put_page`, `kfree`", of("dequeue"));
    row(
        "tick",
        "the clock's interrupt, 250 a second, in a program that computes",
        m.call("tick", 0, |_| true),
    );
}

fn nor(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key| m.outside_flash(key, 0);
    row(
        "jffs2-append",
        "write(2) of 4 KiB at the end of a file, uncompressed, to NOR",
        of("nor-append"),
    );
    row(
        "jffs2-append-page",
        "the same, each further page of a write of 64 KiB",
        further(m, "nor-append"),
    );
    row(
        "jffs2-fill",
        "write(2) of 4 KiB into a file that ftruncate(2) made long, likewise",
        of("nor-hole"),
    );
    row(
        "jffs2-fill-page",
        "the same, each further page",
        further(m, "nor-hole"),
    );
    row(
        "jffs2-cached",
        "read(2) of 4 KiB that the page cache has",
        of("nor-cached"),
    );
    row(
        "jffs2-cached-page",
        "the same, each further page",
        further(m, "nor-cached"),
    );
    row(
        "jffs2-read",
        "read(2) of 4 KiB that it has not",
        of("nor-read"),
    );
    row(
        "jffs2-resize",
        "ftruncate(2) of an empty file to 1 MiB",
        of("nor-resize"),
    );
    row(
        "jffs2-fsync",
        "fsync(2) after a write of 4 KiB: nothing is left to do",
        m.outside_flash("nor-synced", 1),
    );
    row("jffs2-create", "open(2) of a new file", of("nor-create"));
    row("jffs2-close", "close(2)", m.outside_flash("nor-create", 1));
    row(
        "jffs2-unlink",
        "unlink(2) of the empty file",
        m.outside_flash("nor-create", 2),
    );
}

fn nand(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key| m.outside_flash(key, 0);
    row(
        "jffs2-nand-append",
        "write(2) of 4 KiB at the end of a file, uncompressed, to NAND with pages of 2 KiB",
        of("nand-append"),
    );
    row(
        "jffs2-nand-append-page",
        "the same, each further page",
        further(m, "nand-append"),
    );
    row(
        "jffs2-nand-fill",
        "write(2) of 4 KiB into a file that ftruncate(2) made long, likewise",
        of("nand-hole"),
    );
    row(
        "jffs2-nand-fill-page",
        "the same, each further page",
        further(m, "nand-hole"),
    );
    row(
        "jffs2-nand-read",
        "read(2) of 4 KiB that the page cache has not",
        of("nand-read"),
    );
    row(
        "jffs2-nand-resize",
        "ftruncate(2) of an empty file to 1 MiB",
        of("nand-resize"),
    );
    row(
        "jffs2-nand-fsync",
        "fsync(2) after a write of 4 KiB: the collector copies a node, which fills the write buffer",
        m.outside_flash_in("nand-synced", 1, |round| round < ROUNDS_WITHOUT_ERASE),
    );
    row(
        "jffs2-nand-create",
        "open(2) of a new file",
        of("nand-create"),
    );
    row(
        "jffs2-nand-unlink",
        "unlink(2) of the empty file",
        m.outside_flash("nand-create", 2),
    );
}

fn compressed(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key| m.outside_flash(key, 0);
    row(
        "jffs2-zlib-zeros",
        "write(2) of 4 KiB of zeros, zlib, to NOR",
        of("nor-zeros"),
    );
    row(
        "jffs2-zlib-zeros-page",
        "the same, each further page",
        further(m, "nor-zeros"),
    );
    row(
        "jffs2-zlib-text",
        "write(2) of 4 KiB of text, likewise",
        of("nor-text"),
    );
    row(
        "jffs2-zlib-noise",
        "write(2) of 4 KiB of noise, likewise",
        of("nor-noise"),
    );
    row(
        "jffs2-any-noise",
        "the same, by priority: lzo, zlib and rtime, one after the other",
        of("nor-any"),
    );
    row(
        "jffs2-any-text",
        "write(2) of 4 KiB of text, by priority: lzo, the first, is enough",
        of("nor-any-text"),
    );
    row(
        "jffs2-zlib-zeros-read",
        "read(2) of 4 KiB of zeros that the page cache has not",
        of("nor-zeros-read"),
    );
    row(
        "jffs2-zlib-text-read",
        "the same, text",
        of("nor-text-read"),
    );
    row(
        "jffs2-nand-zlib-zeros",
        "write(2) of 4 KiB of zeros, zlib, to NAND",
        of("nand-zeros"),
    );
    row(
        "jffs2-nand-zlib-zeros-page",
        "the same, each further page",
        further(m, "nand-zeros"),
    );
    row(
        "jffs2-nand-zlib-text",
        "write(2) of 4 KiB of text, likewise",
        of("nand-text"),
    );
}

fn simulations(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    row(
        "mtdram-append",
        "mtdram's share of `jffs2-append`",
        m.in_flash("nor-append", 0),
    );
    row(
        "mtdram-read",
        "its share of `jffs2-read`",
        m.in_flash("nor-read", 0),
    );
    row(
        "mtdram-create",
        "its share of `jffs2-create`",
        m.in_flash("nor-create", 0),
    );
    row(
        "nandsim-append",
        "nandsim's share of `jffs2-nand-append`, NAND core and Hamming code included",
        m.in_flash("nand-append", 0),
    );
    row(
        "nandsim-read",
        "its share of `jffs2-nand-read`",
        m.in_flash("nand-read", 0),
    );
    row(
        "nandsim-fsync",
        "its share of `jffs2-nand-fsync`",
        m.in_flash("nand-synced", 1),
    );
    row(
        "mtdblock-write",
        "pwrite(2) of 4 KiB, O_DIRECT, into the erase block that mtdblock holds",
        m.outside_flash("mtdblock", 0),
    );
    row("mtdblock-sector", "the same, each sector of 512 bytes", {
        (m.outside_flash("mtdblock", 0) - m.outside_flash("mtdblock-sector", 0)) / 7.0
    });
}

fn ext2(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key: &str| m.call(key, 0, |_| true);
    let further = |key: &str| (of(&format!("{key}-64k")) - of(key)) / FURTHER_PAGES;
    row(
        "ext2-append",
        "write(2) of 4 KiB at the end of a file, into the page cache",
        of("ext2-append"),
    );
    row(
        "ext2-append-page",
        "the same, each further page of a write of 64 KiB",
        further("ext2-append"),
    );
    row(
        "ext2-fill",
        "write(2) of 4 KiB into a file that ftruncate(2) made long",
        of("ext2-hole"),
    );
    row(
        "ext2-fill-page",
        "the same, each further page",
        further("ext2-hole"),
    );
    row(
        "ext2-cached",
        "read(2) of 4 KiB that the page cache has",
        of("ext2-cached"),
    );
    row(
        "ext2-cached-page",
        "the same, each further page",
        further("ext2-cached"),
    );
}
