//! Dumps with spare bytes that the real kernel made on simulated chips: small and large pages,
//! Hamming and BCH, JFFS2 and UBI, fresh, aged and cut. They are found, corrected, edited and
//! written back, and the kernel is the judge of both ways.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils and e2fsprogs; fails naming the Debian package
//! that is missing.

mod cell;
mod edits;
mod flips;
mod guests;

use cell::{Age, Cell, Code, LARGE, Medium, SMALL, Shape};
use guests::{CONFIG, Dump, Truth, noise};
use nandlab_image::check::{Checked, check};
use nandlab_image::detect::Hints;
use nandlab_image::raw::raw;
use nandlab_image::tar_out::TarOut;
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_testkit::manifest;
use nandlab_testkit::share::is_whole;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Outcome = Result<(), String>;

#[test]
fn hamming_dumps_are_read_corrected_and_written_as_the_kernel_does() {
    judge(Code::Hamming);
}

#[test]
fn bch_4_dumps_are_read_corrected_and_written_as_the_kernel_does() {
    judge(Code::Bch(4));
}

#[test]
#[ignore = "takes half a minute; BCH of 4 bits is always tried: `cargo xtask test whole` runs it"]
fn bch_8_dumps_are_read_corrected_and_written_as_the_kernel_does() {
    judge(Code::Bch(8));
}

#[test]
fn the_kernel_has_no_bch_on_small_pages() {
    let cell = |shape: Shape| Cell {
        shape,
        code: Code::Hamming,
        medium: Medium::Jffs2,
        age: Age::Fresh,
    };
    let refused = guests::refuse_bch([SMALL, LARGE].map(cell));
    assert_eq!(refused, [true, false]);
}

/// All cells of a code, or some of them. Some code then has each medium of each age.
fn cells(code: Code) -> Vec<Cell> {
    let all = Cell::all(code);
    if is_whole() {
        return all;
    }
    let numbers: &[usize] = match code {
        Code::Hamming => &[2, 9],
        Code::Bch(4) => &[10],
        Code::Bch(_) => &[0, 1, 5],
    };
    numbers.iter().map(|number| all[*number]).collect()
}

#[test]
fn a_sample_has_each_medium_of_each_age() {
    let codes = [Code::Hamming, Code::Bch(4), Code::Bch(8)];
    let tried = codes.into_iter().flat_map(cells);
    let tried: BTreeSet<_> = tried.map(|cell| (cell.medium, cell.age)).collect();
    assert_eq!(tried.len(), 6);
}

