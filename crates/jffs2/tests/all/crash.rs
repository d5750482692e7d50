//! Power cuts before, within and after every flash operation of mixed runs, collecting included:
//! the tree is that after some call, not before the last sync; of a call of several nodes it may be
//! what the first of them say. And going on works.

use crate::common::{NOW, bytes, chip, read_only, text};
use nandlab_jffs2::{Compression, Jffs2, Options};
use nandlab_nand::{Chip, CrashStates, LoggedOp};
use nandlab_sim::{Nanos, mix};
use nandlab_testkit::media::Media;
use nandlab_vfs::{
    Caller, FileSystem, FileType, Ino, MemFs, NewNode, Rename, SetAttr, SetXattr, Sync, tree,
};
use std::collections::BTreeMap;

/// What is compared of an inode.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    kind: FileType,
    mode: u16,
    contents: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

type Tree = BTreeMap<Vec<u8>, Seen>;

fn seen<F: FileSystem>(fs: &mut F) -> Tree {
    let entry = |entry: tree::Entry| Seen {
        kind: entry.attr.kind,
        mode: entry.attr.mode,
        contents: entry.contents,
        xattrs: entry.xattrs,
    };
    tree::snapshot(fs)
        .unwrap()
        .into_iter()
        .filter(|(path, _)| !path.is_empty())
        .map(|(path, found)| (path, entry(found)))
        .collect()
}

/// One step of a run: when it had returned, and the tree after it.
struct Step {
    end: Nanos,
    call: Call,
    after: Tree,
}

#[derive(Clone, Debug)]
enum Call {
    Create(String),
    Mkdir(String),
    Write(String, u64, Vec<u8>),
    Cut(String, u64),
    Mode(String, u16),
    Remove(String),
    Rename(String, String),
    Xattr(String, Option<Vec<u8>>),
    Sync,
}

/// A call that changes something, or nothing in both.
fn call<F: FileSystem>(fs: &mut F, call: &Call) {
    let place = |fs: &mut F, path: &str| {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = if dir.is_empty() {
            Ino::ROOT
        } else {
            fs.lookup(Ino::ROOT, dir.as_bytes()).unwrap().ino
        };
        (dir, name.as_bytes().to_vec())
    };
    let found = |fs: &mut F, path: &str| {
        let (dir, name) = place(fs, path);
        let ino = fs.lookup(dir, &name).unwrap().ino;
        fs.forget(ino, 1);
        ino
    };
    match call {
        Call::Create(path) => {
            let (dir, name) = place(fs, path);
            let made = fs
                .create(dir, &name, NewNode::File, 0o644, Caller::root(NOW))
                .unwrap();
            fs.forget(made.ino, 1);
        }
        Call::Mkdir(path) => {
            let made = fs
                .mkdir(Ino::ROOT, path.as_bytes(), 0o755, Caller::root(NOW))
                .unwrap();
            fs.forget(made.ino, 1);
        }
        Call::Write(path, offset, data) => {
            let file = found(fs, path);
            assert_eq!(fs.write(file, *offset, data, NOW), Ok(data.len()));
        }
        Call::Cut(path, size) => {
            let file = found(fs, path);
            fs.setattr(
                file,
                &SetAttr {
                    size: Some(*size),
                    ..SetAttr::default()
                },
                NOW,
            )
            .unwrap();
        }
        Call::Mode(path, mode) => {
            let file = found(fs, path);
            fs.setattr(
                file,
                &SetAttr {
                    mode: Some(*mode),
                    ..SetAttr::default()
                },
                NOW,
            )
            .unwrap();
        }
        Call::Remove(path) => {
            let (dir, name) = place(fs, path);
            fs.unlink(dir, &name, NOW).unwrap();
        }
        Call::Rename(from, to) => {
            let from = place(fs, from);
            let to = place(fs, to);
            fs.rename((from.0, &from.1), (to.0, &to.1), Rename::Replace, NOW)
                .unwrap();
        }
        Call::Xattr(path, value) => {
            let file = found(fs, path);
            match value {
                Some(value) => fs
                    .setxattr(file, b"user.k", value, SetXattr::Any, NOW)
                    .unwrap(),
                None => _ = fs.removexattr(file, b"user.k", NOW),
            }
        }
        Call::Sync => fs.sync().unwrap(),
    }
}

