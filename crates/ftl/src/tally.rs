//! Who caused which flash operation.

/// The reason for a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Data that the host reads and writes.
    Host,
    /// Garbage collection: copies out of a victim, and erases (each frees space for later writes).
    Collection,
    /// Static wear levelling moves cold data.
    Wear,
    /// Merges in which a log block becomes the data block as it is.
    SwitchMerge,
    /// Merges in which a log block is completed and becomes the data block.
    PartialMerge,
    /// Merges into a fresh data block.
    FullMerge,
    /// Folds of a chain of replacement units into one, or of a block of an SLC cache into
    /// multi-level blocks; the erases of units and of the cache's blocks included.
    Fold,
    /// The map on flash, links of unit chains included.
    Mapping,
    /// Moving data off failing or decaying blocks.
    Repair,
    /// Reading the medium when the layer is attached.
    Attach,
}

impl Cause {
    /// Every cause, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Host,
        Self::Collection,
        Self::Wear,
        Self::SwitchMerge,
        Self::PartialMerge,
        Self::FullMerge,
        Self::Fold,
        Self::Mapping,
        Self::Repair,
        Self::Attach,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host data",
            Self::Collection => "collection",
            Self::Wear => "wear levelling",
            Self::SwitchMerge => "switch merge",
            Self::PartialMerge => "partial merge",
            Self::FullMerge => "full merge",
            Self::Fold => "fold",
            Self::Mapping => "mapping",
            Self::Repair => "repair",
            Self::Attach => "attach",
        }
    }
}

/// Flash operations of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseCounts {
    /// Page reads, OOB-only ones included: `reads - oob_reads` are those with data.
    pub reads: u64,
    /// Reads of nothing but a page's OOB.
    pub oob_reads: u64,
    /// Page programs without copies, OOB-only ones included: `programs - oob_programs` are those
    /// with data.
    pub programs: u64,
    /// Programs of nothing but a page's OOB.
    pub oob_programs: u64,
    /// Copies inside the array.
    pub copies: u64,
    /// Blocks erased for this cause.
    pub erases: u64,
}

/// Merges of a log-block layer and folds of a replacement-block layer, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merges {
    /// The log block became the data block as it was.
    pub switch: u64,
    /// The log block was completed and became the data block.
    pub partial: u64,
    /// A logical block was copied to a fresh data block.
    pub full: u64,
    /// A chain of units was completed in its last unit.
    pub folds_in_place: u64,
    /// A chain of units was copied to a fresh unit.
    pub folds_elsewhere: u64,
}

/// Look-ups in the map of a layer that keeps a part of its map in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapCache {
    /// Look-ups that found their map page in memory.
    pub hits: u64,
    /// Look-ups that found it on flash only.
    pub misses: u64,
    /// Changed map pages that went to flash before they left memory.
    pub write_backs: u64,
}

/// Where the pages of the host went, in a layer with an SLC cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlcCacheCounts {
    /// To the cache.
    pub buffered: u64,
    /// To multi-level blocks, past a cache that was full.
    pub direct: u64,
}

/// Flash operations by cause, and the host pages they served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    causes: [CauseCounts; Cause::ALL.len()],
    /// Pages of data that the host wrote (a part of a page counts as one).
    pub host_pages: u64,
    /// Merges and folds; none in layers without log or replacement blocks.
    pub merges: Merges,
    /// Look-ups in the map; none in layers whose whole map is in memory.
    pub map_cache: MapCache,
    /// Pages that the host wrote; none in layers without an SLC cache.
    pub slc_cache: SlcCacheCounts,
}

impl Tally {
    /// The counts of one cause.
    #[inline]
    pub fn of(&mut self, cause: Cause) -> &mut CauseCounts {
        &mut self.causes[cause as usize]
    }

    /// Counts a read of a page, or of its OOB alone.
    #[inline]
    pub(crate) fn count_read(&mut self, cause: Cause, data: bool) {
        let counts = self.of(cause);
        counts.reads += 1;
        counts.oob_reads += u64::from(!data);
    }

    /// Counts a program of a page, or of its OOB alone.
    #[inline]
    pub(crate) fn count_program(&mut self, cause: Cause, data: bool) {
        let counts = self.of(cause);
        counts.programs += 1;
        counts.oob_programs += u64::from(!data);
    }

    /// Every cause with its counts.
    pub fn rows(&self) -> impl Iterator<Item = (Cause, CauseCounts)> + '_ {
        Cause::ALL.into_iter().map(|c| (c, self.causes[c as usize]))
    }

    /// Page programs per host page, with or without the map; none before the first host write.
    pub fn amplification(&self, with_mapping: bool) -> Option<f64> {
        let programs: u64 = self
            .rows()
            .filter(|(c, _)| with_mapping || *c != Cause::Mapping)
            .map(|(_, n)| n.programs + n.copies)
            .sum();
        (self.host_pages > 0).then(|| programs as f64 / self.host_pages as f64)
    }
}