/// Makes the dumps of a code and tries everything on each; tells all that went wrong at once.
fn judge(code: Code) {
    let mut dumps = guests::dumps(&cells(code));
    dumps.iter_mut().for_each(flips::tear);
    let scratch = tempfile::tempdir().unwrap();
    let image = &scratch.path().join("dump");
    let mut wrong = Vec::new();
    let mut note = |cell: Cell, what: &str, outcome: Outcome| {
        wrong.extend(outcome.err().map(|why| format!("{cell}, {what}: {why}")));
    };
    dumps.iter().for_each(keep);
    let mut written = Vec::new();
    for (seed, dump) in (1..).zip(&dumps) {
        note(dump.cell, "life", lived(dump));
        match edited(dump, image, seed) {
            Ok(back) => written.push(back),
            // The page that was torn may be the superblock of the file system in the volume.
            Err(why) if is_torn_superblock(dump, &why) => {}
            Err(why) => note(dump.cell, "edits", Err(why)),
        }
    }
    let (cut, back) = asked(&dumps, &written);
    for (dump, truth) in dumps
        .iter_mut()
        .filter(|dump| dump.truth.is_none())
        .zip(cut)
    {
        dump.truth = Some(truth);
    }
    for (written, outcome) in written.iter().zip(back) {
        note(written.cell, "way back", outcome);
    }
    for (seed, dump) in (1..).zip(&dumps) {
        note(dump.cell, "found", found(dump, image));
        note(dump.cell, "one flip", corrected(dump, image, 1, seed));
        if code.strength() > 1 {
            let flips = code.strength();
            note(
                dump.cell,
                "all flips",
                corrected(dump, image, flips, seed + 100),
            );
        }
        note(dump.cell, "too many flips", listed(dump, image));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Keeps a dump until the next run, so that a failure can be looked into.
fn keep(dump: &Dump) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let kept = fs::create_dir_all(dir)
        .and_then(|()| fs::write(dir.join(dump.cell.to_string()), &dump.bytes));
    kept.unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
}

/// The fixture is what it is meant to be.
fn lived(dump: &Dump) -> Outcome {
    let cell = dump.cell;
    let first = flips::programmed(dump)[0] as u32;
    let far = cell.blocks_empty() * cell.shape.pages_per_block;
    if first < far {
        return Err(format!(
            "data begin at page {first}, expected {far} or more"
        ));
    }
    match &dump.truth {
        Some(truth) if truth.tree.len() < 30 => Err(format!("{} entries", truth.tree.len())),
        _ => Ok(()),
    }
}

fn opening(hints: Hints) -> Opening {
    Opening {
        hints,
        ..Opening::default()
    }
}

fn opened(image: &Path, hints: Hints) -> Result<Volume, String> {
    Volume::open(image, &opening(hints), Access::Read).map_err(|error| error.to_string())
}

/// Every subset of right hints, the empty one first.
fn subsets(shape: Shape) -> impl Iterator<Item = Hints> {
    (0..8).map(move |bits: u32| Hints {
        page: (bits & 1 != 0).then_some(shape.page),
        oob: (bits & 2 != 0).then_some(shape.oob),
        block: (bits & 4 != 0).then_some(shape.block_bytes()),
        ..Hints::default()
    })
}

/// A dump is found with any right hints, and what is in it is what the kernel sees.
fn found(dump: &Dump, image: &Path) -> Outcome {
    fs::write(image, &dump.bytes).unwrap();
    for hints in subsets(dump.cell.shape) {
        let mut volume = opened(image, hints).map_err(|why| format!("{hints:?}: {why}"))?;
        shaped(dump.cell, &volume).map_err(|why| format!("{hints:?}: {why}"))?;
        let all = hints.page.is_some() && hints.oob.is_some() && hints.block.is_some();
        let none = hints.page.is_none() && hints.oob.is_none() && hints.block.is_none();
        if all || none {
            same(dump, &mut volume, hints)?;
        }
    }
    Ok(())
}

/// The lowest layer is the chip.
fn shaped(cell: Cell, volume: &Volume) -> Outcome {
    let code = match cell.code {
        Code::Hamming => "hamming".to_owned(),
        Code::Bch(strength) => format!("bch-{strength}"),
    };
    match volume.layers.first() {
        Some(Layer::Flash {
            page,
            oob,
            block,
            ecc: Some(ecc),
            bad,
            ..
        }) if (*page, *oob, *block)
            == (cell.shape.page, cell.shape.oob, cell.shape.block_bytes())
            && ecc.starts_with(&code)
            && *bad == Vec::from_iter(cell.bad()) =>
        {
            Ok(())
        }
        other => Err(format!("found {other:?}")),
    }
}

/// The tree and the volumes are those of the kernel.
fn same(dump: &Dump, volume: &mut Volume, hints: Hints) -> Outcome {
    let truth = dump.truth.as_ref().ok_or("the kernel was not asked")?;
    same_tree(&truth.tree, volume)?;
    let Some([config, root]) = &truth.volumes else {
        return Ok(());
    };
    // The kernel cannot read a torn page of a volume either.
    let read = [("config", Some(config)), ("root", Some(root))];
    for (name, sum) in read {
        let sum = sum.filter(|_| name == "config" || dump.cell.age != Age::Cut);
        if let Some(expected) = sum {
            let found = sum_of(volume, name, hints)?;
            if found != *expected {
                return Err(format!("volume {name}: {found}, expected {expected}"));
            }
        }
    }
    match *config == sum_of_bytes(&noise()[CONFIG]) {
        true => Ok(()),
        false => Err("the kernel's static volume is not what went in".into()),
    }
}

fn same_tree(expected: &Manifest, volume: &mut Volume) -> Outcome {
    let fs = volume.fs().map_err(|error| error.to_string())?;
    let listed =
        manifest::listed(fs).map_err(|error| format!("the tree cannot be read: {error}"))?;
    match differences(expected, &listed) {
        none if none.is_empty() => Ok(()),
        some => Err(some.lines().take(6).collect::<Vec<_>>().join("\n")),
    }
}

fn sum_of(volume: &Volume, name: &str, hints: Hints) -> Result<String, String> {
    let wanted = Opening {
        volume: Some(name.into()),
        ..opening(hints)
    };
    let mut bytes = Vec::new();
    let (_, losses) = raw(volume, &wanted, &mut bytes).map_err(|error| error.to_string())?;
    match losses.list.first() {
        Some(loss) => Err(format!("volume {name}: {loss}")),
        None => Ok(sum_of_bytes(&bytes)),
    }
}

fn sum_of_bytes(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// So many flips in each step of each page change nothing, and are counted.
fn corrected(dump: &Dump, image: &Path, flips: u32, seed: u64) -> Outcome {
    let cell = dump.cell;
    fs::write(image, flips::everywhere(dump, flips, seed)).unwrap();
    let mut volume = opened(image, Hints::default())?;
    shaped(cell, &volume)?;
    same(dump, &mut volume, Hints::default())?;
    let checked = check(&mut volume).map_err(|error| error.to_string())?;
    let found = checked.flips.ok_or("no flips were counted")?;
    let pages = flips::programmed(dump).len() as u64;
    let steps = u64::from(cell.shape.page / cell.code.step());
    let least = pages * steps * u64::from(flips);
    let torn = u64::from(dump.torn.is_some());
    let expected = found.failed <= torn && found.bits >= least && found.pages >= pages;
    match expected {
        true => Ok(()),
        false => Err(format!("{found:?}, expected {least} bits on {pages} pages")),
    }
}

/// Pages with a flip too many are listed, with the file or the logical block that they belong to.
fn listed(dump: &Dump, image: &Path) -> Outcome {
    let cell = dump.cell;
    // Bytes of a file that was not changed, and of the static volume.
    let known = match cell.medium {
        Medium::Jffs2 => 130_000,
        Medium::Ubi => 230_000,
    };
    let mut pages = (known..known + 2000)
        .step_by(32)
        .map(|at| flips::pages_with(dump, at))
        .find(|pages| !pages.is_empty())
        .ok_or("no page has the known bytes")?;
    let programmed = flips::programmed(dump);
    pages.extend((1..5).map(|part| (programmed[programmed.len() * part / 5], 0)));
    let mut bytes = dump.bytes.clone();
    for (seed, (page, step)) in (1..).zip(&pages) {
        let raw = &mut bytes[page * cell.shape.raw_page()..][..cell.shape.raw_page()];
        flips::flip(cell, raw, *step, cell.code.strength() + 1, seed);
    }
    fs::write(image, &bytes).unwrap();
    let mut volume = opened(image, Hints::default())?;
    shaped(cell, &volume)?;
    let leb = volume.layers.iter().find_map(|layer| match layer {
        Layer::Ubi { leb, .. } => Some(*leb as usize),
        _ => None,
    });
    let owner = match leb {
        None => "bin/whole".to_owned(),
        Some(leb) => format!("volume 0, LEB {}", (known - CONFIG.start) / leb),
    };
    let checked = check(&mut volume).map_err(|error| error.to_string())?;
    let losses = salvage_losses(&mut volume)?;
    let found = checked.findings.iter().map(|one| &*one.what);
    let texts: Vec<&str> = found.chain(losses.iter().map(String::as_str)).collect();
    let named = |words: &str| texts.iter().any(|text| text.contains(words));
    for (page, _) in pages {
        if !named(&format!("page {page} ")) {
            return Err(format!("page {page} is not listed: {texts:#?}"));
        }
    }
    named(&owner)
        .then_some(())
        .ok_or_else(|| format!("{owner} is not listed: {texts:#?}"))
}

/// What a salvage does not get, each with its path.
fn salvage_losses(volume: &mut Volume) -> Result<Vec<String>, String> {
    let mut nothing = |_| {};
    let Ok(mut walk) = volume.walk(true, &mut nothing) else {
        return Ok(Vec::new());
    };
    let mut sink = TarOut::new(std::io::sink(), Path::new("archive"));
    walk.run(b"", &mut sink)
        .map_err(|error| error.to_string())?;
    let lost = walk.losses.list.iter();
    Ok(lost.map(|loss| loss.path.to_string()).collect())
}

/// A dump after edits of ours.
struct Written {
    cell: Cell,
    bytes: Vec<u8>,
    tree: Manifest,
}

fn edited(dump: &Dump, image: &Path, seed: u64) -> Result<Written, String> {
    let contents = edits::edited(dump, image, seed).map_err(|error| error.to_string())?;
    let bytes = fs::read(image).unwrap();
    if bytes.len() != dump.bytes.len() {
        return Err(format!("{} bytes became {}", dump.bytes.len(), bytes.len()));
    }
    let mut volume = opened(image, Hints::default())?;
    shaped(dump.cell, &volume)?;
    clean(
        dump.cell,
        check(&mut volume).map_err(|error| error.to_string())?,
    )?;
    let tree = manifest::manifest(volume.fs().map_err(|error| error.to_string())?);
    kept(&contents, &tree)?;
    Ok(Written {
        cell: dump.cell,
        bytes,
        tree,
    })
}

fn is_torn_superblock(dump: &Dump, why: &str) -> bool {
    dump.cell.age == Age::Cut && dump.cell.medium == Medium::Ubi && why.contains("superblock")
}

/// What we wrote needs no correction.
fn clean(cell: Cell, checked: Checked) -> Outcome {
    let flips = checked.flips.ok_or("no flips were counted")?;
    let torn = u64::from(cell.age == Age::Cut);
    match flips.pages == 0 && flips.failed <= torn {
        true => Ok(()),
        false => Err(format!("{flips:?} {:?}", checked.findings)),
    }
}

/// The contents that edits gave are in the tree.
fn kept(contents: &BTreeMap<Vec<u8>, Vec<u8>>, tree: &Manifest) -> Outcome {
    if contents.len() < 8 {
        return Err(format!("{} new files", contents.len()));
    }
    for (name, data) in contents {
        let path = format!("./{}", String::from_utf8_lossy(name));
        let entry = tree.get(Path::new(&path)).map(ToString::to_string);
        let sum = sum_of_bytes(data);
        if !entry.as_ref().is_some_and(|entry| entry.ends_with(&sum)) {
            return Err(format!("{path}: {entry:?}, expected {sum}"));
        }
    }
    Ok(())
}

/// Asks the kernel what it sees in dumps that were cut, and in those that we wrote: it must see our
/// tree and have nothing to say of the parity.
fn asked(dumps: &[Dump], written: &[Written]) -> (Vec<Truth>, Vec<Outcome>) {
    let mut all = Vec::new();
    let cut = dumps.iter().filter(|dump| dump.truth.is_none());
    all.extend(cut.map(|dump| (dump.cell.to_string(), dump.cell, &dump.bytes[..])));
    let first = all.len();
    let back = written.iter();
    all.extend(back.map(|one| (format!("{}-back", one.cell), one.cell, &one.bytes[..])));
    let mut judged = guests::judge(&all);
    let back = judged.split_off(first);
    let outcomes = back.into_iter().zip(written).map(|(judged, written)| {
        let complaints = &judged.complaints;
        if written.cell.age != Age::Cut && !complaints.is_empty() {
            return Err(complaints.join("\n"));
        }
        match differences(&written.tree, &judged.truth.tree) {
            none if none.is_empty() => Ok(()),
            some => Err(some.lines().take(6).collect::<Vec<_>>().join("\n")),
        }
    });
    (
        judged.into_iter().map(|one| one.truth).collect(),
        outcomes.collect(),
    )
}
