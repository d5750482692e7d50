//! The page-mapped layer in `[ftl]`.

use crate::value::{Size, Take};
use crate::{DescriptionError, DiskScheme, SchemeInput, Section, Translation};
use nandlab_ftl::Victim;
use nandlab_ftl::page::{Collection, PageOptions, RemapRecords, SlcOverflow};
use nandlab_nand::ChipSpec;

const KEYS: [&str; 14] = [
    "over-provisioning",
    "victim",
    "collection",
    "separate-streams",
    "multi-plane-copies",
    "streams",
    "spare-blocks",
    "map-interval",
    "map-cache",
    "slc-cache-blocks",
    "slc-overflow",
    "wear-threshold",
    "scrub-bits",
    "remap-records",
];

pub(super) const PAGE: DiskScheme = DiskScheme {
    name: "page",
    keys: &KEYS,
    take: |input| Ok(Translation::disk("page", options(input)?)),
};

fn options(input: &mut SchemeInput<'_>) -> Result<PageOptions, DescriptionError> {
    let default = PageOptions::default();
    let section = &mut *input.section;
    let blocks = input.chip.spec.geometry.blocks;
    let victims = [
        ("greedy", Victim::Greedy),
        ("cost-benefit", Victim::CostBenefit),
    ];
    let collections = [("whole", Collection::Whole), ("steps", Collection::Steps)];
    let records = [
        ("flash", RemapRecords::OnFlash),
        ("memory", RemapRecords::InMemory),
    ];
    let share = "spare space over logical space, above 0 and up to 100";
    let fewer = format!("fewer than the chip's {blocks} blocks");
    let options = PageOptions {
        over_provisioning: section.checked(
            "over-provisioning",
            default.over_provisioning,
            |share| *share > 0.0 && *share <= 100.0,
            share,
        )?,
        victim: section.choice("victim", &victims, default.victim)?,
        collection: section.choice("collection", &collections, default.collection)?,
        separate_streams: section.or("separate-streams", default.separate_streams)?,
        multi_plane_copies: multi_plane_copies(section, &input.chip.spec)?,
        streams: section.checked("streams", default.streams, |n| *n > 0, "1 to 255")?,
        spare_blocks: section.checked(
            "spare-blocks",
            default.spare_blocks,
            |n| *n < blocks,
            &fewer,
        )?,
        map_interval: section.checked(
            "map-interval",
            default.map_interval,
            |n| *n > 0,
            "at least 1 page program",
        )?,
        map_cache: map_cache(section, input.chip.spec.geometry.page)?,
        wear_threshold: section.or("wear-threshold", default.wear_threshold)?,
        scrub_bits: section.or("scrub-bits", default.scrub_bits)?,
        remap_records: section.choice("remap-records", &records, default.remap_records)?,
        ..default
    };
    let (slc_cache_blocks, slc_overflow) = slc_cache(section, &input.chip.spec)?;
    Ok(PageOptions {
        slc_cache_blocks,
        slc_overflow,
        ..options
    })
}

/// Whether collection pairs its copies; only planes that program together can.
fn multi_plane_copies(section: &mut Section, spec: &ChipSpec) -> Result<bool, DescriptionError> {
    let planes = spec.superblock.map_or(spec.geometry.planes, |s| s.planes);
    let expected = if planes == 1 {
        "false on a chip of one plane (chip.planes)"
    } else {
        "false on a chip whose planes program one after another (chip.multi-plane)"
    };
    let possible = planes > 1 && spec.timing.multi_plane;
    section.checked(
        "multi-plane-copies",
        false,
        |pair| possible || !pair,
        expected,
    )
}

/// The blocks of the SLC cache, and where pages go when it is full.
fn slc_cache(
    section: &mut Section,
    spec: &ChipSpec,
) -> Result<(u32, SlcOverflow), DescriptionError> {
    let most = spec.geometry.blocks / 2;
    let expected = match spec.slc_pages() {
        Some(_) => format!("at most half of the chip's {} blocks", spec.geometry.blocks),
        None => "0 on a chip without an SLC mode (chip.cell-bits)".into(),
    };
    let fits = |n: &u32| *n == 0 || *n <= most && spec.slc_pages().is_some();
    let blocks = section.checked("slc-cache-blocks", 0, fits, &expected)?;
    if blocks == 0 {
        section.inapplicable(&["slc-overflow"], "ftl.slc-cache-blocks above 0")?;
        return Ok((0, SlcOverflow::default()));
    }
    let choices = [("direct", SlcOverflow::Direct), ("fold", SlcOverflow::Fold)];
    let overflow = section.choice("slc-overflow", &choices, SlcOverflow::default())?;
    Ok((blocks, overflow))
}

/// Memory for map pages; without the key the whole map is in memory.
fn map_cache(section: &mut Section, page: u32) -> Result<Option<u64>, DescriptionError> {
    let least = 2 * u64::from(page);
    match section.given::<Size>("map-cache")? {
        Some(size) if size.0 < least => {
            let expected = format!("at least two map pages, {}", Size(least).write());
            Err(section.refuse("map-cache", &size.write(), &expected))
        }
        size => Ok(size.map(|size| size.0)),
    }
}
