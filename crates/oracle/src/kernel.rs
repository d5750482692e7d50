//! Debian's kernel, cut down to what a storage test needs: the image, unpacked, and an initial file
//! system with the modules and the program that lists trees.
//!
//! A prepared kernel is a directory of three files: `kernel`, `base.cpio`, and `complete`, written
//! last, which holds the release and the lengths of the other two.

use crate::cpio::Archive;
use crate::error::At;
use crate::{OracleError, boot, tools};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that always depends on the current kernel.
const PACKAGE: &str = "linux-image-amd64";

/// Modules without which no guest can speak or see its disks.
const REQUIRED: [&str; 3] = ["virtio_pci", "virtio_console", "virtio_blk"];

/// Modules that tests load, as far as this kernel has them; a `*` ends a prefix. `mp` in the guest
/// complains of one that is missing. What the modules need comes along by itself, except for
/// algorithms, which they ask for by name only when they run.
const WANTED: [&str; 31] = [
    "mtd",
    "mtdblock",
    "mtdblock_ro",
    "mtdram",
    "mtdswap",
    "block2mtd",
    "phram",
    "nandsim",
    "nftl",
    "jffs2",
    "ubi",
    "ubifs",
    "ext4",
    "vfat",
    "msdos",
    "f2fs",
    "loop",
    "brd",
    "nls_*",
    "crc16",
    "crc32_generic",
    "crc32c_generic",
    "libcrc32c",
    "lzo",
    "lzo_rle",
    "lz4",
    "lz4hc",
    "zstd",
    "deflate",
    "nbd",
    "virtio_net",
];

/// The program of the guest that lists a tree.
const LISTER: &str = include_str!("guest/list.c");

/// Lists that `depmod` reads beside the modules.
const LISTS: [&str; 3] = [
    "modules.order",
    "modules.builtin",
    "modules.builtin.modinfo",
];

/// A kernel that is ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// The path of the kernel image.
    pub image: PathBuf,
    /// The path of the image as Debian packs it. Guests in virtual time boot this one, because the
    /// published counts of instructions belong to such a boot.
    pub packed: PathBuf,
    /// An initial file system with the modules and [`LISTER`].
    pub base: PathBuf,
}

/// What `prepare` does, in words; a kernel prepared by another recipe is not used.
pub fn recipe() -> String {
    format!("3 {PACKAGE} {REQUIRED:?} {WANTED:?} {LISTER}")
}

/// The kernel in `place`, if it is whole.
pub fn open(place: &Path) -> Option<Kernel> {
    let complete = fs::read_to_string(place.join("complete")).ok()?;
    let [release, image_bytes, base_bytes] =
        complete.lines().collect::<Vec<_>>().try_into().ok()?;
    let whole = |name: &str, bytes: &str| {
        let path = place.join(name);
        (fs::metadata(&path).ok()?.len() == bytes.parse::<u64>().ok()?).then_some(path)
    };
    let packed = place.join("vmlinuz");
    Some(Kernel {
        packed: packed.is_file().then_some(packed)?,
        release: release.into(),
        image: whole("kernel", image_bytes)?,
        base: whole("base.cpio", base_bytes)?,
    })
}

