//! The rows of `model_costs.sh`: the paths behind the terms of the cost model.

use super::costs::{Measured, Row};

/// Pages of 64 KiB beyond the first.
const FURTHER_PAGES: f64 = 15.0;

pub fn table(m: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name, what, ticks| rows.push(Row { name, what, ticks });
    pages(m, &mut row);
    compressors(m, &mut row);
    nodes(m, &mut row);
    ext3_writes(m, &mut row);
    ext3_syncs(m, &mut row);
    rows
}

fn pages(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key: &str| m.call(key, 0, |_| true);
    row(
        "ram-append",
        "write(2) of 4 KiB at the end of a file that only the page cache holds",
        of("ram-append"),
    );
    row(
        "ram-append-page",
        "the same, each further page of a write of 64 KiB",
        (of("ram-append-64k") - of("ram-append")) / FURTHER_PAGES,
    );
    row(
        "ram-overwrite",
        "write(2) of 4 KiB over others there",
        of("ram-overwrite"),
    );
    row(
        "ram-overwrite-page",
        "the same, each further page",
        (of("ram-overwrite-64k") - of("ram-overwrite")) / FURTHER_PAGES,
    );
    row(
        "ram-overwrite-256",
        "write(2) of 256 bytes over others there",
        of("ram-overwrite-256"),
    );
}

fn compressors(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key| m.path(key, [0; 5]);
    let mut short = |name, what| row(name, what, of(name));
    short("deflate-zeros-128", "`zlib_deflate` of 128 bytes: zeros");
    short("deflate-zeros-512", "`zlib_deflate` of 512 bytes: zeros");
    short("deflate-text-512", "the same, text");
    short("deflate-noise-512", "the same, noise");
    short("lzo-zeros-128", "`lzo1x_1_compress` of 128 bytes: zeros");
    short("lzo-text-512", "`lzo1x_1_compress` of 512 bytes: text");
}

fn nodes(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    row(
        "jffs2-nand-append-256",
        "write(2) of 256 bytes at the end of a file, uncompressed, to NAND",
        m.outside_flash("nand-append-256", 0),
    );
    row(
        "jffs2-nand-collapse",
        "the same that fills a page: one node takes the place of 15",
        m.outside_flash_in("nand-append-256", 0, |at| at % 16 == 15),
    );
    row(
        "jffs2-nand-overwrite",
        "write(2) of 4 KiB over others, likewise",
        m.outside_flash("nand-again", 0),
    );
    row(
        "jffs2-nand-read-two",
        "read(2) of 4 KiB, whose first 256 bytes are in another node, from NAND",
        m.outside_flash("nand-read-two", 0),
    );
}

fn ext3_writes(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key| m.outside_flash(key, 0);
    row(
        "ext3-append-in-page",
        "write(2) of 1 KiB at the end of a file on ext3, one block",
        of("ext3-1k-1k"),
    );
    row(
        "ext3-append-1k",
        "the same of 4 KiB, four blocks",
        of("ext3-1k-4k"),
    );
    row(
        "ext3-append",
        "the same of 4 KiB, one block",
        of("ext3-4k-4k"),
    );
    row(
        "ext3-append-page",
        "the same, each further page and block",
        (of("ext3-4k-64k") - of("ext3-4k-4k")) / FURTHER_PAGES,
    );
    row(
        "ext3-overwrite",
        "write(2) of 4 KiB over others, four blocks",
        of("ext3-1k-again"),
    );
    row(
        "ext3-overwrite-synced-1k",
        "the same after an fsync(2)",
        of("ext3-1k-synced"),
    );
    row(
        "ext3-overwrite-synced",
        "the same, one block",
        of("ext3-4k-again"),
    );
    row(
        "ext3-overwrite-page",
        "`ext3-overwrite`, each further page",
        (of("ext3-1k-64k-again") - of("ext3-1k-again")) / FURTHER_PAGES,
    );
}

fn ext3_syncs(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let of = |key| m.outside_flash(key, 1);
    row(
        "ext3-fsync",
        "fsync(2) after `ext3-append`: 3 writes of 55 sectors and 2 flushes, 4 blocks logged",
        of("ext3-4k-4k"),
    );
    row(
        "ext3-fsync-page",
        "the same, each further page of contents, 8 sectors",
        (of("ext3-4k-64k") - of("ext3-4k-4k")) / FURTHER_PAGES,
    );
    row(
        "ext3-fsync-overwrite",
        "fsync(2) after a write over 4 KiB in the same second: 1 write and 1 flush",
        of("ext3-4k-again"),
    );
}
