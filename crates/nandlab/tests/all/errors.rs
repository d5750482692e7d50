//! What the command prints when a run breaks down, from the call to the page, and its exit status:
//! 1 for a medium that failed, 2 for a description that is wrong.

use crate::command::{Lab, SMALL};

/// Text of the experiment, overrides, exit status, and what the message must have, in this order.
type Row<'a> = (&'a str, &'a [&'a str], i32, &'a [&'a str]);

const SLC: &str = "[chip]\npreset = \"slc-2k\"\n[workload]\ntype = \"bonnie\"\n";

const ROWS: &[Row<'_>] = &[
    (
        SLC,
        &[
            "chip.blocks=256",
            "chip.bit-errors=2e-5",
            "ftl.scheme=none",
            "fs.type=jffs2",
            "workload.size=8 MiB",
        ],
        1,
        &[
            "nandlab: call 4137, read 4096 bytes at ",
            " of Bonnie.1: input/output error (EIO): read of inode 2, byte ",
            " of the device: ",
            "checksum of the data of inode 2: found ",
            ": page 16358 in block 255: uncorrectable\n",
        ],
    ),
    (
        SLC,
        &[
            "chip.blocks=160",
            "chip.pages-per-block=16",
            "chip.program-fail=0.002",
            "fs.type=ext3",
            "workload.size=1 MiB",
        ],
        1,
        &[
            "nandlab: call ",
            " of Bonnie.1: input/output error (EIO): ",
            ": device: worn out: no erase block left to write to: ",
            "page mapping: page 2434 in block 152: program failed\n",
        ],
    ),
    (
        SMALL,
        &["chip.blocks=4"],
        2,
        &["nandlab: ", "erase blocks cannot hold "],
    ),
    (
        SMALL,
        &["chip.pags=1"],
        2,
        &["nandlab: --set chip.pags=1: chip.pags: unknown key"],
    ),
];

/// Runs the experiment; its message must have all of `expected`, in this order.
fn check(lab: &Lab, (text, settings, status, expected): &Row<'_>) {
    lab.write("e.toml", text.as_bytes());
    let set = settings.iter().flat_map(|&setting| ["--set", setting]);
    let args: Vec<&str> = ["run", "e.toml"].into_iter().chain(set).collect();
    let (_, err) = lab.exits(*status, &args);
    let mut rest = err.as_str();
    for part in *expected {
        let found = rest.find(part);
        let at = found.unwrap_or_else(|| panic!("{settings:?}: expected {part:?} in {err:?}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn a_run_that_breaks_down_says_where_and_who_is_to_blame() {
    let lab = Lab::new();
    ROWS.iter().for_each(|row| check(&lab, row));
}

#[test]
fn a_loaded_chip_whose_header_cannot_be_read_names_the_page() {
    let lab = Lab::new();
    let text = format!("{SMALL}[workload]\nsize = \"4 MiB\"\nrequests = 300\n");
    lab.write("e.toml", text.as_bytes());
    lab.exits(0, &["run", "e.toml", "--set", "chip.save=flash.dump"]);
    let expected = [
        "the header of this translation layer cannot be read; ",
        ": page mapping: page ",
        " in block ",
        ": uncorrectable",
    ];
    let decayed = ["chip.load=flash.dump", "chip.bit-errors=3e-4"];
    check(&lab, &(&text, &decayed, 1, &expected));
}

#[test]
fn a_foreign_dump_is_bad_input() {
    let lab = Lab::new();
    let bytes = 256 * 16 * (2048 + 64);
    let mut dump = vec![0xFF; bytes];
    dump[..4].copy_from_slice(b"else");
    lab.write("flash.dump", &dump);
    let foreign = ["chip.load=flash.dump"];
    check(
        &lab,
        &(SMALL, &foreign, 2, &["ftl.format = true would erase"]),
    );
}
