//! The log-block layers in `[ftl]`. `[chip]` says which page orders the chip permits.

use crate::{DescriptionError, Scheme, SchemeInput, Section, Translation};
use nandlab_ftl::logblock::{
    FirstWrite, LogBlockOptions, LogVictim, Mismatch, OwnerMerge, PageOrder, Pending, Scheme as Way,
};
use nandlab_nand::PageOrder as ChipOrder;

/// The most log blocks of a group.
const MOST_GROUP_LOGS: u32 = 64;

/// Keys of all three.
const KEYS: [&str; 7] = [
    "log-blocks",
    "spare-blocks",
    "first-write",
    "skip-stale",
    "eager",
    "wear-threshold",
    "ftl-seed",
];

/// The log-block layers there are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum LogBlock {
    Bast,
    Sast,
    Fast,
}

impl Scheme for LogBlock {
    fn name(&self) -> &'static str {
        match self {
            Self::Bast => "bast",
            Self::Sast => "sast",
            Self::Fast => "fast",
        }
    }

    fn keys(&self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            Self::Bast => &["victim"],
            Self::Sast => &["victim", "group-blocks", "group-logs"],
            Self::Fast => &["mismatch", "pending", "owner"],
        };
        [&KEYS[..], own].concat()
    }

    fn take(&self, input: &mut SchemeInput<'_>) -> Result<Translation, DescriptionError> {
        Ok(Translation::disk(self.name(), options(*self, input)?))
    }
}

fn options(
    name: LogBlock,
    input: &mut SchemeInput<'_>,
) -> Result<LogBlockOptions, DescriptionError> {
    let section = &mut *input.section;
    let chip = input.chip;
    let default = defaults(section, name)?;
    let most = chip.spec.geometry.blocks.saturating_sub(1);
    let fewest = if name == LogBlock::Fast { 2 } else { 1 };
    let firsts = [
        ("in-place", FirstWrite::InPlace),
        ("in-place-unless-logged", FirstWrite::InPlaceUnlessLogged),
        ("log", FirstWrite::Logged),
    ];
    let logs = format!("{fewest} to {most}, which leaves the chip's other blocks for data");
    let fewer = format!("fewer than the chip's {} blocks", most + 1);
    Ok(LogBlockOptions {
        log_blocks: section.checked(
            "log-blocks",
            default.log_blocks.min(most),
            |n| (fewest..=most).contains(n),
            &logs,
        )?,
        spare_blocks: section.checked(
            "spare-blocks",
            default.spare_blocks.min(most),
            |n| *n <= most,
            &fewer,
        )?,
        page_order: if chip.spec.rules.order == ChipOrder::Any {
            PageOrder::Any
        } else {
            PageOrder::Ascending
        },
        first_write: section.choice("first-write", &firsts, default.first_write)?,
        skip_stale: section.or("skip-stale", default.skip_stale)?,
        eager: section.or("eager", default.eager)?,
        wear_threshold: section.or("wear-threshold", default.wear_threshold)?,
        seed: section.or("ftl-seed", default.seed)?,
        ..default
    })
}

/// The scheme's own defaults, with the choices that only it has.
fn defaults(section: &mut Section, name: LogBlock) -> Result<LogBlockOptions, DescriptionError> {
    if name == LogBlock::Fast {
        let mismatches = [("merge", Mismatch::Merge), ("random", Mismatch::Random)];
        let pendings = [("merged", Pending::Merged), ("logged", Pending::Logged)];
        let owners = [("partial", OwnerMerge::Partial), ("full", OwnerMerge::Full)];
        let scheme = Way::Fast {
            mismatch: section.choice("mismatch", &mismatches, Mismatch::default())?,
            pending: section.choice("pending", &pendings, Pending::default())?,
            owner: section.choice("owner", &owners, OwnerMerge::default())?,
        };
        return Ok(LogBlockOptions {
            scheme,
            ..LogBlockOptions::fast()
        });
    }
    let victims = [
        ("least-recent", LogVictim::LeastRecent),
        ("fifo", LogVictim::Fifo),
        ("random", LogVictim::Random),
    ];
    let victim = section.choice("victim", &victims, LogVictim::default())?;
    if name == LogBlock::Bast {
        return Ok(LogBlockOptions {
            scheme: Way::Bast { victim },
            ..LogBlockOptions::bast()
        });
    }
    // The N:N+K example that papers show is 4:4+2.
    let blocks = section.checked("group-blocks", 4, |n| *n > 0, "at least 1 logical block")?;
    let most = format!("1 to {MOST_GROUP_LOGS}");
    let logs = section.checked(
        "group-logs",
        2,
        |n| (1..=MOST_GROUP_LOGS).contains(n),
        &most,
    )?;
    Ok(LogBlockOptions {
        scheme: Way::Sast {
            blocks,
            logs,
            victim,
        },
        ..LogBlockOptions::sast(blocks, logs)
    })
}
