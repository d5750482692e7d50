//! Choices of F2FS in `[fs]`.

use super::{FsError, Mounted, Parts};
use crate::value::{Size, Time};
use crate::{DescriptionError, Section};
use nandlab_block::BlockDevice;
use nandlab_f2fs::{AgeThreshold, F2fs, Format, InPlace, Options, Policy};

/// What only F2FS has.
pub(super) const KEYS: [&str; 16] = [
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
    "request",
    "ordered",
];

/// F2FS as described.
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

    pub(super) fn make(&self, partition: &mut dyn BlockDevice) -> Result<(), FsError> {
        nandlab_f2fs::format(&mut &mut *partition, &self.format)?;
        Ok(())
    }

    pub(super) fn mount<'a>(
        &self,
        partition: Box<dyn BlockDevice + 'a>,
    ) -> Result<Mounted<'a>, FsError> {
        let parts = Parts::Untold {
            sectors: partition.geometry().sectors,
        };
        Ok(Mounted {
            fs: Box::new(F2fs::mount(partition, self.mount)?),
            parts,
        })
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