/// The next call of a run, one that can be made.
fn choose(judge: &mut MemFs, seed: u64, step: u64) -> Call {
    let dice = |n: u64, bound: usize| (mix(mix(seed, step), n) % bound as u64) as usize;
    let tree = seen(judge);
    let files: Vec<String> = tree
        .iter()
        .filter(|(_, seen)| seen.kind == FileType::File)
        .map(|(path, _)| String::from_utf8(path.clone()).unwrap())
        .collect();
    let dirs: Vec<String> = tree
        .iter()
        .filter(|(_, seen)| seen.kind == FileType::Directory)
        .map(|(path, _)| String::from_utf8(path.clone()).unwrap())
        .collect();
    let new = |n: u64| match dirs.get(dice(n, 4)) {
        Some(dir) => format!("{dir}/n{}", dice(n + 1, 9)),
        None => format!("n{}", dice(n + 1, 9)),
    };
    let Some(file) = files.get(dice(1, files.len().max(1))).cloned() else {
        return Call::Create(new(2));
    };
    let size = tree[file.as_bytes()].contents.len();
    match dice(0, 16) {
        0 if dirs.len() < 3 => Call::Mkdir(format!("d{}", dirs.len())),
        0..=2 if files.len() < 12 => {
            let path = new(5);
            if tree.contains_key(path.as_bytes()) {
                Call::Remove(path)
            } else {
                Call::Create(path)
            }
        }
        3 => Call::Remove(file),
        4 => Call::Cut(file, dice(6, size + 1) as u64),
        5 => Call::Mode(file, dice(7, 0o1000) as u16),
        6 | 7 => Call::Rename(file, new(8)),
        8 => Call::Xattr(file, (dice(10, 3) > 0).then(|| bytes(step, 30))),
        9 => Call::Sync,
        _ => {
            let offset = dice(11, size + 1).min(5000);
            let len = 1 + dice(12, 3000);
            let data = if dice(13, 2) == 0 {
                bytes(step, len)
            } else {
                text(step, len)
            };
            Call::Write(file, offset as u64, data)
        }
    }
}

/// Whether a call of which only the first nodes are there may leave this.
fn is_between(before: &Tree, call: &Call, after: &Tree, found: &Tree) -> bool {
    match call {
        Call::Write(path, ..) => {
            let key = path.as_bytes();
            let (Some(old), Some(new), Some(there)) =
                (before.get(key), after.get(key), found.get(key))
            else {
                return false;
            };
            let old = &old.contents;
            let new = &new.contents;
            let there = &there.contents;
            let same = new.iter().zip(there).take_while(|(a, b)| a == b).count();
            let rest = there.len() >= old.len()
                && there.len() <= new.len()
                && there[same..] == *old.get(same..).unwrap_or_default();
            let others = |tree: &Tree| {
                tree.iter()
                    .filter(|(path, _)| **path != key)
                    .map(|(path, seen)| (path.clone(), seen.clone()))
                    .collect::<Tree>()
            };
            rest && others(before) == others(found)
        }
        // Both names, the new one already what it will be.
        Call::Rename(from, _) => {
            let mut both = after.clone();
            both.extend(
                before
                    .get_key_value(from.as_bytes())
                    .map(|(path, seen)| (path.clone(), seen.clone())),
            );
            both == *found
        }
        _ => false,
    }
}

struct Run {
    base: Chip,
    log: Vec<LoggedOp>,
    steps: Vec<Step>,
}

/// Fills a small chip, then makes calls of which every flash operation is logged.
fn run(seed: u64, options: Options, calls: u64) -> Run {
    let mut judge = MemFs::new(1 << 30, NOW);
    let mut fs = Jffs2::mount(chip(17, 8), options).unwrap();
    for step in 0..200 {
        let next = choose(&mut judge, seed, step);
        call(&mut judge, &next);
        call(&mut fs, &next);
    }
    fs.unmount().unwrap();
    let mut chip = fs.into_mtd();
    let base = chip.fork().unwrap();
    chip.start_log();
    let start = chip.clock().now();
    let mut steps = vec![Step {
        end: start,
        call: Call::Sync,
        after: seen(&mut judge),
    }];
    let mut fs = Jffs2::mount(chip, options).unwrap();
    for step in 1000..1000 + calls {
        let next = choose(&mut judge, seed, step);
        call(&mut judge, &next);
        call(&mut fs, &next);
        let end = fs.mtd_mut().clock().now();
        steps.push(Step {
            end,
            call: next,
            after: seen(&mut judge),
        });
    }
    let log = fs.mtd_mut().logged().to_vec();
    Run { base, log, steps }
}

