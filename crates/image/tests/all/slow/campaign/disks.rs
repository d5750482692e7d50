//! ext, FAT and F2FS: a volume that we call sound is sound to its own tool.

use super::judges::{Format, complaints};
use super::{Campaign, Tally, keep, kind};
use nandlab_block::{BlockDevice, Ram};
use nandlab_damage::disk::{Bytes, Target};
use nandlab_damage::edit::{Script, random};
use nandlab_damage::{ext, f2fs, fat};
use nandlab_ext::Ext;
use nandlab_f2fs::F2fs;
use nandlab_image::check::{Finding, Verdict, check};
use nandlab_image::place::Place;
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_sim::mix;
use nandlab_testkit::disk::save;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::FileSystem;

/// Images of a format, unless the environment says otherwise.
fn usual() -> u64 {
    whole_or(600, 150)
}

/// A damaged volume: edits with repaired checksums, damage that knows no structure, or both.
fn damaged(target: Target, number: u64) -> Ram {
    let input = random(mix(number, 1), 4);
    let script = Script::new(&input);
    let way = mix(number, 2) % 3;
    let mut disk = match way {
        0 => {
            let seeds = (target.seeds)();
            seeds[script.seed % seeds.len()].clone()
        }
        _ => target.disk(script),
    };
    if way != 1 {
        for strike in 0..1 + mix(number, 3) % 3 {
            disk.strike(mix(number, 4 + strike));
        }
    }
    disk.ram
}

/// What our check says, with its findings.
fn verdict(disk: &Ram) -> Result<(Verdict, Vec<Finding>), String> {
    let ram = disk.clone();
    let place = Place::bytes("disk", move || Box::new(Bytes(ram.clone())));
    let mut volume =
        Volume::at(place, &Opening::default(), Access::Read).map_err(|error| error.to_string())?;
    // The tool is given the whole disk; a volume that lies further in is another.
    let raw = volume
        .found()
        .place
        .raw()
        .map_err(|error| error.to_string())?;
    if raw.len() != disk.geometry().bytes() {
        return Err("found in a part of the disk".into());
    }
    let checked = check(&mut volume).map_err(|error| error.to_string())?;
    Ok((checked.verdict(), checked.findings))
}

/// The volume after a mount and an unmount, which recover it. Our check judges that state, as Linux
/// would find it; the tools look at the medium as it is.
fn recovered(format: Format, disk: &Ram) -> Option<Ram> {
    let disk = disk.clone();
    match format {
        Format::Ext => {
            let mut fs = Ext::mount(disk, <_>::default()).ok()?;
            fs.unmount().ok()?;
            Some(fs.into_device())
        }
        Format::F2fs => {
            let mut fs = F2fs::mount(disk, <_>::default()).ok()?;
            fs.unmount().ok()?;
            Some(fs.into_device())
        }
        Format::Fat => None,
    }
}

fn judge(format: Format, target: Target, number: u64, show: bool, tally: &Tally) {
    let mut ram = damaged(target, number);
    let (verdict, findings) = match verdict(&ram) {
        Ok(judged) => judged,
        Err(error) => {
            if show {
                println!("not opened: {error}");
            }
            return tally.count("not opened");
        }
    };
    tally.count(&verdict.to_string());
    let image = tempfile::NamedTempFile::new().unwrap();
    save(&mut ram, image.path());
    let ours: Vec<String> = findings.iter().map(ToString::to_string).collect();
    if show {
        let copy = image.path().with_extension("damaged");
        std::fs::copy(image.path(), &copy).unwrap();
        println!("{}", copy.display());
    }
    let mut said = complaints(format, image.path(), &ours);
    let in_use = ours.iter().any(|one| one.contains("was not unmounted"));
    if verdict == Verdict::Sound
        && in_use
        && !said.unknown.is_empty()
        && let Some(mut recovered) = recovered(format, &ram)
    {
        tally.count("judged again after recovery");
        save(&mut recovered, image.path());
        said = complaints(format, image.path(), &ours);
    }
    if show {
        println!("{verdict}: {ours:#?}\n{said:#?}");
    }
    if said.crashed {
        return tally.count("the tool crashed");
    }
    match (verdict, said.unknown.first(), ours.first()) {
        (Verdict::Sound, Some(first), _) => {
            let words = said.unknown[..said.unknown.len().min(4)].join(" | ");
            keep(&tally.lenient, kind(first), format!("{number:#x}: {words}"));
        }
        (Verdict::Damaged, None, Some(_)) if said.silent => {
            tally.count("damaged, and nothing to the tool");
            let damage = ours.iter().find(|one| one.starts_with("damage"));
            let first = damage.cloned().unwrap_or_default();
            keep(
                &tally.stricter,
                kind(&first),
                format!("{number:#x}: {first}"),
            );
        }
        _ => {}
    }
}

fn run(format: Format, target: Target) {
    let campaign = Campaign::of(usual());
    let tally = campaign.run(|number, tally| {
        judge(format, target, number, campaign.is_one(), tally);
    });
    if !campaign.is_one() {
        // A campaign in which everything is damaged, or nothing is, shows nothing.
        let few = ["sound", "damaged"].map(|verdict| tally.count_of(verdict));
        assert!(few.iter().all(|count| *count > 0), "{tally:?}");
    }
    tally.conclude();
}

#[test]
fn an_ext_volume_that_we_call_sound_is_sound_to_e2fsck() {
    run(Format::Ext, ext::TARGET);
}

#[test]
fn a_fat_volume_that_we_call_sound_is_sound_to_fsck_fat() {
    run(Format::Fat, fat::TARGET);
}

#[test]
fn an_f2fs_volume_that_we_call_sound_is_sound_to_fsck_f2fs() {
    run(Format::F2fs, f2fs::TARGET);
}

#[test]
fn the_volumes_before_their_damage_are_sound_to_both() {
    let targets = [
        (Format::Ext, ext::TARGET),
        (Format::Fat, fat::TARGET),
        (Format::F2fs, f2fs::TARGET),
    ];
    for (format, target) in targets {
        for (index, seed) in (target.seeds)().iter().enumerate() {
            let mut ram = seed.ram.clone();
            let (verdict, findings) = verdict(&ram).unwrap();
            assert_eq!(verdict, Verdict::Sound, "{format:?} {index}: {findings:#?}");
            let image = tempfile::NamedTempFile::new().unwrap();
            save(&mut ram, image.path());
            let ours: Vec<String> = findings.iter().map(ToString::to_string).collect();
            let said = complaints(format, image.path(), &ours);
            assert!(said.unknown.is_empty(), "{format:?} {index}: {said:#?}");
        }
    }
}
