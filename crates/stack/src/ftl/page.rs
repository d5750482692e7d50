//! The page-mapped layer in `[ftl]`.

use crate::value::{Size, Take};
use crate::{DescriptionError, DiskScheme, SchemeInput, Section, Translation};
use nandlab_ftl::Victim;
use nandlab_ftl::page::{Collection, PageOptions, RemapRecords};

const KEYS: [&str; 11] = [
    "over-provisioning",
    "victim",
    "collection",
    "separate-streams",
    "streams",
    "spare-blocks",
    "map-interval",
    "map-cache",
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
    Ok(PageOptions {
        over_provisioning: section.checked(
            "over-provisioning",
            default.over_provisioning,
            |share| *share > 0.0 && *share <= 100.0,
            share,
        )?,
        victim: section.choice("victim", &victims, default.victim)?,
        collection: section.choice("collection", &collections, default.collection)?,
        separate_streams: section.or("separate-streams", default.separate_streams)?,
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
    })
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
