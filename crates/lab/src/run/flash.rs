//! What the flash did: the difference between two looks at it.

use super::chip_map::{Blocks, good};
use super::meter::Meter;
use super::snapshot::Snapshot;
use crate::result::WriteCache;
use crate::result::{ChipMap, Flash, FlashRow, MapCache, Merges, RunResult, SlcCache, Wear};
use nandlab_ftl::{Cause, Tally};
use nandlab_nand::{Chip, ChipSpec};
use nandlab_sim::Nanos;

/// A workload served, and the flash around it.
pub struct Measured {
    pub meter: Meter,
    pub before: Snapshot,
    pub after: Snapshot,
    /// Measuring began where it was asked to.
    pub steady: bool,
}

impl Measured {
    /// The result, without a name and without settings; `blocks` and `chip` are those at the end.
    pub fn result(self, blocks: &Blocks, chip: &Chip) -> RunResult {
        let (map, wear) = blocks.draw(chip);
        let simulated_ns = self.meter.span();
        let flash = flash(&self, chip.spec(), wear, &map);
        let (host, series) = self.meter.finish(&self.after, chip.spec().geometry.page);
        RunResult {
            host,
            flash,
            series,
            chip: map,
            simulated_ns,
            ..RunResult::default()
        }
    }
}

/// The flash side of a result; `map` is the chip at the end.
fn flash(measured: &Measured, spec: &ChipSpec, wear: Wear, map: &ChipMap) -> Flash {
    let Measured {
        before,
        after,
        meter,
        ..
    } = measured;
    let causes = causes(before.tally(), after.tally());
    let programs = |with_mapping: bool| -> u64 {
        let counted = causes
            .iter()
            .filter(|row| with_mapping || row.cause != Cause::Mapping.name());
        counted.map(|row| row.programs + row.copies).sum()
    };
    let written = meter.written();
    let host_pages = after.tally().host_pages - before.tally().host_pages;
    let span = meter
        .span()
        .max(after.horizon().saturating_sub(meter.first()));
    let busy = |(after, before): (&Nanos, &Nanos)| {
        if span == 0 {
            0.0
        } else {
            ((after - before) as f64 / span as f64).min(1.0)
        }
    };
    let erases = after.counts().erases - before.counts().erases;
    let slc_erases = after.slc_erases() - before.slc_erases();
    let rated = u64::from(spec.reliability.rated_erases);
    let worn = erases - slc_erases + slc_wear(spec, slc_erases);
    Flash {
        write_amplification: (written > 0)
            .then(|| programs(true) as f64 * f64::from(spec.geometry.page) / written as f64),
        collection_amplification: (host_pages > 0)
            .then(|| programs(false) as f64 / host_pages as f64),
        corrected_bits: after.counts().corrected_bits - before.counts().corrected_bits,
        uncorrectable: after.counts().uncorrectable - before.counts().uncorrectable,
        die_busy: after
            .die_busy()
            .iter()
            .zip(before.die_busy())
            .map(busy)
            .collect(),
        lifetime_bytes: (rated > 0 && worn > 0)
            .then(|| lifetime(rated, good(spec.geometry.blocks, map), written, worn)),
        merges: merges(before.tally(), after.tally()),
        map_cache: map_cache(before.tally(), after.tally()),
        write_cache: write_cache(before, after),
        slc_cache: slc_cache(before, after),
        causes,
        wear,
    }
}

/// Erases that wear a block as much as so many into SLC mode.
fn slc_wear(spec: &ChipSpec, slc_erases: u64) -> u64 {
    let rated = spec.slc.map_or(0, |slc| slc.rated_erases);
    let own = u64::from(spec.reliability.rated_erases);
    (slc_erases * own)
        .checked_div(rated.into())
        .unwrap_or_default()
}

