//! Takes the images out of Debian's source package.

use nandlab_block::Ram;
use nandlab_oracle::source;
use nandlab_testkit::{disk, tools};
use std::fs;
use std::path::{Path, PathBuf};

/// The release whose images the list names: that of Debian 12.
const RELEASE: &str = "1.47.0";

/// The checksum of the archive, as Debian's description of the source package has it.
const SHA256: &str = "6667afde56eef0c6af26684974400e4d2288ea49e9441bf5e6229195d51a3578";

/// The names under which a test may keep its image, with the package and program that unpack it.
const KINDS: [(&str, Option<(&str, &str)>); 4] = [
    ("image.gz", Some(("gzip", "gzip"))),
    ("image.bz2", Some(("bzip2", "bzip2"))),
    ("image.xz", Some(("xz-utils", "xz"))),
    ("image", None),
];

/// An image, still packed.
pub struct Image {
    /// The name of its test.
    pub name: String,
    path: PathBuf,
    unpacker: Option<(&'static str, &'static str)>,
}

/// All tests of e2fsck.
pub struct Images {
    /// Sorted by name.
    pub there: Vec<Image>,
    /// The tests without an image: a script makes theirs.
    pub without: Vec<String>,
}

impl Image {
    /// Unpacks the image; a part of a sector at its end is lost.
    pub fn disk(&self) -> Ram {
        let Some((package, program)) = self.unpacker else {
            return disk::load(&self.path);
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut command = tools::command(package, program);
        command.arg("-dc").arg(&self.path);
        let status = command.stdout(file.reopen().unwrap()).status().unwrap();
        assert!(status.success(), "{program} {}", self.path.display());
        disk::load(file.path())
    }
}

/// Unpacks the source package's tests of e2fsck into an empty directory.
pub fn unpacked(into: &Path) -> Images {
    let file = format!("e2fsprogs_{RELEASE}.orig.tar.gz");
    let archive = source::archive("e2fsprogs", &file, SHA256);
    let archive = archive.unwrap_or_else(|error| panic!("{error}"));
    let tests = format!("e2fsprogs-{RELEASE}/tests");
    let wanted = format!("{tests}/f_*");
    let options = ["-xzf", tools::text(&archive), "-C", tools::text(into)];
    let arguments = [&options[..], &["--wildcards", &wanted]].concat();
    tools::succeed("tar", "tar", &arguments);
    sorted(&into.join(tests))
}

fn sorted(tests: &Path) -> Images {
    let mut images = Images {
        there: Vec::new(),
        without: Vec::new(),
    };
    for entry in fs::read_dir(tests).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match image(&path, &name) {
            Some(image) => images.there.push(image),
            None if path.is_dir() => images.without.push(name),
            None => {}
        }
    }
    images.there.sort_by(|one, other| one.name.cmp(&other.name));
    images.without.sort();
    images
}

fn image(test: &Path, name: &str) -> Option<Image> {
    KINDS.iter().find_map(|(file, unpacker)| {
        let path = test.join(file);
        path.is_file().then(|| Image {
            name: name.into(),
            path,
            unpacker: *unpacker,
        })
    })
}
