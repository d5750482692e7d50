//! The replacement-block layer in `[ftl]`.

use crate::{DescriptionError, DiskScheme, SchemeInput, Translation};
use nandlab_ftl::nftl::{Allocation, ChainVictim, NftlOptions, Ordering};

const KEYS: [&str; 7] = [
    "spare-units",
    "victim",
    "allocation",
    "verify-free",
    "ordering",
    "trust-free",
    "wear-threshold",
];

pub(super) const NFTL: DiskScheme = DiskScheme {
    name: "nftl",
    keys: &KEYS,
    take: |input| {
        let options = options(input)?;
        Ok(Translation {
            checks_erases: options.verify_free,
            ..Translation::disk("nftl", options)
        })
    },
};

fn options(input: &mut SchemeInput<'_>) -> Result<NftlOptions, DescriptionError> {
    let default = NftlOptions::default();
    let section = &mut *input.section;
    let blocks = input.chip.spec.geometry.blocks;
    let victims = [
        ("longest", ChainVictim::Longest),
        ("min-copy", ChainVictim::MinCopy),
    ];
    let allocations = [
        ("round-robin", Allocation::RoundRobin),
        ("least-worn", Allocation::LeastWorn),
    ];
    let orderings = [("guarded", Ordering::Guarded), ("linux", Ordering::Linux)];
    let spares = format!(
        "2 to {}, fewer than the chip's blocks",
        blocks.saturating_sub(1)
    );
    Ok(NftlOptions {
        spare_units: section.checked(
            "spare-units",
            default.spare_units,
            |n| (2..blocks).contains(n),
            &spares,
        )?,
        victim: section.choice("victim", &victims, default.victim)?,
        allocation: section.choice("allocation", &allocations, default.allocation)?,
        verify_free: section.or("verify-free", default.verify_free)?,
        ordering: section.choice("ordering", &orderings, default.ordering)?,
        trust_free: section.or("trust-free", default.trust_free)?,
        wear_threshold: section.or("wear-threshold", default.wear_threshold)?,
        ..default
    })
}
