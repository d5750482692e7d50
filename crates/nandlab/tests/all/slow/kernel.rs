//! The real kernel on our stacks: its ext4, F2FS and FAT drivers make, use and check file systems
//! on simulated flash, and find them again after the power went.
//!
//! Needs the tools of `nandlab-oracle`, e2fsprogs, f2fs-tools and dosfstools; fails naming the
//! Debian package that is missing.

use crate::common::{
    self, Flash,
    promises::{self, Promise, What},
};
use nandlab_ftl::{Cause, page::PageOptions};
use nandlab_nand::CrashStates;
use nandlab_oracle::{Disk, Guest, Manifest, Oracle, Report, manifest};
use nandlab_sim::{Nanos, mix};
use nandlab_testkit::share::whole_or;
use std::time::Duration;
use tempfile::TempDir;

/// A file system: its type, the erase blocks of the chip it lives on, and how it is made and
/// checked in the guest.
struct Kind {
    name: &'static str,
    blocks: u32,
    make: &'static str,
    check: &'static str,
}

const EXT4: Kind = Kind {
    name: "ext4",
    blocks: 256,
    make: "/usr/sbin/mkfs.ext4 -qF -b 4096",
    check: "/usr/sbin/e2fsck -fn",
};
const F2FS: Kind = Kind {
    name: "f2fs",
    blocks: 320,
    make: "/usr/sbin/mkfs.f2fs -q",
    check: "/usr/sbin/fsck.f2fs -f --dry-run",
};
const VFAT: Kind = Kind {
    name: "vfat",
    blocks: 256,
    make: "/usr/sbin/mkfs.vfat",
    check: "/usr/sbin/fsck.vfat -n",
};

/// Bytes of `/noise` in the guest.
const NOISE: usize = 8 << 20;
/// Bytes of the file that `churn` writes again and again.
const CHURNED: u64 = NOISE as u64;

/// Shell: `check KEY COMMAND...` says the command's exit status and sends what it printed.
const CHECK: &str = r#"
    check() {
        local key=$1
        shift
        "$@" >/tmp/check 2>&1
        say $key-check $?
        send $key-check /tmp/check
    }
"#;

/// A guest with its disks served.
struct Bench {
    guest: Guest,
    servers: Vec<nandlab_host::nbd::Server>,
    _sockets: TempDir,
}

impl Bench {
    /// `disks` are `/dev/vda` and so on; the tools of `kinds` and the script's `tree.sh` come
    /// along.
    fn new<'a>(disks: impl IntoIterator<Item = &'a Flash>, kinds: &[Kind], script: &str) -> Self {
        let mut guest = Oracle::ready()
            .unwrap_or_else(|missing| panic!("{missing}"))
            .guest()
            .file("/noise", common::noise(NOISE));
        for program in kinds.iter().flat_map(|kind| [kind.make, kind.check]) {
            guest = guest.program(program.split(' ').next().unwrap_or_default());
        }
        let sockets = tempfile::tempdir().unwrap();
        let mut servers = Vec::new();
        for (i, disk) in disks.into_iter().enumerate() {
            let socket = sockets.path().join(format!("disk{i}"));
            servers.push(disk.export(&socket));
            guest = guest.disk(Disk::Nbd { socket });
        }
        let guest = guest.script([include_str!("../common/tree.sh"), CHECK, script].concat());
        Self {
            guest,
            servers,
            _sockets: sockets,
        }
    }

    /// Boots, lets `listen` hear what the script says, and gives the report of a script that ended
    /// with status zero.
    fn boot(self, listen: impl FnOnce(&mut nandlab_oracle::Running)) -> Report {
        let mut running = self.guest.spawn().unwrap_or_else(|error| panic!("{error}"));
        listen(&mut running);
        let report = running
            .wait()
            .and_then(Report::success)
            .unwrap_or_else(|error| panic!("{error}"));
        println!("guest: {:?}", report.wall);
        self.servers
            .into_iter()
            .for_each(|server| server.stop().unwrap());
        report
    }
}

/// The device of the guest's disk number `i`.
fn device(i: usize) -> String {
    format!("/dev/vd{}", (b'a' + i as u8) as char)
}

/// What is wrong in the eyes of the file system's own checker.
fn complaint(report: &Report, key: &str) -> Option<String> {
    let key = format!("{key}-check");
    let printed = String::from_utf8_lossy(
        report
            .files
            .get(&key)
            .map_or(&b"nothing"[..], Vec::as_slice),
    );
    // What fsck.f2fs finds does not always show in its exit status.
    let clean = report.value(&key) == Some("0")
        && !printed.contains("[Fail]")
        && !printed.contains("[ASSERT]");
    (!clean).then(|| format!("checker: exit status {:?}\n{printed}", report.value(&key)))
}