/// Downloads the kernel package and prepares it in the directory `into`.
pub fn prepare(into: &Path, depmod: &Path) -> Result<(), OracleError> {
    let scratch = tempfile::tempdir_in(into).at(into)?;
    let (package, tree) = unpack(scratch.path())?;
    let root = ["", "usr"]
        .map(|prefix| tree.join(prefix))
        .into_iter()
        .find(|root| root.join("lib/modules").is_dir());
    let wrong = |found: &str| OracleError::Package {
        package: package.clone(),
        found: found.into(),
    };
    let root = root.ok_or_else(|| wrong("has no lib/modules"))?;
    let release = only_name(&root.join("lib/modules"))?
        .ok_or_else(|| wrong("has not exactly one directory in lib/modules"))?;
    tools::run(Command::new(depmod).arg("-b").arg(&root).arg(&release))?;
    let small = scratch.path().join("small");
    select(
        &root.join("lib/modules").join(&release),
        &small.join("lib/modules").join(&release),
    )
    .and_then(|missing| {
        missing.map_or(Ok(()), |name| Err(wrong(&format!("has no module {name}"))))
    })?;
    tools::run(Command::new(depmod).arg("-b").arg(&small).arg(&release))?;

    let image = into.join("kernel");
    let packed = tree.join(format!("boot/vmlinuz-{release}"));
    let unpacked = boot::unpack(&fs::read(&packed).at(&packed)?).map_err(|found| wrong(&found))?;
    fs::write(&image, &unpacked).at(&image)?;
    fs::copy(&packed, into.join("vmlinuz")).at(&packed)?;
    compile(&small.join("bin"))?;
    let base = into.join("base.cpio");
    pack(&small, &base)?;
    let image_bytes = unpacked.len();
    let base_bytes = fs::metadata(&base).at(&base)?.len();
    let complete = into.join("complete");
    fs::write(
        &complete,
        format!("{release}\n{image_bytes}\n{base_bytes}\n"),
    )
    .at(&complete)
}

