//! A scan finds the tree of a volume that lost a part, and the inodes without a path.

use crate::hostile::forge;
use nandlab_sim::mix;
use nandlab_ubifs::format::{HEADER, Kind, node};
use nandlab_ubifs::{Bare, Finding, Format, Ubifs, format};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::tree::{Tree, snapshot};
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, SetAttr, Sync, Time, path};

type Volume = Ubifs<Bare<Vec<u8>>>;

const LEB: usize = 15_872;
const LEBS: u32 = 220;
const FANOUT: u32 = 8;

fn empty(choices: Format) -> Volume {
    let bytes = vec![0xFF; LEB * LEBS as usize];
    let choices = Format {
        page: Some(512),
        uuid: *b"sixteen bytes of",
        now: Time::new(1_700_000_000),
        ..choices
    };
    let lebs = format(Bare::with(bytes, LEB as u32, LEBS), &choices).unwrap();
    Ubifs::mount_writable(lebs).unwrap()
}

/// A volume after random calls: unmounted, or with a part of them in the journal.
fn lived(choices: Format, is_cut: bool) -> Vec<u8> {
    let mut fs = empty(choices);
    let rules = Rules {
        inodes_max: 150,
        ..Rules::unix()
    };
    let mut model = Model::new(7, rules);
    for calls in [900, 100] {
        fs.sync().unwrap();
        model.run(&mut fs, calls).unwrap();
    }
    model.release(&mut fs);
    fs.fsync(Ino::ROOT, Sync::All).unwrap();
    if !is_cut {
        fs.unmount().unwrap();
    }
    fs.into_lebs().into_bytes()
}

fn tree_of(fs: &mut Volume) -> Tree {
    snapshot(fs).unwrap()
}

fn plain(bytes: &[u8]) -> Volume {
    Ubifs::mount(Bare::new(bytes.to_vec()).unwrap().unwrap()).unwrap()
}

fn salvaged(bytes: &[u8]) -> Volume {
    let bare = Bare::new(bytes.to_vec()).unwrap();
    let bare = bare.or_else(|| Bare::guessed(bytes.to_vec()));
    Ubifs::salvage(bare.unwrap()).unwrap()
}

/// The blocks that begin with an index node.
fn index_blocks(bytes: &[u8]) -> Vec<u32> {
    let begins = |leb: &[u8]| {
        let first = node(leb, LEB as u32, FANOUT);
        first.is_ok_and(|(header, _)| header.kind == Kind::Index)
    };
    let blocks = (0..).zip(bytes.chunks(LEB));
    blocks
        .filter(|(_, leb)| begins(leb))
        .map(|(lnum, _)| lnum)
        .collect()
}

fn wipe(bytes: &mut [u8], lnum: u32, value: u8) {
    bytes[lnum as usize * LEB..][..LEB].fill(value);
}

#[test]
fn a_volume_that_lost_any_area_has_the_tree_that_it_had() {
    for (version, is_cut) in [(4, false), (5, true)] {
        let choices = Format {
            version,
            ..Format::default()
        };
        let bytes = lived(choices, is_cut);
        let mut whole = plain(&bytes);
        let here = whole.head().geometry;
        let expected = tree_of(&mut whole);
        assert!(expected.len() > 30, "{}", expected.len());
        let index = index_blocks(&bytes);
        let areas: [(&str, Vec<u32>); 7] = [
            ("superblock", vec![0]),
            ("masters", vec![1, 2]),
            ("log", (here.log_first()..here.lpt_first()).collect()),
            (
                "properties",
                (here.lpt_first()..here.orphan_first()).collect(),
            ),
            (
                "orphans",
                (here.orphan_first()..here.main_first()).collect(),
            ),
            ("index", index.clone()),
            ("all", (0..here.main_first()).chain(index).collect()),
        ];
        for (area, blocks) in areas {
            for value in [0xFF, 0, 0xA5] {
                let mut bytes = bytes.clone();
                blocks
                    .iter()
                    .for_each(|lnum| wipe(&mut bytes, *lnum, value));
                let mut fs = salvaged(&bytes);
                fs.reconnect();
                let found = tree_of(&mut fs);
                assert!(found == expected, "{version} {area} {value:#x}");
                let is_needed = !["properties", "orphans"].contains(&area);
                assert!(fs.is_salvaged() || !is_needed, "{area} {value:#x}");
                if is_needed {
                    assert!(!fs.check().findings.is_empty(), "{area}");
                }
            }
        }
    }
}

