//! Bad traces and dumps in all their forms: each gives one clear error on standard error, nothing
//! on standard output, and exit status 2. Other mistakes are in `messages.txt`.

use crate::command::{Lab, SMALL};

/// Bytes of a trace, the options beside it, and what the message must say after `nandlab: t`.
const TRACES: &[(&[u8], &[&str], &str)] = &[
    (
        b"",
        &[],
        ": found no request of a known format in its first 64 KiB",
    ),
    (
        b"hello\nworld\n",
        &[],
        ": found no request of a known format",
    ),
    (&[0; 100_000], &[], ": found no request of a known format"),
    (
        b"0,0,512,W,0\n0,1,512,Q,1\n",
        &[],
        ":2:9: Opcode: found \"Q\", expected R or W",
    ),
    (
        b"0,0,512,W,0\n0,1,99999999999999999999,R,1\n",
        &[],
        ":2:5: ",
    ),
    (
        b"0,0,512,W,0\n1,1,512,R,1\n",
        &[],
        ":2:1: unit: found \"1\", expected the same unit throughout",
    ),
    (
        b"0,0,512,W,0\n0,99999999,512,W,1\n",
        &[],
        ": request 2: bytes 51199999488 to 51200000000 leave the device",
    ),
    (b"0,0,512,W,0\n", &["--set", "workload.fit=shrink"], ""),
    (
        b"128166372003061629,usr,0,Read,x,512,1\n128166372003061630,usr,0,Read,0,512,1\n",
        &[],
        ":1:31: Offset: found \"x\"",
    ),
    (b"fio version 9 iolog\n", &[], ":1:"),
    (b"fio version 2 iolog\n/dev/sda read 0\n", &[], ":2:"),
    (b"fio version 3 iolog\n", &[], ": no request in 1 lines"),
    (b"0,0,512,W,0\n", &["--set", "workload.format=msr"], ":1:"),
];

#[test]
fn each_bad_trace_gives_one_clear_error() {
    let lab = Lab::new();
    lab.write("s.toml", SMALL.as_bytes());
    for (bytes, options, expected) in TRACES {
        lab.write("t", bytes);
        let expected = if expected.is_empty() {
            "workload.fit=shrink: workload.fit: found \"shrink\"".into()
        } else {
            format!("t{expected}")
        };
        lab.refuses(
            &[&["replay", "t", "--stack", "s.toml"][..], options].concat(),
            &expected,
        );
    }
    lab.write("t", &[&b"0,0,512,W,0\n"[..], &vec![b'1'; 1 << 20]].concat());
    lab.refuses(
        &["replay", "t", "--stack", "s.toml"],
        "t:2: longer than 4096 bytes",
    );
    lab.refuses(
        &["replay", "none", "--stack", "s.toml"],
        "none: No such file",
    );
    lab.refuses(
        &["replay", "t", "--stack", "none.toml"],
        "none.toml: No such file",
    );
}

/// Length of a dump, how many of its first bytes are not erased, keys beside it, and what the
/// message must say.
const DUMPS: &[(usize, usize, &str, &str)] = &[
    (
        0,
        0,
        "",
        "d: found 0 bytes (0 blocks), expected 8650752 bytes (256 blocks",
    ),
    (
        2112 * 16 * 255,
        0,
        "",
        "d: found 8616960 bytes (255 blocks), expected 8650752 bytes (256 blocks of 16 pages of 2048 + 64 bytes)",
    ),
    (
        2048 * 16 * 256,
        0,
        "",
        "it is whole blocks of 2048-byte pages: a dump without OOB?",
    ),
    (
        2112 * 16 * 256,
        0,
        "oob-layout = \"none\"\n",
        "d: found 8650752 bytes (264 blocks), expected 8388608 bytes (256 blocks of 16 pages of 2048 + 0 bytes); a dump with OOB?",
    ),
    (
        2112 * 16 * 256 - 1,
        0,
        "",
        "it is not even whole pages of 2112 bytes: cut short?",
    ),
    (
        2112 * 16 * 256,
        40,
        "",
        "ftl: no header of this translation layer found on the medium; ftl.format = true would erase",
    ),
    (
        2112 * 16 * 256,
        0,
        "oob = 50\n",
        "e.toml:6:7: chip.oob: found 50, expected 62, which oob-layout",
    ),
    (
        2112 * 16 * 256,
        0,
        "contents = \"dropped\"\n",
        "e.toml:5:8: chip.load: found a dump, expected contents = \"kept\"",
    ),
];

#[test]
fn each_bad_dump_gives_one_clear_error() {
    let lab = Lab::new();
    for (length, written, more, expected) in DUMPS {
        let mut bytes = vec![0xFF; *length];
        bytes[..*written].fill(0);
        lab.write("d", &bytes);
        lab.write("e.toml", format!("[chip]\npreset = \"slc-2k\"\nblocks = 256\npages-per-block = 16\nload = \"d\"\n{more}").as_bytes());
        lab.refuses(&["run", "e.toml"], expected);
    }
    lab.write("e.toml", b"[chip]\npreset = \"slc-2k\"\nload = \"none\"\n");
    lab.refuses(&["run", "e.toml"], "none: No such file");
}

#[test]
fn a_chip_that_cannot_carry_the_layer_is_refused() {
    let lab = Lab::new();
    lab.write("e.toml", b"[chip]\npreset = \"slc-2k\"\nblocks = 4\n");
    lab.refuses(&["run", "e.toml"], "ftl: 4 erase blocks cannot hold");
    lab.write(
        "e.toml",
        b"[chip]\npreset = \"small-block-64MiB\"\noob = 8\n",
    );
    lab.refuses(
        &["run", "e.toml"],
        "chip.oob: found 8 user bytes, expected at least 15",
    );
    lab.write(
        "e.toml",
        b"[chip]\npreset = \"slc-2k\"\ncontents = \"file\"\ncontents-file = \"e.toml\"\n",
    );
    lab.refuses(
        &["run", "e.toml"],
        "chip.contents-file: e.toml: File exists",
    );
}