/// Rounds of `churn` in the first life: enough to fill the flash.
fn rounds() -> u32 {
    whole_or(12, 9)
}

/// Shell: the first life of a file system, and what is asked of it in the next.
const LIVES: &str = r#"
    first() { # TYPE DEVICE MAKE
        local queue=/sys/block/${2#/dev/}/queue
        random=1 fsyncs=0
        mp $1 && $3 $2 >/dev/null && mount -t $1 -o discard $2 /mnt && tree 200 && change 200 && churn /mnt/churn $rounds || return 1
        rm /mnt/churn && sync && fstrim /mnt && manifest /mnt $1-written || return 1
        say $1-cache $(cat $queue/write_cache), fua $(cat $queue/fua)
        say $1-fsyncs $fsyncs
        umount /mnt && mount -t $1 $2 /mnt && manifest /mnt $1-remounted && umount /mnt
    }
    again() { # TYPE DEVICE
        mp $1 && mount -t $1 $2 /mnt && manifest /mnt $1-again && umount /mnt
    }
"#;

fn lives(kinds: &[Kind], verb: impl Fn(&Kind, &str) -> String) -> String {
    let life = |(i, kind): (usize, &Kind)| {
        let verb = verb(kind, &device(i));
        let device = device(i);
        format!(
            "{verb} || {{ echo {name} failed; exit 1; }}\ncheck {name} {check} {device}\n",
            name = kind.name,
            check = kind.check
        )
    };
    kinds
        .iter()
        .enumerate()
        .map(life)
        .fold(format!("rounds={}\n{LIVES}", rounds()), |script, life| {
            script + &life
        })
}

#[test]
fn ext4_f2fs_and_fat_live_on_the_page_layer_and_survive_a_power_cycle() {
    let kinds = [EXT4, F2FS, VFAT];
    let disks = kinds.each_ref().map(|kind| Flash::format(kind.blocks));
    let script = lives(&kinds, |kind, device| {
        format!("first {} {device} '{}'", kind.name, kind.make)
    });
    let first = Bench::new(&disks, &kinds, &script).boot(|_| ());
    for (kind, disk) in kinds.iter().zip(&disks) {
        let written = &first.manifests[&format!("{}-written", kind.name)];
        assert!(
            written.len() > 130,
            "{}: {} entries",
            kind.name,
            written.len()
        );
        assert_same(
            written,
            &first.manifests[&format!("{}-remounted", kind.name)],
            kind.name,
        );
        assert_eq!(complaint(&first, kind.name), None, "{}", kind.name);
        assert_requests_arrived(disk, &first, kind.name);
        assert_trimmed(disk, written, kind.name);
        assert_tally_is_whole(disk, kind.name);
    }
    let cycled = disks.each_ref().map(Flash::power_cycled);
    disks.iter().zip(&cycled).for_each(|(disk, cycled)| {
        assert!(
            disk.read_out() == cycled.read_out(),
            "the image has changed"
        )
    });
    let again = Bench::new(
        &cycled,
        &kinds,
        &lives(&kinds, |kind, device| {
            format!("again {} {device}", kind.name)
        }),
    )
    .boot(|_| ());
    for kind in &kinds {
        assert_same(
            &first.manifests[&format!("{}-written", kind.name)],
            &again.manifests[&format!("{}-again", kind.name)],
            kind.name,
        );
        assert_eq!(
            complaint(&again, kind.name),
            None,
            "{} after the power cycle",
            kind.name
        );
    }
}

fn assert_same(expected: &Manifest, found: &Manifest, what: &str) {
    assert_eq!(manifest::differences(expected, found), "", "{what}");
}

/// A virtio disk has no forced write, so that the kernel makes of each one a write and a flush.
/// ext4 commits with a flush before and a forced write; F2FS and FAT flush once an fsync.
fn assert_requests_arrived(disk: &Flash, report: &Report, name: &str) {
    let counts = disk.counts();
    let fsyncs: u64 = report
        .value(&format!("{name}-fsyncs"))
        .unwrap()
        .parse()
        .unwrap();
    println!("{name}: {fsyncs} fsyncs, {counts:?}");
    assert_eq!(
        report.value(&format!("{name}-cache")),
        Some("write back, fua 0"),
        "{name}"
    );
    let per_fsync = if name == "ext4" { 2 } else { 1 };
    assert!(
        fsyncs > 30 && counts.flushes.requests >= per_fsync * fsyncs,
        "{name}: {} flushes of {fsyncs} fsyncs",
        counts.flushes.requests
    );
    let failed =
        [counts.reads, counts.writes, counts.flushes, counts.discards].map(|count| count.failed);
    assert_eq!(failed, [0; 4], "{name}");
}

/// What was deleted is not held any more: beside the files there is less than what was churned.
fn assert_trimmed(disk: &Flash, tree: &Manifest, name: &str) {
    let sizes = tree.values().map(|entry| {
        if let manifest::Kind::File { size, .. } = entry.kind {
            size
        } else {
            0
        }
    });
    let files = sizes.sum::<u64>();
    let held = disk.held_bytes();
    let discards = disk.counts().discards;
    println!("{name}: {files} bytes in files, {held} held");
    assert!(
        discards.requests > 0 && discards.sectors * 512 >= CHURNED,
        "{name}: {discards:?}"
    );
    assert!(
        (files..files + CHURNED * 3 / 4).contains(&held),
        "{name}: {held} bytes held for {files} bytes in files"
    );
}

/// Every operation of the chip since its formatting has a cause.
fn assert_tally_is_whole(disk: &Flash, name: &str) {
    let tally = disk.tally();
    let chip = disk.chip_counts();
    let sum = |of: fn(&nandlab_ftl::CauseCounts) -> u64| {
        tally.rows().map(|(_, counts)| of(&counts)).sum::<u64>()
    };
    let formatted = u64::from(disk.blocks());
    println!(
        "{name}: {chip:?}, amplification {:?}, {} virtual ms",
        tally.amplification(true),
        disk.now() / 1_000_000
    );
    assert_eq!(
        [
            sum(|c| c.programs),
            sum(|c| c.copies),
            sum(|c| c.erases) + formatted
        ],
        [chip.programs, chip.copies, chip.erases],
        "{name}"
    );
    let host = tally
        .rows()
        .find(|(cause, _)| *cause == Cause::Host)
        .unwrap()
        .1;
    assert_eq!(host.programs, tally.host_pages, "{name}");
    assert!(
        tally.host_pages * 4096 >= disk.counts().writes.sectors * 512
            && tally.amplification(true) > Some(1.0),
        "{name}"
    );
    assert!(sum(|c| c.erases) > 0, "{name}: the flash was not filled");
}

/// Steps of each file system in the life that is cut.
fn steps() -> usize {
    whole_or(48, 24)
}

/// Cuts of each file system's life.
fn cuts_each() -> usize {
    whole_or(8, 2)
}

/// The life of one disk that is cut.
struct Cut {
    kind: Kind,
    disk: Flash,
    before: nandlab_nand::Chip,
    promises: Vec<Promise>,
}

/// One life of ext4 and F2FS side by side, with the moment of every promise.
fn live_and_promise() -> [Cut; 2] {
    let mut cuts = [EXT4, F2FS].map(|kind| {
        let (disk, before) = Flash::format_logged(kind.blocks, PageOptions::default());
        Cut {
            kind,
            disk,
            before,
            promises: Vec::new(),
        }
    });
    let churns = whole_or(8, 4);
    let begin = |(i, cut): (usize, &Cut)| {
        let name = cut.kind.name;
        let make = cut.kind.make;
        let device = device(i);
        format!(
            "mp {name} && {make} {device} >/dev/null && mkdir /mnt/{name} && mount -t {name} -o discard {device} /mnt/{name} && churn /mnt/{name}/churn {churns} || exit 1\n"
        )
    };
    let begins: String = cuts.iter().enumerate().map(begin).collect();
    // The volumes are left mounted: whatever is still in the guest's memory at the end was never
    // promised.
    let steps = steps();
    let script = format!(
        "{}{begins}for n in $(seq {steps}); do step ext4 $n && step f2fs $n || exit 1; done\nsay promise end\n",
        include_str!("../common/promises.sh")
    );
    let bench = Bench::new(cuts.iter().map(|cut| &cut.disk), &[EXT4, F2FS], &script);
    bench.boot(|running| {
        loop {
            let said = running
                .wait_for("promise", Duration::from_secs(120))
                .unwrap_or_else(|error| panic!("{error}"));
            let Some((name, promise)) = said.split_once(' ') else {
                break;
            };
            let cut = cuts.iter_mut().find(|cut| cut.kind.name == name).unwrap();
            cut.promises.push(Promise {
                at: cut.disk.now(),
                what: What::parse(promise).unwrap_or_else(|| panic!("{said:?}")),
            });
        }
    });
    cuts
}

impl Cut {
    /// Moments of the life: right after one promise in each part of it, or while the first few
    /// operations after that are under way.
    fn moments(&self) -> Vec<Nanos> {
        let log = self.disk.log();
        let part = self.promises.len() / cuts_each();
        let moment = |n: usize| {
            let promise = &self.promises[n * part + mix(2, n as u64) as usize % part];
            let later = log.partition_point(|op| op.start < promise.at);
            match n % 4 {
                0 => promise.at,
                k => log
                    .get(later + 2 * k - 1)
                    .map_or(promise.at, |op| op.start.midpoint(op.end)),
            }
        };
        let mut moments: Vec<Nanos> = (0..cuts_each()).map(moment).collect();
        moments.sort_unstable();
        moments
    }

    /// What is left of the disk by cuts at `moments`, attached from its chip alone.
    fn remains(&self, moments: &[Nanos]) -> Vec<Flash> {
        let log = self.disk.log();
        let mut states = CrashStates::new(self.before.fork().unwrap(), &log);
        moments
            .iter()
            .enumerate()
            .map(|(n, t)| Flash::attach(states.at(*t, mix(1, n as u64)).unwrap()))
            .collect()
    }
}

/// Shell: comes back after a cut, lists what is there, goes on, checks.
const RECOVER: &str = r#"
    recover() { # TYPE DEVICE KEY CHECK...
        local type=$1 device=$2 key=$3
        shift 3
        mount -t $type -o discard $device /mnt || { say $key-refused mount; return; }
        manifest /mnt $key
        part /mnt/after 0 300000 fsync && sha256sum </mnt/after >/dev/null || say $key-refused write
        umount /mnt && check $key "$@" $device
    }
"#;

#[test]
fn what_was_fsynced_is_there_after_a_power_cut_anywhere() {
    let cuts = live_and_promise();
    let moments = cuts.each_ref().map(Cut::moments);
    let remains: Vec<Vec<Flash>> = cuts
        .iter()
        .zip(&moments)
        .map(|(cut, moments)| cut.remains(moments))
        .collect();
    let key = |cut: &Cut, n: usize| format!("{}-{n}", cut.kind.name);
    let states = || {
        cuts.iter()
            .zip(&moments)
            .flat_map(|(cut, moments)| moments.iter().enumerate().map(move |(n, t)| (cut, n, *t)))
    };
    let recover = |(i, (cut, n, _)): (usize, (&Cut, usize, Nanos))| {
        format!(
            "recover {} {} {} {}\n",
            cut.kind.name,
            device(i),
            key(cut, n),
            cut.kind.check
        )
    };
    let recovers: String = states().enumerate().map(recover).collect();
    let script = [
        include_str!("../common/promises.sh"),
        RECOVER,
        "mp ext4; mp f2fs\n",
        &recovers,
        "dmesg >/tmp/dmesg; send dmesg /tmp/dmesg\n",
    ];
    let report = Bench::new(remains.iter().flatten(), &[EXT4, F2FS], &script.concat()).boot(|_| ());

    let noise = common::noise(NOISE);
    let mut broken = Vec::new();
    for (cut, n, t) in states() {
        let key = key(cut, n);
        let promised = cut
            .promises
            .iter()
            .filter(|promise| promise.at <= t)
            .count();
        let tree = report.manifests.get(&key).cloned().unwrap_or_default();
        println!(
            "{key}: cut at {} us, {promised} of {} promises, {} entries found",
            t / 1000,
            cut.promises.len(),
            tree.len()
        );
        let wrong = match report.value(&format!("{key}-refused")) {
            Some(what) => vec![format!("{what} refused")],
            None => promises::broken(&cut.promises, t, &tree, &noise, steps())
                .into_iter()
                .chain(complaint(&report, &key))
                .collect(),
        };
        broken.extend(
            wrong
                .into_iter()
                .map(|what| format!("{key}, cut at {t} ns with {promised} promises: {what}")),
        );
    }
    let dmesg = String::from_utf8_lossy(&report.files["dmesg"]);
    let dmesg: String = dmesg
        .lines()
        .filter(|line| line.contains("-fs ("))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(broken.is_empty(), "{}\n{dmesg}", broken.join("\n"));
    assert_recovery_had_work(&cuts, &dmesg);
}

/// A cut that leaves nothing to recover proves nothing.
fn assert_recovery_had_work(cuts: &[Cut], dmesg: &str) {
    for cut in cuts {
        println!(
            "{}: {}, {} chip operations",
            cut.kind.name,
            promises::summary(&cut.promises),
            cut.disk.log().len()
        );
        assert!(
            cut.promises.len() >= steps() + steps() / 4,
            "{}",
            cut.kind.name
        );
    }
    let journals = dmesg.matches("recovery complete").count();
    let rolled = dmesg.matches("recover_data: ino").count();
    println!("{journals} ext4 journals recovered, {rolled} files rolled forward by F2FS");
    assert_eq!(journals, cuts_each(), "{dmesg}");
    assert!(rolled > 0, "{dmesg}");
}
