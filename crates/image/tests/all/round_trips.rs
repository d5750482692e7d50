//! What goes into an image comes out of it: contents, permissions, owners, times, links, devices,
//! attributes, holes.

use crate::common::{archive, bytes, differences, extracted, formats, held, made, tree};
use nandlab_image::check::check;
use nandlab_image::make::{self, Format};
use nandlab_image::tree::{Entry, Node};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_image::{manifest, tar_in};
use std::fs;

/// lost+found is ext's own; JFFS2 has whole seconds.
fn as_kept(name: &str, entries: &mut Vec<(Entry, Vec<u8>)>) {
    entries.retain(|(entry, _)| entry.path != b"lost+found");
    if name == "jffs2" {
        entries
            .iter_mut()
            .for_each(|(entry, _)| entry.mtime.nanos = 0);
    }
}

#[test]
fn every_format_gives_back_what_went_into_it() {
    for (name, format) in formats() {
        let scratch = tempfile::tempdir().unwrap();
        let image = scratch.path().join(name);
        let tree = tree(scratch.path(), name != "jffs2");
        let mut expected = held(&archive(&tree), scratch.path());
        made(&tree, format, &image, 2);
        let before = fs::read(&image).unwrap();
        let mut volume = Volume::open(&image, &Opening::default(), Access::Read).unwrap();
        assert_eq!(check(&mut volume).unwrap().findings, [], "{name}");
        let mut found = held(&extracted(&image), scratch.path());
        as_kept(name, &mut expected);
        as_kept(name, &mut found);
        assert_eq!(differences(&expected, &found), "", "{name}");
        assert!(fs::read(&image).unwrap() == before, "{name}: reading wrote");
    }
}

#[test]
fn lost_and_found_of_the_source_goes_into_the_one_that_ext_makes() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("tree");
    fs::create_dir_all(dir.join("lost+found")).unwrap();
    fs::write(dir.join("lost+found/#12"), bytes(1, 9000)).unwrap();
    let mut tree = nandlab_image::dir_in::read(&dir).unwrap();
    make::clamp_times(&mut tree, nandlab_vfs::Time::new(1_000_000));
    let all = formats();
    let format = |name| {
        all.iter()
            .find(|(found, ..)| *found == name)
            .unwrap()
            .1
            .clone()
    };
    let mut expected = None;
    for name in ["ext3", "jffs2", "ext3"] {
        let image = scratch.path().join(name);
        let tar = scratch.path().join("tar");
        made(&tree, format(name), &image, 1);
        let archive = extracted(&image);
        let found = held(&archive, scratch.path());
        assert_eq!(
            found
                .iter()
                .filter(|(entry, _)| entry.path == b"lost+found/#12")
                .count(),
            1
        );
        assert_eq!(
            differences(expected.get_or_insert(found.clone()), &found),
            "",
            "{name}"
        );
        fs::write(&tar, archive).unwrap();
        tree = tar_in::read(&tar).unwrap();
    }
}

#[test]
fn archives_keep_everything_and_holes() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = tree(scratch.path(), true);
    let first = archive(&tree);
    assert!(
        first.len() < 1_300_000,
        "{} bytes: holes are not stored",
        first.len()
    );
    let path = scratch.path().join("a.tar");
    fs::write(&path, &first).unwrap();
    let again = tar_in::read(&path).unwrap();
    let entries = |tree: &nandlab_image::tree::Tree| {
        tree.entries
            .iter()
            .map(|(entry, _)| entry.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(entries(&again), entries(&tree));
    assert!(
        archive(&again) == first,
        "an archive of an archive is the archive"
    );
}

#[test]
fn the_same_tree_makes_the_same_image_whatever_its_order_and_the_threads() {
    for (name, format) in formats() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = tree(scratch.path(), false);
        let mut other = tree.clone();
        other.entries.reverse();
        other.normalize().unwrap();
        let images = [(&tree, 1), (&other, 3)].map(|(tree, threads)| {
            let image = scratch.path().join(format!("{threads}"));
            made(tree, format.clone(), &image, threads);
            fs::read(image).unwrap()
        });
        assert!(images[0] == images[1], "{name}");
    }
}

#[test]
fn holes_and_zeros_make_the_same_image() {
    for (name, format) in formats() {
        let scratch = tempfile::tempdir().unwrap();
        let mut images = Vec::new();
        for holes in [true, false] {
            let dir = scratch.path().join(format!("tree {holes}"));
            fs::create_dir(&dir).unwrap();
            let mut data = vec![0; 1_000_001];
            data[500_000..500_100].copy_from_slice(&bytes(1, 100));
            let file = fs::File::create(dir.join("f")).unwrap();
            if holes {
                use std::os::unix::fs::FileExt as _;
                file.set_len(data.len() as u64).unwrap();
                file.write_all_at(&data[500_000..500_100], 500_000).unwrap();
            } else {
                fs::write(dir.join("f"), &data).unwrap();
            }
            let mut tree = nandlab_image::dir_in::read(&dir).unwrap();
            make::clamp_times(&mut tree, nandlab_vfs::Time::new(1_000_000));
            let image = scratch.path().join(format!("image {holes}"));
            made(&tree, format.clone(), &image, 2);
            images.push(fs::read(image).unwrap());
        }
        assert!(images[0] == images[1], "{name}");
    }
}

#[test]
fn a_directory_and_its_manifest_are_the_tree_again() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = tree(scratch.path(), true);
    let dir = scratch.path().join("dir");
    let list = scratch.path().join("list");
    let mut to_dir = nandlab_image::dir_out::DirOut::new(&dir).unwrap();
    let mut to_list = manifest::ManifestOut::new(fs::File::create(&list).unwrap(), &list);
    nandlab_image::sink::pour(
        &tree,
        &mut nandlab_image::sink::Both(&mut to_dir, &mut to_list),
    )
    .unwrap();
    let again = manifest::read(&list, &dir).unwrap();
    assert!(archive(&again) == archive(&tree));
}

#[test]
fn fat_gives_back_what_it_can_hold() {
    let scratch = tempfile::tempdir().unwrap();
    let mut tree = tree(scratch.path(), false);
    let text = |entry: &Entry| {
        str::from_utf8(&entry.path).is_ok_and(|path| !path.contains(['"', '\\', '\n']))
    };
    tree.entries.retain(|(entry, _)| {
        matches!(entry.node, Node::Directory | Node::File { .. })
            && text(entry)
            && entry.xattrs.is_empty()
    });
    tree.normalize().unwrap();
    let image = scratch.path().join("fat");
    made(
        &tree,
        Format::Fat(nandlab_fat::Format::default()),
        &image,
        2,
    );
    let plain = |archive: &[u8]| {
        let mut entries = held(archive, scratch.path());
        entries.retain(|(entry, _)| !entry.path.is_empty());
        for (entry, _) in &mut entries {
            (entry.mode, entry.uid, entry.gid, entry.mtime.nanos) = (0, 0, 0, 0);
            entry.mtime.secs = entry.mtime.secs.max(315_532_800) & !1;
        }
        entries
    };
    let differences = differences(&plain(&archive(&tree)), &plain(&extracted(&image)));
    assert_eq!(differences, "");
}