/// Looks at every state of a run; gives how many there were, and a digest of what the mounts did.
fn explore(seed: u64, options: Options, calls: u64) -> (u32, Media) {
    let run = run(seed, options, calls);
    let mut times: Vec<Nanos> = run
        .log
        .iter()
        .flat_map(|op| [op.start, op.start + (op.end - op.start) / 2, op.end])
        .collect();
    times.sort_unstable();
    times.dedup();
    let erases = run
        .log
        .iter()
        .filter(|op| matches!(op.kind, nandlab_nand::LoggedKind::Erase(_)))
        .count();
    assert!(erases > 10, "{erases} erases: nothing was collected");
    let mut states = CrashStates::new(run.base, &run.log);
    let mut count = 0;
    let mut mounts = Media::default();
    for t in times {
        for round in 0..2 {
            let word = mix(mix(seed, t), round);
            let what = format!("{options:?} seed {seed}, cut at {t}, word {word}");
            mounts.add(look(
                states.at(t, word).unwrap(),
                &run.steps,
                t,
                options,
                word,
                &what,
            ));
            count += 1;
        }
    }
    (count, mounts)
}

/// Returns a digest of what the mount found, and of the operations that it took.
fn look(
    mut chip: Chip,
    steps: &[Step],
    t: Nanos,
    options: Options,
    word: u64,
    what: &str,
) -> Media {
    if word.is_multiple_of(4) {
        // Cut off again while the first mount after the cut writes.
        let mut fs = Jffs2::mount(chip, options).unwrap_or_else(|error| panic!("{what}: {error}"));
        _ = FileSystem::work(&mut fs, NOW);
        chip = fs.into_mtd().fork().unwrap();
    }
    let mut fs = Jffs2::mount(chip, options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut mount = Media::default();
    let chip = fs.mtd_mut();
    mount.note(&(chip.counts(), chip.clock().now()));
    mount.note(&fs.statfs());
    if let Err(error) = tree::snapshot(&mut fs) {
        panic!("{what}: {error} ({:?})", fs.fault());
    }
    let found = seen(&mut fs);
    let begun = steps
        .iter()
        .position(|step| step.end > t)
        .unwrap_or(steps.len() - 1);
    let durable = steps[..=begun]
        .iter()
        .rposition(|step| (options.sync || matches!(step.call, Call::Sync)) && step.end <= t)
        .unwrap_or(0);
    let whole = (durable..=begun).any(|step| steps[step].after == found);
    let partly = || {
        (durable..begun).any(|step| {
            is_between(
                &steps[step].after,
                &steps[step + 1].call,
                &steps[step + 1].after,
                &found,
            )
        })
    };
    if !whole && !partly() {
        let (nearest, wrong) = (durable..=begun)
            .map(|step| (step, difference(&steps[step].after, &found)))
            .min_by_key(|(_, wrong)| wrong.len())
            .unwrap();
        panic!(
            "{what}: no tree of {durable} to {begun}; nearest {nearest}, then {:?}: {wrong:?}",
            steps.get(nearest + 1).map(|step| &step.call)
        );
    }
    if word % 8 < 2 {
        go_on(fs, found, options, what);
    }
    mount
}

fn difference(expected: &Tree, found: &Tree) -> Vec<String> {
    let paths: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let short = |seen: Option<&Seen>| {
        seen.map(|seen| (seen.kind, seen.mode, seen.contents.len(), seen.xattrs.len()))
    };
    paths
        .into_iter()
        .filter(|path| expected.get(*path) != found.get(*path))
        .map(|path| {
            format!(
                "{}: {:?} {:?}",
                String::from_utf8_lossy(path),
                short(expected.get(path)),
                short(found.get(path))
            )
        })
        .collect()
}

fn go_on(mut fs: Jffs2<Chip>, mut found: Tree, options: Options, what: &str) {
    for round in 0..6u64 {
        let name = format!("after {round}");
        let data = bytes(round, 3000);
        let file = fs
            .create(
                Ino::ROOT,
                name.as_bytes(),
                NewNode::File,
                0o600,
                Caller::root(NOW),
            )
            .unwrap_or_else(|e| {
                let st = fs.statfs();
                let n: usize = found.values().map(|s| s.contents.len()).sum();
                panic!("{what}: {e} {:?} {st:?} live {n} round {round}", fs.fault())
            })
            .ino;
        assert_eq!(fs.write(file, 0, &data, NOW), Ok(3000), "{what}");
        fs.fsync(file, Sync::All).unwrap();
        fs.forget(file, 1);
        found.insert(
            name.into_bytes(),
            Seen {
                kind: FileType::File,
                mode: 0o600,
                contents: data,
                xattrs: BTreeMap::new(),
            },
        );
    }
    let mut again = Jffs2::mount(
        fs.into_mtd(),
        Options {
            read_only: true,
            ..options
        },
    )
    .unwrap();
    let after = seen(&mut again);
    assert_eq!(after, found, "{what}: {:?}", difference(&found, &after));
}

#[test]
fn every_cut_is_survived() {
    let base = Options {
        compression: Compression::CLASSIC,
        ..Options::default()
    };
    let sets = [
        base,
        Options {
            summary: false,
            sync_collects: false,
            ..base
        },
        Options { sync: true, ..base },
        Options {
            summary: false,
            inodes_kept: 1,
            ..base
        },
    ];
    let mut states = 0;
    let mut mounts = Media::default();
    for (seed, options) in (1..).zip(sets) {
        let (count, seen) = explore(seed, options, 600);
        states += count;
        mounts.add(seen);
    }
    println!("{states} states");
    mounts.assert("cuts, jffs2");
    assert!(states > 2000, "{states}");
    drop(read_only(chip(8, 8)));
}

#[test]
fn what_was_removed_stays_removed_when_the_erase_of_its_block_is_interrupted() {
    let options = Options {
        summary: false,
        sync_collects: false,
        compression: Compression::NONE,
        ..Options::default()
    };
    let mut fs = Jffs2::mount(chip(12, 8), options).unwrap();
    // The entry, its removal and the inode lie in one block, each in a page of its own; a neighbour
    // lives on.
    for name in ["neighbour", "removed"] {
        let file = fs
            .create(
                Ino::ROOT,
                name.as_bytes(),
                NewNode::File,
                0o644,
                Caller::root(NOW),
            )
            .unwrap()
            .ino;
        fs.write(file, 0, &bytes(1, 100), NOW).unwrap();
        fs.fsync(file, Sync::All).unwrap();
        fs.forget(file, 1);
    }
    fs.unlink(Ino::ROOT, b"removed", NOW).unwrap();
    fs.sync().unwrap();
    // From now on each fsync collects, so that the block is erased with something that counts in
    // it.
    let mut fs = Jffs2::mount(
        fs.into_mtd(),
        Options {
            sync_collects: true,
            ..options
        },
    )
    .unwrap();
    let file = fs
        .create(Ino::ROOT, b"churn", NewNode::File, 0o644, Caller::root(NOW))
        .unwrap()
        .ino;
    fs.sync().unwrap();
    (0..20).for_each(|_| FileSystem::work(&mut fs, NOW).unwrap());
    let base = fs.mtd_mut().fork().unwrap();
    fs.mtd_mut().start_log();
    for round in 0..300 {
        fs.write(file, 0, &bytes(round, 900), NOW).unwrap();
        fs.fsync(file, Sync::Data).unwrap();
    }
    let log = fs.mtd_mut().logged().to_vec();
    let erases: Vec<Nanos> = log
        .iter()
        .filter(|op| matches!(op.kind, nandlab_nand::LoggedKind::Erase(_)))
        .map(|op| op.start + (op.end - op.start) / 2)
        .collect();
    assert!(erases.len() > 25, "{} erases", erases.len());
    let mut states = CrashStates::new(base, &log);
    for t in erases {
        for word in 0..60 {
            let mut fs = Jffs2::mount(states.at(t, mix(t, word)).unwrap(), options).unwrap();
            assert_eq!(
                fs.lookup(Ino::ROOT, b"removed").map(|attr| attr.size),
                Err(nandlab_vfs::Errno::NoEntry),
                "cut at {t}, word {word}"
            );
            assert_eq!(
                fs.lookup(Ino::ROOT, b"neighbour").map(|attr| attr.size),
                Ok(100),
                "cut at {t}, word {word}"
            );
        }
    }
}