#[test]
fn a_part_of_the_index_that_is_gone_is_filled_by_a_scan() {
    let bytes = lived(Format::default(), false);
    let expected = tree_of(&mut plain(&bytes));
    let leaves = nodes(&bytes, Kind::Index);
    let mut salvages = 0;
    for (at, _) in leaves {
        let mut struck = bytes.clone();
        struck[at + 40] ^= 4;
        let mut fs = salvaged(&struck);
        salvages += u32::from(fs.is_salvaged());
        fs.reconnect();
        assert!(tree_of(&mut fs) == expected, "byte {at:#x}");
    }
    assert!(salvages > 3, "{salvages}");
}

/// The places and lengths of all nodes of a type.
pub fn nodes(bytes: &[u8], kind: Kind) -> Vec<(usize, usize)> {
    let found = (0..bytes.len()).step_by(8).filter_map(|at| {
        let (header, _) = node(&bytes[at..], LEB as u32, FANOUT).ok()?;
        (header.kind == kind).then_some((at, header.len as usize))
    });
    found.collect()
}

/// A file of three blocks that do not shrink, and some others.
pub fn with_a_file() -> (Vec<u8>, Vec<u8>) {
    let mut fs = empty(Format::default());
    let by = Caller::root(Time::new(1_700_000_000));
    let dir = fs
        .create(Ino::ROOT, b"dir", NewNode::Directory, 0o755, by)
        .unwrap();
    let file = fs
        .create(dir.ino, b"file", NewNode::File, 0o644, by)
        .unwrap();
    let contents = nandlab_testkit::files::bytes(3, 3 * 4096);
    fs.write(file.ino, 0, &contents, by.now).unwrap();
    fs.unmount().unwrap();
    (fs.into_lebs().into_bytes(), contents)
}

fn read(fs: &mut Volume, at: &str) -> Result<Vec<u8>, nandlab_vfs::Errno> {
    let attr = path::resolve(fs, at.as_bytes())?;
    let mut contents = vec![0; attr.size as usize];
    fs.read(attr.ino, 0, &mut contents).map(|_| contents)
}

#[test]
fn damaged_contents_are_never_taken_for_a_hole() {
    let (mut bytes, _) = with_a_file();
    index_blocks(&bytes.clone())
        .iter()
        .for_each(|lnum| wipe(&mut bytes, *lnum, 0));
    let data = nodes(&bytes, Kind::Data);
    let (at, len) = data[1];
    bytes[at + len / 2] ^= 1;
    let mut fs = salvaged(&bytes);
    assert!(read(&mut fs, "dir/file").is_err());
    assert_eq!(fs.cause().unwrap().at, Some(at as u64));
    let place = format!("LEB {}, byte {}", at / LEB, at % LEB);
    let findings = fs.check().findings;
    let is_told = |finding: &Finding| finding.to_string().contains(&place);
    assert!(findings.iter().any(is_told), "{findings:?}");
}

/// Damages the entry of the directory that holds the file.
fn forget_dir(bytes: &mut [u8]) {
    let is_dir = |at: usize| bytes[at + 56..].starts_with(b"dir\0");
    let entries = nodes(bytes, Kind::Dent);
    let (at, _) = entries.into_iter().find(|(at, _)| is_dir(*at)).unwrap();
    bytes[at + 57] ^= 1;
}

#[test]
fn what_no_path_leads_to_is_in_lost_and_found_with_all_that_is_in_it() {
    let (mut bytes, contents) = with_a_file();
    forget_dir(&mut bytes);
    let mut fs = salvaged(&bytes);
    assert!(!fs.is_salvaged());
    let told = fs.reconnect();
    let [Finding::Reconnected { inode, path }] = &told.findings[..] else {
        panic!("{told:?}");
    };
    assert_eq!(path, format!("lost+found/INO_{inode}_0").as_bytes());
    let file = format!("lost+found/INO_{inode}_0/file");
    assert_eq!(read(&mut fs, &file).unwrap(), contents);
    assert!(fs.reconnect().findings.is_empty());
}

