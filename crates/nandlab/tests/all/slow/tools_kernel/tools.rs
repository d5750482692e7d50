//! What the tools are, and how each is called: scripts of the shell with `$TREE`, `$IMAGE`, `$OUT`
//! and `$NANDLAB`.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A format and its tools; of makers and takers the first is ours.
pub struct Format {
    pub name: &'static str,
    /// What of [`ASPECTS`](super::seen::ASPECTS) it cannot hold.
    pub lacks: &'static [&'static str],
    pub makers: &'static [(&'static str, &'static str)],
    pub takers: &'static [(&'static str, &'static str)],
}

/// On one thread: how far several have come where a file cannot be read is chance.
const OURS: (&str, &str) = ("nandlab", "$NANDLAB image extract --threads 1 $IMAGE $OUT");
const SALVAGE: (&str, &str) = (
    "nandlab --salvage",
    "$NANDLAB image extract --salvage $IMAGE $OUT",
);

pub const FORMATS: [Format; 4] = [
    Format {
        name: "JFFS2",
        lacks: &["times, ns"],
        makers: &[
            (
                "nandlab",
                "$NANDLAB image create --format jffs2 --block 64K --compress none $IMAGE $TREE",
            ),
            (
                "mkfs.jffs2",
                "mkfs.jffs2 -l -e 65536 --with-xattr -r $TREE -o $IMAGE",
            ),
        ],
        takers: &[OURS, SALVAGE, ("jefferson", "$JEFFERSON $IMAGE -d $OUT")],
    },
    Format {
        name: "F2FS",
        lacks: &[],
        makers: &[
            (
                "nandlab",
                "$NANDLAB image create --format f2fs $IMAGE $TREE",
            ),
            (
                "sload.f2fs",
                "truncate -s 64M $IMAGE && mkfs.f2fs -q $IMAGE && sload.f2fs -P -f $TREE $IMAGE",
            ),
        ],
        takers: &[
            OURS,
            SALVAGE,
            (
                "dump.f2fs",
                "mkdir $OUT && $DUMP_F2FS -r -f -P -L -o $OUT $IMAGE",
            ),
        ],
    },
    Format {
        name: "ext3",
        lacks: &[],
        makers: &[
            (
                "nandlab",
                "$NANDLAB image create --format ext3 $IMAGE $TREE",
            ),
            ("mke2fs -d", "mke2fs -q -t ext3 -b 4096 -d $TREE $IMAGE 32M"),
        ],
        takers: &[
            OURS,
            SALVAGE,
            (
                "debugfs rdump",
                "mkdir $OUT && debugfs -R \"rdump / $OUT\" $IMAGE",
            ),
        ],
    },
    Format {
        name: "FAT",
        lacks: &[
            "symlinks",
            "devices",
            "modes",
            "owners",
            "times, ns",
            "hard links",
            "xattrs",
            "holes",
        ],
        makers: &[
            (
                "nandlab",
                "$NANDLAB image create --format fat --lossy $IMAGE $TREE || test $? = 3",
            ),
            (
                "mcopy",
                "truncate -s 32M $IMAGE && mkfs.vfat $IMAGE && mcopy -s -m -i $IMAGE $TREE/* ::",
            ),
        ],
        takers: &[
            OURS,
            SALVAGE,
            ("mcopy", "mkdir $OUT && mcopy -s -m -n -i $IMAGE '::*' $OUT"),
        ],
    },
];

/// How a tool ended.
pub enum End {
    /// The program exited by itself.
    Status(ExitStatus),
    /// It was killed after a while.
    Hang,
}

impl End {
    pub fn reported(&self) -> String {
        use std::os::unix::process::ExitStatusExt as _;
        match self {
            Self::Hang => "hangs".into(),
            // A shell tells its child's signal as 128 and more.
            Self::Status(status) => match (status.code(), status.signal()) {
                (Some(code), _) if code > 128 => format!("crashes, signal {}", code - 128),
                (Some(code), _) => format!("status {code}"),
                (None, signal) => format!("crashes, signal {}", signal.unwrap_or(0)),
            },
        }
    }

    pub fn is_success(&self) -> bool {
        matches!(self, Self::Status(status) if status.success())
    }
}

/// Runs a script, for some minutes at most.
pub fn run(script: &str, places: &[(&str, &Path)]) -> End {
    let mut command = Command::new("timeout");
    command
        .args(["-s", "KILL", "180", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
        .env("NANDLAB", env!("CARGO_BIN_EXE_nandlab"))
        .envs(places.iter().copied());
    let start = Instant::now();
    let status = command.status().expect("coreutils");
    if start.elapsed() >= Duration::from_secs(180) {
        End::Hang
    } else {
        End::Status(status)
    }
}