/// Bytes that can be written until `good` blocks have been erased `rated` times in the mean, if
/// `erases` go with `written` bytes.
fn lifetime(rated: u64, good: u64, written: u64, erases: u64) -> u64 {
    let bytes = u128::from(rated) * u128::from(good) * u128::from(written) / u128::from(erases);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Merges and folds between two looks.
pub(super) fn merges(before: &Tally, after: &Tally) -> Merges {
    let a = after.merges;
    let b = before.merges;
    Merges {
        switch: a.switch - b.switch,
        partial: a.partial - b.partial,
        full: a.full - b.full,
        folds_in_place: a.folds_in_place - b.folds_in_place,
        folds_elsewhere: a.folds_elsewhere - b.folds_elsewhere,
    }
}

/// Look-ups in the map between two looks; none if the layer has not counted any.
fn map_cache(before: &Tally, after: &Tally) -> Option<MapCache> {
    let a = after.map_cache;
    let b = before.map_cache;
    (a.hits + a.misses > 0).then(|| MapCache {
        hits: a.hits - b.hits,
        misses: a.misses - b.misses,
        write_backs: a.write_backs - b.write_backs,
    })
}

/// Pages through the write cache between two looks.
fn write_cache(before: &Snapshot, after: &Snapshot) -> Option<WriteCache> {
    let a = after.write_cache()?;
    let b = before.write_cache()?;
    Some(WriteCache {
        written: a.page_writes - b.page_writes,
        absorbed: a.absorbed - b.absorbed,
        written_back: a.written_back - b.written_back,
        flushes: a.flushes - b.flushes,
        flushes_below: a.flushes_below - b.flushes_below,
    })
}

/// Pages to and past the SLC cache between two looks; none if the layer has none.
fn slc_cache(before: &Snapshot, after: &Snapshot) -> Option<SlcCache> {
    let a = after.tally().slc_cache;
    let b = before.tally().slc_cache;
    let folded = |look: &Snapshot| {
        let mut rows = look.tally().rows();
        let fold = rows.find(|(cause, _)| *cause == Cause::Fold);
        fold.map_or(0, |(_, counts)| counts.copies + counts.programs)
    };
    (a.buffered + a.direct > 0).then(|| SlcCache {
        buffered: a.buffered - b.buffered,
        direct: a.direct - b.direct,
        folded: folded(after) - folded(before),
        erases: after.slc_erases() - before.slc_erases(),
    })
}

/// Flash operations between two looks, by cause.
pub(super) fn causes(before: &Tally, after: &Tally) -> Vec<FlashRow> {
    let rows = after
        .rows()
        .zip(before.rows())
        .map(|((cause, after), (_, before))| FlashRow {
            cause: cause.name().into(),
            reads: after.reads - before.reads,
            oob_reads: after.oob_reads - before.oob_reads,
            programs: after.programs - before.programs,
            oob_programs: after.oob_programs - before.oob_programs,
            copies: after.copies - before.copies,
            erases: after.erases - before.erases,
        });
    rows.filter(|row| (row.reads, row.programs, row.copies, row.erases) != (0, 0, 0, 0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_ftl::CauseCounts;

    #[test]
    fn a_lifetime_is_what_the_rated_erases_allow() {
        assert_eq!(
            lifetime(3000, 100, 1 << 20, 50),
            3000 * 100 * (1 << 20) / 50
        );
        assert_eq!(
            lifetime(u64::from(u32::MAX), 1 << 32, u64::MAX, 1),
            u64::MAX
        );
    }

    #[test]
    fn rows_are_differences_and_empty_ones_are_left_out() {
        let mut before = Tally::default();
        before.of(Cause::Host).programs = 5;
        before.of(Cause::Attach).reads = 9;
        let mut after = before;
        *after.of(Cause::Host) = CauseCounts {
            programs: 12,
            ..CauseCounts::default()
        };
        let rows = causes(&before, &after);
        assert_eq!(
            rows,
            [FlashRow {
                cause: "host data".into(),
                programs: 7,
                ..FlashRow::default()
            }]
        );
    }
}