/// Compiles the program that lists trees into a directory.
fn compile(into: &Path) -> Result<(), OracleError> {
    fs::create_dir_all(into).at(into)?;
    let source = into.with_extension("c");
    fs::write(&source, LISTER).at(&source)?;
    let mut gcc = Command::new(tools::locate("gcc")?);
    gcc.args(["-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&into.join("list"), &source]);
    tools::run(&mut gcc)?;
    fs::remove_file(&source).at(&source)
}

/// Downloads and unpacks the kernel package; its name and the unpacked tree.
fn unpack(scratch: &Path) -> Result<(String, PathBuf), OracleError> {
    let depends = tools::run(Command::new(tools::locate("apt-cache")?).args(["depends", PACKAGE]))?;
    let package = depends.lines().find_map(|line| {
        line.trim()
            .strip_prefix("Depends: ")
            .filter(|name| name.starts_with("linux-image-"))
    });
    let package = package.ok_or_else(|| OracleError::Package {
        package: PACKAGE.into(),
        found:
            "names no linux-image package it depends on; is this Debian, and `apt-get update` done?"
                .into(),
    })?;
    let tree = scratch.join("tree");
    download(package, &tree, scratch)?;
    Ok((package.into(), tree))
}

/// Downloads a package into the empty directory `scratch` and unpacks it over `tree`.
pub fn download(package: &str, tree: &Path, scratch: &Path) -> Result<(), OracleError> {
    tools::run(
        Command::new(tools::locate("apt-get")?)
            .args(["download", "-q", package])
            .current_dir(scratch),
    )?;
    let archive = only_name(scratch)?.ok_or_else(|| OracleError::Package {
        package: package.into(),
        found: "apt-get download left not exactly one file".into(),
    })?;
    tools::run(
        Command::new(tools::locate("dpkg")?)
            .arg("-x")
            .arg(scratch.join(archive))
            .arg(tree),
    )
    .map(drop)
}

/// The name of the only entry of a directory.
fn only_name(directory: &Path) -> Result<Option<String>, OracleError> {
    let entries: Vec<_> = fs::read_dir(directory)
        .at(directory)?
        .collect::<Result<_, _>>()
        .at(directory)?;
    Ok(match entries.as_slice() {
        [entry] => entry.file_name().into_string().ok(),
        _ => None,
    })
}

/// Copies the wanted modules with what they need; returns the name of a required one that is
/// neither a module nor built in.
fn select(from: &Path, to: &Path) -> Result<Option<&'static str>, OracleError> {
    let read = |name: &str| fs::read_to_string(from.join(name)).at(from.join(name));
    let needs = dependencies(&read("modules.dep")?);
    let builtin = read("modules.builtin")?;
    let there = |name: &str| {
        needs.contains_key(name) || builtin.lines().any(|path| module_name(path) == name)
    };
    let missing = REQUIRED.into_iter().find(|name| !there(name));
    let wanted = |name: &str| {
        REQUIRED.iter().chain(&WANTED).any(|w| {
            w.strip_suffix('*')
                .map_or(*w == name, |prefix| name.starts_with(prefix))
        })
    };
    let chosen: BTreeSet<_> = needs
        .iter()
        .filter(|(name, _)| wanted(name))
        .flat_map(|(_, files)| files)
        .collect();
    for file in chosen.into_iter().map(String::as_str).chain(LISTS) {
        let source = from.join(file);
        let target = to.join(file);
        let above = target.parent().unwrap_or(to);
        fs::create_dir_all(above).at(above)?;
        fs::copy(&source, &target).at(&source)?;
    }
    Ok(missing)
}

/// From `modules.dep` (`path: path ...`): the files that each module needs, its own first.
fn dependencies(text: &str) -> BTreeMap<String, Vec<String>> {
    let files = |line: &str| {
        line.split([':', ' '])
            .filter(|path| !path.is_empty())
            .map(String::from)
            .collect::<Vec<_>>()
    };
    text.lines()
        .map(files)
        .filter_map(|files| Some((module_name(files.first()?), files)))
        .collect()
}

/// `kernel/fs/fat/vfat.ko` is `vfat`; the kernel takes `-` and `_` for the same.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// Archives a tree of regular files, in the order of their paths.
fn pack(tree: &Path, to: &Path) -> Result<(), OracleError> {
    let mut archive = Archive::new(BufWriter::new(File::create(to).at(to)?));
    for path in files_below(tree)? {
        let mut content = File::open(&path).at(&path)?;
        let length = content.metadata().at(&path)?.len();
        let inside = path.strip_prefix(tree).unwrap_or(&path);
        archive
            .file(inside, 0o755, length, &mut content)
            .at(&path)?;
    }
    archive.finish().map(drop).at(to)
}

fn files_below(tree: &Path) -> Result<BTreeSet<PathBuf>, OracleError> {
    let mut pending = vec![tree.to_path_buf()];
    let mut files = BTreeSet::new();
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).at(&directory)? {
            let path = entry.at(&directory)?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn wanted_modules_bring_what_they_need_and_no_more() {
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("from");
        let to = root.path().join("to");
        let modules = [
            "fs/vfat",
            "fs/fat",
            "net/wifi",
            "nls/nls_utf8",
            "v/virtio-pci",
            "v/virtio_blk",
        ];
        modules
            .iter()
            .for_each(|m| write(&from.join(format!("kernel/{m}.ko")), m));
        let lines = modules.map(|m| {
            format!(
                "kernel/{m}.ko:{}\n",
                if m == "fs/vfat" {
                    " kernel/fs/fat.ko"
                } else {
                    ""
                }
            )
        });
        write(&from.join("modules.dep"), &lines.concat());
        LISTS
            .iter()
            .for_each(|list| write(&from.join(list), "kernel/c/virtio_console.ko\n"));
        assert_eq!(select(&from, &to).unwrap(), None);
        let there = modules.map(|m| to.join(format!("kernel/{m}.ko")).exists());
        assert_eq!(there, [true, true, false, true, true, true]);

        write(&from.join("modules.builtin"), "");
        assert_eq!(select(&from, &to).unwrap(), Some("virtio_console"));
    }

    #[test]
    fn a_kernel_that_lost_a_part_is_not_opened() {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("vmlinuz", "1"),
            ("kernel", "12345"),
            ("base.cpio", "123"),
            ("complete", "6.1.0\n5\n3\n"),
        ] {
            assert!(open(place.path()).is_none());
            write(&place.path().join(name), text);
        }
        assert_eq!(open(place.path()).unwrap().release, "6.1.0");
        write(&place.path().join("base.cpio"), "12");
        assert!(open(place.path()).is_none());
    }
}
