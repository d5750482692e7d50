//! The real kernel and ours on the same volumes.

mod plant;

use crate::disk::{load, save};
use crate::files::put;
use crate::manifest::manifest;
use crate::{AssertClean, Mount};
use nandlab_block::Ram;
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Guest, Oracle, Report};
use nandlab_vfs::FileSystem;
use std::path::PathBuf;
use std::time::Duration;

pub use plant::plant;

/// The limit of one boot. A guest without hardware support is slow beside other tests.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// Shell: `edit DEVICE KEY TYPE` mounts a volume with [`plant()`]'s tree, lists it under
/// `KEY-found`, edits it and lists it under `KEY-left`.
pub const EDIT: &str = include_str!("edit.sh");

/// Returns a guest; what a boot needs is looked for first.
pub fn guest() -> Guest {
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    println!("Linux {}", oracle.kernel_release());
    oracle.guest().timeout(PATIENCE)
}

/// Boots a guest, whose script must succeed.
pub fn boot(guest: Guest) -> Report {
    let report = guest
        .run()
        .and_then(Report::success)
        .unwrap_or_else(|error| panic!("{error}"));
    println!("guest: {:?}", report.wall);
    report
}

/// Volumes that one guest gets as its disks.
pub struct Volumes {
    scratch: tempfile::TempDir,
    guest: Guest,
    script: String,
    count: u8,
}

impl Volumes {
    /// No volumes yet. The script begins with `prelude`.
    pub fn new(prelude: impl Into<String>) -> Self {
        Self {
            scratch: tempfile::tempdir().unwrap(),
            guest: guest(),
            script: prelude.into(),
            count: 0,
        }
    }

    /// Gives the guest a file.
    pub fn file(&mut self, path: &str, contents: Vec<u8>) {
        self.guest = self.guest.clone().file(path, contents);
    }

    /// Adds a volume, whose part of the script gets the name of its device.
    pub fn add(&mut self, name: &str, disk: &mut Ram, script: impl FnOnce(&str) -> String) {
        save(disk, &self.path(name));
        self.attach(name, script);
    }

    /// Adds a volume that another boot left.
    pub fn attach(&mut self, name: &str, script: impl FnOnce(&str) -> String) {
        let device = format!("/dev/vd{}", char::from(b'a' + self.count));
        self.count += 1;
        self.guest = self.guest.clone().disk(Disk::File(self.path(name)));
        self.script += &script(&device);
    }

    /// Adds a volume that the kernel mounts and lists under its name.
    pub fn add_listed(&mut self, name: &str, disk: &mut Ram, kind: &str) {
        self.add(name, disk, |device| listed(name, device, kind));
    }

    /// Appends to the script.
    pub fn shell(&mut self, text: &str) {
        self.script += text;
    }

    /// Boots the guest. Volumes that are added later are for another boot, with a new script.
    pub fn boot(&mut self) -> Report {
        boot(self.next())
    }

    /// Boots the guest and kills it when a file of each of these names is in its `/tmp`.
    pub fn kill_when_ready(&mut self, names: &[&str]) {
        for name in names {
            self.script += &format!("while [ ! -e /tmp/{name} ]; do sleep 1; done\n");
        }
        self.script += "say ready yes\nsleep 900\n";
        let mut running = self.next().spawn().unwrap();
        running.wait_for("ready", PATIENCE).unwrap();
        running.kill();
        assert!(running.wait().unwrap().qemu_killed);
    }

    /// Reads a volume as the guest left it.
    pub fn load(&self, name: &str) -> Ram {
        load(&self.path(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn next(&mut self) -> Guest {
        self.count = 0;
        let script = std::mem::take(&mut self.script);
        std::mem::replace(&mut self.guest, guest()).script(script)
    }
}

/// Shell: mounts a volume and lists it under its name. `kind` may be followed by mount options.
pub fn listed(name: &str, device: &str, kind: &str) -> String {
    format!("mount -t {kind} {device} /mnt && manifest /mnt {name} && umount /mnt || exit 1\n")
}

/// Trees that both sides must see alike: ours, and what the kernel makes of it.
pub struct BothWays<'m> {
    /// Mounts a volume with our driver.
    pub mount: Mount<'m>,
    /// Checks a volume and panics on findings.
    pub assert_clean: AssertClean,
    /// Makes the same tree as the kernel's script.
    pub plant: fn(&mut dyn FileSystem),
    /// Shell: loads the modules and defines `edit DEVICE KEY TYPE`.
    pub prelude: String,
    /// Drops what the format does not keep.
    pub kept: fn(Manifest) -> Manifest,
    /// Our tree has more entries.
    pub entries_min: usize,
    /// A name that the kernel made.
    pub landmark: &'static str,
}

impl BothWays<'_> {
    /// Runs the comparison on new volumes: name, the kernel's name of the format, and the disk.
    pub fn run(self, volumes: Vec<(&str, &str, Ram)>) {
        let mut guest = Volumes::new(&*self.prelude);
        let mut ours = Vec::new();
        for (name, kind, mut disk) in volumes {
            ours.push((name, self.planted(name, &mut disk)));
            guest.add(name, &mut disk, |device| {
                format!("edit {device} {name} {kind}\n")
            });
        }
        let report = guest.boot();
        let reported =
            |name: &str, when| (self.kept)(report.manifests[&format!("{name}-{when}")].clone());
        for (name, ours) in ours {
            assert!(ours.len() > self.entries_min, "a tree worth comparing");
            let different = differences(&ours, &reported(name, "found"));
            assert_eq!(different, "", "{name}: our tree, as the kernel sees it");
            self.go_on(name, &mut guest.load(name), &reported(name, "left"));
        }
    }

    fn planted(&self, name: &str, disk: &mut Ram) -> Manifest {
        let mut fs = (self.mount)(disk);
        (self.plant)(&mut *fs);
        fs.unmount().unwrap();
        drop(fs);
        (self.assert_clean)(disk, name);
        (self.kept)(manifest(&mut *(self.mount)(disk)))
    }

    /// Compares the kernel's tree, and adds files to the kernel's directory.
    fn go_on(&self, name: &str, disk: &mut Ram, theirs: &Manifest) {
        (self.assert_clean)(disk, name);
        let mut fs = (self.mount)(disk);
        let ours = (self.kept)(manifest(&mut *fs));
        let different = differences(theirs, &ours);
        assert_eq!(different, "", "{name}: the kernel's tree, as we see it");
        assert!(
            ours.keys().any(|path| path.ends_with(self.landmark)),
            "{name}"
        );
        let dir = nandlab_vfs::path::resolve(&mut *fs, b"made by the kernel")
            .unwrap()
            .ino;
        for number in 0..300 {
            put(
                &mut *fs,
                dir,
                &format!("added to the kernel's index {number}"),
                b"",
            );
        }
        fs.unmount().unwrap();
        drop(fs);
        (self.assert_clean)(disk, &format!("{name}: gone on with"));
    }
}
