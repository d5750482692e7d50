//! Choices of the log-block layers. What the chip permits is known from `[chip]`.

use super::Name;
use crate::chip::ChipDescription;
use crate::{DescriptionError, Section};
use nandlab_ftl::logblock::{
    FirstWrite, LogBlockOptions, LogVictim, Mismatch, OwnerMerge, PageOrder, Pending, Scheme,
};
use nandlab_nand::PageOrder as ChipOrder;

/// The most log blocks of a group.
const MOST_GROUP_LOGS: u32 = 64;

/// Keys of all three.
pub(super) const KEYS: [&str; 7] = [
    "log-blocks",
    "spare-blocks",
    "first-write",
    "skip-stale",
    "eager",
    "wear-threshold",
    "ftl-seed",
];

pub(super) fn take(
    section: &mut Section,
    chip: &ChipDescription,
    name: Name,
) -> Result<LogBlockOptions, DescriptionError> {
    let default = defaults(section, name)?;
    let most = chip.spec.geometry.blocks.saturating_sub(1);
    let fewest = if name == Name::Fast { 2 } else { 1 };
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
fn defaults(section: &mut Section, name: Name) -> Result<LogBlockOptions, DescriptionError> {
    if name == Name::Fast {
        let mismatches = [("merge", Mismatch::Merge), ("random", Mismatch::Random)];
        let pendings = [("merged", Pending::Merged), ("logged", Pending::Logged)];
        let owners = [("partial", OwnerMerge::Partial), ("full", OwnerMerge::Full)];
        let scheme = Scheme::Fast {
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
    if name == Name::Bast {
        return Ok(LogBlockOptions {
            scheme: Scheme::Bast { victim },
            ..LogBlockOptions::bast()
        });
    }
    // The N:N+K example that publications show is 4:4+2.
    let blocks = section.checked("group-blocks", 4, |n| *n > 0, "at least 1 logical block")?;
    let most = format!("1 to {MOST_GROUP_LOGS}");
    let logs = section.checked(
        "group-logs",
        2,
        |n| (1..=MOST_GROUP_LOGS).contains(n),
        &most,
    )?;
    Ok(LogBlockOptions {
        scheme: Scheme::Sast {
            blocks,
            logs,
            victim,
        },
        ..LogBlockOptions::sast(blocks, logs)
    })
}
