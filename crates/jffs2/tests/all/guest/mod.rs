//! Guests in which the kernel's jffs2 has media: programs, shell functions, and its reports of
//! extended attributes.

pub mod calls;

use nandlab_oracle::Guest;
use nandlab_testkit::{kernel, tools};
use std::path::Path;

pub use nandlab_testkit::kernel::boot;
pub use nandlab_testkit::xattrs::{
    Attributes, differences as attribute_differences, seen as attributes_of, sent as attributes,
};

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

pub fn player() -> Vec<u8> {
    tools::compiled(include_str!("play.c"))
}

/// A guest that has `/play`, the programs, and runs `script` after [`FUNCTIONS`].
pub fn guest(script: &str) -> Guest {
    PROGRAMS
        .iter()
        .fold(kernel::guest(), |guest, program| {
            guest.program(Path::new("/usr/sbin").join(program))
        })
        .file("/play", player())
        .memory(1500)
        .script([FUNCTIONS, script].concat())
}
