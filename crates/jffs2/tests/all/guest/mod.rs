//! Guests in which the kernel's jffs2 has media: programs, shell functions, and what it tells of
//! extended attributes.
pub mod calls;

use nandlab_oracle::{Guest, Oracle, Report};
use nandlab_vfs::{FileSystem, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::fs;

/// A guest without hardware support beside other tests is slow.
const PATIENCE: Duration = Duration::from_secs(900);

/// Programs that the scripts call by their full path.
const PROGRAMS: [&str; 3] = ["nandwrite", "nanddump", "flash_erase"];

/// Shell: a simulated NAND chip of 128 KiB blocks, its partitions, and what of its work goes into
/// the kernel's log; the erases so far, where they go there; passes of the garbage collector of a
/// medium, and standing still of the collector; a medium from a file and into one; the extended
/// attributes below a directory.
pub const FUNCTIONS: &str = r#"
    simulated() { # PARTS WORD...
        mp nandsim id_bytes=0xec,0xf1,0x00,0x15 log=1 parts=$1 && mount -t debugfs d /sys/kernel/debug || return 1
        shift
        for what; do echo "module nandsim format \"log: $what\" +p" >/sys/kernel/debug/dynamic_debug/control || return 1; done
    }
    erases() { dmesg | grep -c "log: erase sector"; }
    collector() { pidof jffs2_gcd_$1; }
    passes() { # MTD COUNT
        local pid=$(collector $1) n
        for n in $(seq $2); do kill -HUP $pid; usleep 2000; done
    }
    stopped() { kill -STOP $(collector $1); usleep 100000; }
    going() { kill -CONT $(collector $1); }
    nor_from() { dd if=$2 of=/dev/$1 bs=128k 2>/dev/null; }
    nand_from() { /usr/sbin/flash_erase -q /dev/$1 0 0 && cat $2 >/tmp/image && /usr/sbin/nandwrite -q --oob /dev/$1 /tmp/image >/dev/null; rm -f /tmp/image; }
    nor_into() { cat /dev/$1 >$2; }
    nand_into() { /usr/sbin/nanddump -q --oob --bb=dumpbad -f $2 /dev/$1; }
    attributes() { /play xattrs $1 >/tmp/attributes && send $2-attributes /tmp/attributes; }
"#;

/// The program `play`.
pub fn player() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["play.c", "play"].map(|name| dir.path().join(name));
    fs::write(&from, include_str!("play.c")).unwrap();
    let compiled = Command::new("gcc")
        .args(["-O2", "-Wall", "-Werror", "-static", "-o"])
        .arg(&to)
        .arg(&from)
        .output();
    let compiled =
        compiled.unwrap_or_else(|error| panic!("gcc: {error}: apt-get install gcc libc6-dev"));
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    fs::read(to).unwrap()
}

/// A guest that has `/play`, the programs, and runs `script` after [`FUNCTIONS`].
pub fn guest(script: &str) -> Guest {
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    println!("Linux {}", oracle.kernel_release());
    let guest = PROGRAMS.iter().fold(oracle.guest(), |guest, program| {
        guest.program(Path::new("/usr/sbin").join(program))
    });
    guest
        .file("/play", player())
        .timeout(PATIENCE)
        .memory(1500)
        .script([FUNCTIONS, script].concat())
}

/// Boots, and gives the report of a script that ended with status zero.
pub fn boot(guest: Guest) -> Report {
    let report = guest.run().unwrap_or_else(|error| panic!("{error}"));
    println!("guest: {:?}", report.wall);
    report.success().unwrap_or_else(|error| panic!("{error}"))
}

/// Attributes by path, as of the root `.`, and name.
pub type Attributes = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

/// What the kernel told.
pub fn attributes(told: &[u8]) -> Attributes {
    let parts: Vec<&[u8]> = told.split(|byte| *byte == 0).collect();
    let value = |hex: &[u8]| {
        hex.chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    parts
        .chunks_exact(3)
        .map(|entry| ((entry[0].to_vec(), entry[1].to_vec()), value(entry[2])))
        .collect()
}

/// What we see.
pub fn attributes_of(fs: &mut impl FileSystem) -> Attributes {
    let mut all = Attributes::new();
    for (path, entry) in tree::snapshot(fs).unwrap() {
        let path = if path.is_empty() {
            b".".to_vec()
        } else {
            [b"./", &*path].concat()
        };
        all.extend(
            entry
                .xattrs
                .into_iter()
                .map(|(name, value)| ((path.clone(), name), value)),
        );
    }
    all
}

/// Every attribute that is not the same in both, as lines with its length and the sum of its bytes:
/// `-` as expected, `+` as found.
pub fn attribute_differences(expected: &Attributes, found: &Attributes) -> String {
    let mut text = String::new();
    for key in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let values = [('-', expected.get(key)), ('+', found.get(key))];
        if values[0].1 != values[1].1 {
            for (sign, value) in values {
                let sum = value.map(|value| {
                    (
                        value.len(),
                        value.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
                    )
                });
                let [path, name] =
                    [&key.0, &key.1].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                text += &format!("{sign} {path} {name} {sum:?}\n");
            }
        }
    }
    text
}
