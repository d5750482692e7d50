//! UBI images: those of `ubinize`, byte for byte, and what lies in them.
//!
//! Needs mtd-utils; fails saying so.

mod common;

use common::{ERASE, archive, differences, extracted, held, made, tree};
use nandlab_image::make::Format;
use nandlab_image::ubinize::{Device, ubinize};
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_jffs2::{Compression, Medium};
use std::fs;
use std::process::Command;

const CONFIG: &str = "[data]\nmode=ubi\nimage=ext2\nvol_id=3\nvol_type=dynamic\nvol_name=data\nvol_flags=autoresize\n\
    [root]\nmode=ubi\nimage=jffs2\nvol_id=0\nvol_size=6MiB\nvol_type=dynamic\nvol_name=root\n\
    [fixed]\nmode=ubi\nimage=jffs2\nvol_id=1\nvol_type=static\nvol_name=fixed\n";

#[test]
fn an_image_is_that_of_ubinize_and_its_volumes_are_looked_into() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let tree = tree(scratch.path(), false);
    let page = 2048;
    let Format::Jffs2 { mut choices, mut shape } = Format::jffs2(ERASE, Compression::CLASSIC) else { panic!("JFFS2") };
    // A logical block is two pages shorter.
    (choices.medium, shape.page, shape.pages_per_block) = (Some(Medium::Unmarked), page, 128 * 1024 / page - 2);
    made(&tree, Format::Jffs2 { choices, shape }, &at("jffs2"), 1);
    made(&tree, Format::Ext(nandlab_ext::Format::default()), &at("ext2"), 1);
    fs::write(at("config"), CONFIG).unwrap();
    for sub_page in [512, page] {
        let device = Device { block: 128 * 1024, page, sub_page, image_seq: 77 };
        ubinize(&at("config"), device, &at("ours")).unwrap();
        let mut theirs = Command::new("/usr/sbin/ubinize");
        theirs.args(["-o", "theirs", "-p", "128KiB", "-m", "2048", "-s", &sub_page.to_string(), "-Q", "77", "config"]);
        let output =
            theirs.current_dir(scratch.path()).output().unwrap_or_else(|error| panic!("ubinize: {error}: apt-get install mtd-utils"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(fs::read(at("ours")).unwrap() == fs::read(at("theirs")).unwrap(), "sub-pages of {sub_page}");
        let mut expected = held(&archive(&tree), scratch.path());
        expected.iter_mut().for_each(|(entry, _)| entry.mtime.nanos = 0);
        assert_eq!(differences(&expected, &held(&extracted(&at("ours")), scratch.path())), "");
        let volume = Volume::open(&at("ours"), &Opening { volume: Some("data".into()), ..Opening::default() }, Access::Read).unwrap();
        assert!(matches!(volume.layers.last(), Some(Layer::Ext { .. })), "{:?}", volume.layers);
        let Some(Layer::Ubi { volumes, image_seq: 77, .. }) = volume.layers.get(1) else { panic!("{:?}", volume.layers) };
        let told: Vec<_> = volumes.iter().map(|volume| (volume.id, volume.name.as_str(), volume.kind, volume.holds)).collect();
        assert_eq!(
            told,
            [(0, "root", "dynamic", Some("JFFS2")), (1, "fixed", "static", Some("JFFS2")), (3, "data", "dynamic", Some("ext"))]
        );
    }
}