#[test]
fn a_wrong_greatest_inode_number_costs_no_inode() {
    let (bytes, contents) = with_a_file();
    for greatest in [0, 65, u32::MAX.into(), u64::MAX] {
        let mut bytes = bytes.clone();
        for (at, _) in nodes(&bytes, Kind::Master) {
            forge(&mut bytes, at + 24, &u64::to_le_bytes(greatest));
        }
        let lebs = Bare::new(bytes.clone()).unwrap().unwrap();
        let mut fs = Ubifs::mount_writable(lebs).unwrap();
        let by = Caller::root(Time::new(1_700_000_000));
        let made = fs.create(Ino::ROOT, b"new", NewNode::File, 0o644, by);
        if greatest >= u32::MAX.into() {
            assert_eq!(made.map(|_| ()), Err(Errno::NoSpace));
        }
        forget_dir(&mut bytes);
        let mut fs = salvaged(&bytes);
        let told = fs.reconnect();
        let [Finding::Reconnected { inode, .. }] = &told.findings[..] else {
            panic!("{greatest}: {told:?}");
        };
        let file = format!("lost+found/INO_{inode}_0/file");
        assert_eq!(read(&mut fs, &file).unwrap(), contents, "{greatest}");
    }
}

#[test]
fn a_file_or_a_directory_whose_own_node_is_gone_keeps_its_name_and_what_is_in_it() {
    let (bytes, contents) = with_a_file();
    for (at, _) in nodes(&bytes, Kind::Inode) {
        let mut struck = bytes.clone();
        // All versions of the inode.
        let key = &bytes[at + HEADER as usize..][..8];
        for (at, _) in nodes(&bytes, Kind::Inode) {
            if &bytes[at + HEADER as usize..][..8] == key {
                struck[at + 110] ^= 1;
            }
        }
        let mut fs = salvaged(&struck);
        let told = fs.reconnect();
        assert!(
            matches!(&told.findings[..], [Finding::StandIn { .. }]),
            "{told:?}"
        );
        assert_eq!(read(&mut fs, "dir/file").unwrap(), contents, "byte {at:#x}");
    }
}

#[test]
fn a_scan_does_not_bring_back_what_was_removed_or_cut_off() {
    let mut fs = empty(Format::default());
    let now = Time::new(1_700_000_000);
    let by = Caller::root(now);
    let contents = nandlab_testkit::files::bytes(5, 20_000);
    for name in ["gone", "cut", "grown"] {
        let made = fs
            .create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, by)
            .unwrap();
        fs.write(made.ino, 0, &contents, now).unwrap();
        fs.forget(made.ino, 1);
    }
    fs.unlink(Ino::ROOT, b"gone", now).unwrap();
    let resize = |fs: &mut Volume, name: &[u8], size| {
        let ino = path::resolve(fs, name).unwrap().ino;
        let size = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        fs.setattr(ino, &size, now).unwrap();
    };
    resize(&mut fs, b"cut", 5000);
    resize(&mut fs, b"grown", 5000);
    resize(&mut fs, b"grown", 20_000);
    fs.unmount().unwrap();
    let mut bytes = fs.into_lebs().into_bytes();
    index_blocks(&bytes.clone())
        .iter()
        .for_each(|lnum| wipe(&mut bytes, *lnum, 0));
    let mut fs = salvaged(&bytes);
    assert!(fs.reconnect().findings.is_empty());
    assert!(path::resolve(&mut fs, b"gone").is_err());
    assert_eq!(read(&mut fs, "cut").unwrap(), contents[..5000]);
    let mut grown = contents[..5000].to_vec();
    grown.resize(20_000, 0);
    assert_eq!(read(&mut fs, "grown").unwrap(), grown);
}

#[test]
fn no_damage_makes_a_salvage_panic_or_never_end() {
    let bytes = lived(Format::default(), true);
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0xFF).collect();
    for seed in 0..150u64 {
        let mut struck = bytes.clone();
        for strike in 0..1 << (seed % 8) {
            let word = mix(seed, strike);
            let at = used[word as usize % used.len()];
            match word >> 61 {
                0 => {
                    let lnum = (at / LEB) as u32;
                    wipe(&mut struck, lnum, (word >> 40) as u8);
                }
                _ => struck[at] ^= 1 << (word >> 32 & 7),
            }
        }
        let bare = Bare::new(struck.clone()).unwrap();
        let Some(bare) = bare.or_else(|| Bare::guessed(struck)) else {
            continue;
        };
        let Ok(mut fs) = Ubifs::salvage(bare) else {
            continue;
        };
        fs.check();
        fs.reconnect();
        _ = snapshot(&mut fs);
        fs.check();
    }
}

#[test]
fn bytes_that_are_no_volume_are_refused() {
    assert!(Bare::guessed(vec![0u8; 1 << 20]).is_none());
    assert!(Bare::guessed(nandlab_testkit::files::bytes(1, 1 << 20)).is_none());
    let empty = Bare::with(vec![0xFF; 40 * LEB], LEB as u32, 40);
    let error = Ubifs::salvage(empty).unwrap_err().to_string();
    assert!(error.starts_with("LEB 0, byte 0"), "{error}");
}
