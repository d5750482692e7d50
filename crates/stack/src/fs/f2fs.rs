//! F2FS in `[fs]`.

use super::{
    FsError, FsKind, FsLayer, FsPlace, KeyGroup, Machine, Medium, Mounted, Recipe, Undivided, disk,
};
use crate::value::{Size, Time};
use crate::{DescriptionError, Section};
use nandlab_f2fs::{AgeThreshold, F2fs, F2fsVolume, Format, InPlace, Options, Policy};
use std::sync::Arc;

/// What only F2FS has.
const KEYS: [&str; 17] = [
    "segments-per-section",
    "sections-per-zone",
    "overprovision",
    "logs",
    "inline-data",
    "inline-dentry",
    "discard",
    "roll-forward",
    "threaded",
    "in-place",
    "foreground",
    "background",
    "checkpoint-interval",
    "cleaning-interval",
    "cleaning-idle",
    "request",
    "ordered",
];

pub(super) struct F2fsKind;

impl FsKind for F2fsKind {
    fn names(&self) -> Vec<&'static str> {
        vec!["f2fs"]
    }

    fn keys(&self) -> Vec<KeyGroup> {
        vec![KeyGroup {
            keys: &KEYS,
            types: &["f2fs"],
            needs: "type = \"f2fs\"",
        }]
    }

    fn shared(&self) -> &'static [&'static str] {
        &["start-sector", "size"]
    }

    fn take(
        &self,
        _: &str,
        section: &mut Section,
    ) -> Result<(Arc<dyn FsLayer>, FsPlace), DescriptionError> {
        let f2fs = F2fsDescription::take(section)?;
        Ok((Arc::new(f2fs), FsPlace::take(section)?))
    }
}

/// The settings of F2FS in a description.
#[derive(Clone, Debug)]
pub struct F2fsDescription {
    /// How it is made.
    pub format: Format,
    /// How it is mounted.
    pub mount: Options,
}

impl F2fsDescription {
    pub(super) fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let usual = Format::default();
        let some = |n: &u32| (1..=4096).contains(n);
        let percent = section.given::<f64>("overprovision")?;
        if let Some(percent) = percent.filter(|percent| !(0.1..=50.0).contains(percent)) {
            return Err(section.refuse(
                "overprovision",
                &percent.to_string(),
                "percent, 0.1 to 50",
            ));
        }
        let format = Format {
            segs_per_sec: section.checked(
                "segments-per-section",
                usual.segs_per_sec,
                some,
                "1 to 4096",
            )?,
            secs_per_zone: section.checked(
                "sections-per-zone",
                usual.secs_per_zone,
                some,
                "1 to 4096",
            )?,
            overprovision: percent,
            ..usual
        };
        Ok(Self {
            format,
            mount: options(section)?,
        })
    }
}

impl FsLayer for F2fsDescription {
    fn name(&self) -> &'static str {
        "f2fs"
    }

    fn make(&self, medium: Medium<'_>, _: &Section) -> Result<(), FsError> {
        let mut disk = disk(medium, self.name())?;
        nandlab_f2fs::format(&mut disk, &self.format).map_err(FsError::make)?;
        Ok(())
    }

    fn mount<'a>(&self, medium: Medium<'a>, machine: Machine<'a>) -> Result<Mounted<'a>, FsError> {
        let mut options = self.mount;
        if let Some(memory) = machine.memory {
            options.cache_bytes = memory.clean_bytes();
            options.dirty_bytes_max = memory.dirty_bytes_max();
        }
        let disk = disk(medium, self.name())?;
        let sectors = disk.geometry().sectors;
        let fs = F2fs::mount(disk, options).map_err(FsError::mount)?;
        Ok(Mounted {
            fs: Box::new(fs),
            parts: Arc::new(Undivided { sectors }),
        })
    }

    fn recipe(&self, _: u64, _: bool) -> Option<Recipe> {
        Some(Recipe::Disk(Box::new(F2fsVolume {
            format: self.format.clone(),
            options: self.mount,
        })))
    }
}

fn options(section: &mut Section) -> Result<Options, DescriptionError> {
    let usual = Options::default();
    let policies = [
        ("greedy", Policy::Greedy),
        ("cost-benefit", Policy::CostBenefit),
        (
            "age-threshold",
            Policy::AgeThreshold(AgeThreshold::default()),
        ),
    ];
    // Linux's numbers.
    let in_place = [
        ("never", InPlace::Never),
        ("above-70-percent", InPlace::Above(70)),
        ("fsync", InPlace::Fsync(8)),
    ];
    Ok(Options {
        logs: section.checked("logs", usual.logs, |n| [2, 4, 6].contains(n), "2, 4 or 6")?,
        inline_data: section.or("inline-data", usual.inline_data)?,
        inline_names: section.or("inline-dentry", usual.inline_names)?,
        discard: section.or("discard", usual.discard)?,
        roll_forward: section.or("roll-forward", usual.roll_forward)?,
        threaded: section.or("threaded", usual.threaded)?,
        in_place: section.choice("in-place", &in_place, usual.in_place)?,
        foreground: section.choice("foreground", &policies, usual.foreground)?,
        background: section.choice("background", &policies, usual.background)?,
        checkpoint_interval: section
            .or("checkpoint-interval", Time(usual.checkpoint_interval))?
            .0,
        cleaning_interval: section
            .or("cleaning-interval", Time(usual.cleaning_interval))?
            .0,
        cleaning_idle: section.or("cleaning-idle", Time(usual.cleaning_idle))?.0,
        request_bytes: section
            .checked(
                "request",
                Size(512 << 10),
                |size| (4096..=16 << 20).contains(&size.0),
                "4 KiB to 16 MiB",
            )?
            .0,
        ordered: section.or("ordered", usual.ordered)?,
        ..usual
    })
}
