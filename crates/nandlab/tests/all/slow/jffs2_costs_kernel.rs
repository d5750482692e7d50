//! What a page of a file costs a processor on the real kernel's JFFS2, and on what stands beside
//! it: compressors, ext2, mtdblock, copies, a tick.
//!
//! Needs the tools of `nandlab-oracle`, and mtd-utils, dosfstools, e2fsprogs, gcc and make; fails
//! naming the Debian package that is missing.

use crate::guest;
use crate::guest::{jffs2_costs, model_costs, published};

/// The heading in `docs/kernel-costs.md` under which the table is.
const HEADING: &str = "## JFFS2, and what it is compared with";

const MODEL_HEADING: &str = "## Behind the terms of the model";

/// Some page of text that stays as it is.
const TEXT: &[u8] = include_bytes!("../../../../../LICENSE-APACHE");
const PAGE_BYTES: usize = 4096;

#[test]
#[ignore = "counts paths of the kernel, not of ours: `cargo xtask test whole` runs it"]
fn a_page_through_jffs2_takes_the_published_instructions_in_every_boot() {
    let oracle = guest::oracle();
    let script = [
        include_str!("../guest/measure.sh"),
        include_str!("../guest/jffs2_costs.sh"),
    ]
    .concat();
    let guest = guest::guest(&oracle, &script)
        .file("/timed", guest::compiled(include_str!("../guest/timed.c")))
        .file("/text", &TEXT[..PAGE_BYTES])
        .file("/noise", guest::noise(PAGE_BYTES));
    let reports = published::counted(&guest);
    let packed = [
        "deflated-zeros",
        "deflated-text",
        "deflated-noise",
        "lzo-zeros",
        "lzo-text",
        "lzo-noise",
    ];
    let packed = packed.map(|key| {
        reports[0]
            .value(key)
            .and_then(|bytes| bytes.parse::<u32>().ok())
            .unwrap_or_else(|| panic!("no {key}"))
    });
    println!(
        "{}: zlib makes of zeros, text and noise {:?} bytes, lzo {:?}",
        oracle.kernel_release(),
        &packed[..3],
        &packed[3..]
    );
    assert!(
        packed[0] < 100 && packed[3] < 100 && packed[2] == 0 && packed[5] == 0,
        "{packed:?}"
    );
    assert!(
        [packed[1], packed[4]]
            .iter()
            .all(|bytes| (1000..3000).contains(bytes)),
        "{packed:?}"
    );
    let options = reports[0].value("ext2-options").unwrap_or_default();
    assert!(
        options.contains("nodelalloc"),
        "blocks are taken in write(2): {options}"
    );
    published::assert_published(HEADING, &reports, jffs2_costs::table);
}

#[test]
#[ignore = "counts paths of the kernel, not of ours: `cargo xtask test whole` runs it"]
fn the_terms_of_the_model_are_the_published_paths_in_every_boot() {
    let script = [
        include_str!("../guest/measure.sh"),
        include_str!("../guest/volumes.sh"),
        include_str!("../guest/model_costs.sh"),
    ]
    .concat();
    let guest = guest::guest(&guest::oracle(), &script)
        .file("/timed", guest::compiled(include_str!("../guest/timed.c")))
        .file("/text", &TEXT[..PAGE_BYTES])
        .file("/noise", guest::noise(1 << 16));
    let reports = published::counted(&guest);
    published::assert_published(MODEL_HEADING, &reports, model_costs::table);
}
