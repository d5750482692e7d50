//! Rules of power loss that a random cut seldom meets. Each test reads them off the operations that
//! a layer asks of its chip, or off one medium made for the case.

use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::Ftl;
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions, PageOrder};
use nandlab_ftl::nftl::{Nftl, NftlOptions};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_mtd::{Block, Geometry, Hook, Hooked, Mtd, MtdError, Outcome, Page, Request};
use nandlab_nand::{Chip, LoggedKind, LoggedOp, preset};
use nandlab_sim::mix;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const PAGES: u32 = 8;

/// What the test shares with the hook beside the chip.
#[derive(Default)]
struct Shared {
    /// Requests that succeeded, in order.
    asked: Vec<Request>,
    /// Pages that cannot be read or copied.
    unreadable: BTreeSet<u32>,
    /// Programs until one fails.
    until_failure: Option<u32>,
}

impl Shared {
    fn program_fails(&mut self) -> bool {
        self.until_failure = self.until_failure.and_then(|left| left.checked_sub(1));
        self.until_failure == Some(0)
    }
}

struct Probe(Rc<RefCell<Shared>>);

impl Hook for Probe {
    fn before(&mut self, request: &Request) -> Result<(), MtdError> {
        let mut shared = self.0.borrow_mut();
        match *request {
            Request::Copy { from, .. } if shared.unreadable.contains(&from.0) => {
                Err(MtdError::Uncorrectable(from))
            }
            Request::Program { page, .. } | Request::Copy { to: page, .. }
                if shared.program_fails() =>
            {
                Err(MtdError::ProgramFailed(page))
            }
            _ => Ok(()),
        }
    }

    fn after(&mut self, request: &Request, outcome: Outcome) -> Outcome {
        let mut shared = self.0.borrow_mut();
        match *request {
            Request::Read { page, .. } if shared.unreadable.contains(&page.0) => {
                Err(MtdError::Uncorrectable(page))
            }
            request => {
                if outcome.is_ok() {
                    shared.asked.push(request);
                }
                outcome
            }
        }
    }
}

type Flash = Hooked<Chip, Probe>;
type Device<M> = Box<dyn Ftl<Medium = M>>;

/// Blocks of eight pages of 512 bytes.
fn chip(dies: u32) -> Chip {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.geometry = Geometry {
        blocks: 48,
        pages_per_block: PAGES,
        dies,
        ..spec.geometry
    };
    Chip::new(spec).unwrap()
}

fn flash() -> (Flash, Rc<RefCell<Shared>>) {
    let shared = Rc::new(RefCell::new(Shared::default()));
    (Hooked::with(chip(1), Probe(shared.clone())), shared)
}

fn page_options() -> PageOptions {
    PageOptions {
        over_provisioning: 0.3,
        ..PageOptions::default()
    }
}

fn log_block_options(layer: &str) -> LogBlockOptions {
    let options = match layer {
        "bast" => LogBlockOptions::bast(),
        "sast" => LogBlockOptions::sast(4, 2),
        _ => LogBlockOptions::fast(),
    };
    LogBlockOptions {
        page_order: PageOrder::Any,
        log_blocks: 4,
        spare_blocks: 4,
        ..options
    }
}

fn nftl_options() -> NftlOptions {
    NftlOptions {
        spare_units: 8,
        verify_free: false,
        ..NftlOptions::default()
    }
}

fn format<M: Mtd + 'static>(layer: &str, flash: M) -> Device<M> {
    match layer {
        "page" => Box::new(PageFtl::format(flash, page_options()).unwrap()),
        "nftl" => Box::new(Nftl::format(flash, nftl_options()).unwrap()),
        _ => Box::new(LogBlockFtl::format(flash, log_block_options(layer)).unwrap()),
    }
}

fn attach<M: Mtd + 'static>(layer: &str, flash: M) -> Device<M> {
    match layer {
        "page" => Box::new(PageFtl::attach(flash, page_options()).unwrap()),
        "nftl" => Box::new(Nftl::attach(flash, nftl_options()).unwrap()),
        _ => Box::new(LogBlockFtl::attach(flash, log_block_options(layer)).unwrap()),
    }
}

/// A sector's contents tell the sector and the number of the write.
fn sector(lba: u64, stamp: u64) -> [u8; 512] {
    let mut data = [0; 512];
    data[..8].copy_from_slice(&(lba + 1).to_le_bytes());
    data[8..16].copy_from_slice(&stamp.to_le_bytes());
    data
}

fn write<M>(device: &mut Device<M>, lba: u64, stamp: u64) {
    device.write(Lba(lba), &sector(lba, stamp)).unwrap();
}

fn fill<M>(device: &mut Device<M>) {
    (0..device.geometry().sectors).for_each(|lba| write(device, lba, 1));
    device.flush().unwrap();
}

/// Counts bad-block marks on blocks with flushed pages. None may come while a program may be
/// undone.
fn marks_behind_a_sync(asked: &[Request], what: &str) -> u32 {
    let mut written = BTreeSet::new();
    let mut synced: BTreeSet<u32> = BTreeSet::new();
    let mut marks = 0;
    let mut waiting = 0;
    for request in asked {
        match *request {
            Request::Program { page, .. } | Request::Copy { to: page, .. } => {
                written.insert(page.0 / PAGES);
                waiting += 1;
            }
            Request::Erase(block) => {
                written.remove(&block.0);
                synced.remove(&block.0);
            }
            Request::Sync => {
                synced.extend(&written);
                waiting = 0;
            }
            Request::MarkBad(block) if synced.contains(&block.0) => {
                assert_eq!(
                    waiting, 0,
                    "{what}: programs that block {} waits for",
                    block.0
                );
                marks += 1;
            }
            _ => {}
        }
    }
    marks
}

#[test]
fn a_block_is_marked_bad_only_behind_a_sync() {
    for layer in ["page", "bast", "sast", "fast", "nftl"] {
        let mut marks = 0;
        for nth in 1..40 {
            let (flash, shared) = flash();
            let mut device = format(layer, flash);
            fill(&mut device);
            shared.borrow_mut().until_failure = Some(nth);
            for i in 0..200 {
                write(&mut device, mix(7, i) % 24, 2 + i);
                device.flush().unwrap();
            }
            let what = format!("{layer}, program {nth} fails");
            marks += marks_behind_a_sync(&shared.borrow().asked, &what);
        }
        assert!(marks > 5, "{layer}: {marks} marks");
    }
}

/// The page that a sector was last written to.
fn pages_of_sectors(flash: &mut Flash) -> BTreeMap<u64, Page> {
    let mut found = BTreeMap::new();
    for page in (0..flash.geometry().pages()).map(Page) {
        let mut data = [0; 512];
        flash.read(page, &mut data, &mut []).unwrap();
        let lba = u64::from_le_bytes(data[..8].try_into().unwrap()).wrapping_sub(1);
        if lba < u64::from(flash.geometry().pages()) && data == sector(lba, 1) {
            found.insert(lba, page);
        }
    }
    found
}

#[test]
fn a_block_whose_first_page_cannot_be_read_keeps_its_other_pages() {
    for layer in ["page", "bast", "sast", "fast"] {
        let (flash, shared) = flash();
        let mut device = format(layer, flash);
        fill(&mut device);
        device.detach().unwrap();
        let mut flash = device.into_medium();
        let pages = pages_of_sectors(&mut flash);
        let first = pages[&20].0 / PAGES * PAGES;
        shared.borrow_mut().unreadable.insert(first);
        let mut device = attach(layer, flash);
        let inside = |page: &Page| page.0 / PAGES == first / PAGES && page.0 != first;
        let others: Vec<u64> = pages
            .iter()
            .filter(|(_, p)| inside(p))
            .map(|(l, _)| *l)
            .collect();
        assert!(others.len() >= 6, "{layer}: {others:?}");
        for lba in others {
            let mut data = [0; 512];
            let read = device.read(Lba(lba), &mut data);
            assert!(
                read == Ok(()) && data == sector(lba, 1),
                "{layer}, sector {lba}: {read:?}"
            );
        }
    }
}

/// Collection cannot read a flushed page. A cut follows before the map is written in its turn.
#[test]
fn a_page_lost_in_collection_never_shows_its_older_version() {
    const LOST: u64 = 5;
    let (flash, shared) = flash();
    let options = PageOptions {
        map_interval: 1_000_000,
        ..page_options()
    };
    let mut device = PageFtl::format(flash, options.clone()).unwrap();
    let mut write = |lba: u64, stamp| device.write(Lba(lba), &sector(lba, stamp)).unwrap();
    (0..280).for_each(|lba| write(lba, 1));
    // The newer version shares its block with pages that are soon out of date: the first victim.
    write(LOST, 2);
    let page = match shared.borrow().asked.last() {
        Some(Request::Program { page, .. }) => *page,
        other => panic!("{other:?} is not the program of the sector"),
    };
    (0..7).for_each(|i| write(9, 2 + i));
    shared.borrow_mut().unreadable.insert(page.0);
    shared.borrow_mut().asked.clear();
    let emptied = Request::Erase(Block(page.0 / PAGES));
    // Old blocks lose one page each, and new ones none: all hold more than the first victim.
    let mut next = 0;
    while !shared.borrow().asked.contains(&emptied) {
        write(16 + next * 8 % 256 + next / 32, 3);
        next += 1;
        assert!(next < 256, "the block was not collected");
    }
    device.flush().unwrap();
    let mut device = PageFtl::attach(device.into_medium(), options).unwrap();
    let mut data = [0; 512];
    let read = device.read(Lba(LOST), &mut data);
    assert!(read.is_err(), "the version of write {}", data[8]);
}

/// Attaches a half-full layer on a chip of four dies and writes; gives what the chip did.
fn logged(layer: &str, writes: u64) -> Vec<LoggedOp> {
    let mut device = format(layer, chip(4));
    let sectors = device.geometry().sectors;
    (0..sectors)
        .step_by(2)
        .for_each(|lba| write(&mut device, lba, 1));
    device.flush().unwrap();
    let mut chip = device.into_medium();
    chip.start_log();
    let mut device = attach(layer, chip);
    (0..writes).for_each(|i| write(&mut device, mix(3, i) % sectors, 2 + i));
    device.medium().logged().to_vec()
}

fn programmed(op: &LoggedOp) -> Option<Page> {
    match op.kind {
        LoggedKind::Program { page, .. } | LoggedKind::Copy { to: page, .. } => Some(page),
        _ => None,
    }
}

/// The operations of a log that begin before an earlier one has ended, of those that `picks`
/// chooses; and how many it chooses.
fn overtaking(log: &[LoggedOp], mut picks: impl FnMut(&LoggedOp) -> bool) -> (usize, usize) {
    let mut last_end = 0;
    let mut picked = 0;
    let mut early = 0;
    for op in log {
        if picks(op) {
            picked += 1;
            early += usize::from(op.start < last_end);
        }
        last_end = last_end.max(op.end);
    }
    (early, picked)
}

#[test]
fn a_log_block_layer_begins_a_block_behind_everything_before() {
    for layer in ["bast", "sast", "fast"] {
        let log = logged(layer, 600);
        let mut begun = BTreeSet::new();
        let (early, picked) = overtaking(&log, |op| {
            if let LoggedKind::Erase(block) = op.kind {
                begun.remove(&block.0);
            }
            programmed(op).is_some_and(|page| begun.insert(page.0 / PAGES))
        });
        assert!(
            early == 0 && picked > 100,
            "{layer}: {early} of {picked} first programs overtake"
        );
    }
}

/// Whole units are rewritten in order, so that a chain folds into its last unit with nothing to
/// copy. One unit is rewritten alone, so that what a fold prepares is linked. Scattered writes with
/// wear levelling then move chains to fresh units.
fn logged_nftl(mut chip: Chip) -> Vec<LoggedOp> {
    let options = NftlOptions {
        wear_threshold: 1,
        ..nftl_options()
    };
    chip.start_log();
    let mut device: Device<Chip> = Box::new(Nftl::format(chip, options).unwrap());
    (0..3).for_each(|_| fill(&mut device));
    (0..400).for_each(|i| write(&mut device, 1 + i % 7, 2 + i));
    let sectors = device.geometry().sectors;
    (0..3000).for_each(|i| write(&mut device, mix(3, i) % (sectors / 4), 2 + i));
    device.medium().logged().to_vec()
}

/// A unit's first page is programmed again to link it or to name it the only one of its chain. In a
/// fold to a fresh unit its name comes last, behind the contents. A superblock's pages lie on
/// several dies, so that no die orders them.
#[test]
fn nftl_links_and_names_a_unit_behind_everything_before() {
    let mut joined = chip(4).spec().clone();
    joined.geometry.blocks *= 4;
    let joined = Chip::new(joined.in_superblocks()).unwrap();
    for chip in [chip(4), joined] {
        let pages = chip.geometry().pages_per_block;
        let log = logged_nftl(chip);
        let mut named = BTreeSet::new();
        let mut filled = BTreeSet::new();
        let mut fresh = 0;
        let (early, picked) = overtaking(&log, |op| {
            if let LoggedKind::Erase(block) = op.kind {
                named.remove(&block.0);
                filled.remove(&block.0);
            }
            let Some(page) = programmed(op) else {
                return false;
            };
            let unit = page.0 / pages;
            if page.0 % pages != 0 {
                if matches!(&op.kind, LoggedKind::Program { data, .. } if !data.is_empty()) {
                    filled.insert(unit);
                }
                return false;
            }
            let again = !named.insert(unit);
            fresh += usize::from(!again && filled.contains(&unit));
            again || filled.contains(&unit)
        });
        let what = format!("{pages} pages: {early} of {picked} overtake, {fresh} in fresh units");
        assert!(early == 0 && picked > 100 && fresh > 0, "{what}");
    }
}

/// After a cut, the page behind the last one of a block may look erased and not be.
#[test]
fn a_block_that_was_open_at_a_cut_gets_nothing_more() {
    for layer in ["page", "bast", "sast", "fast"] {
        let (flash, shared) = flash();
        let mut device = format(layer, flash);
        // Half of the first data block is left free, and a log block behind it.
        (0..u64::from(PAGES) * 9 + 4).for_each(|lba| write(&mut device, lba, 1));
        (0..3).for_each(|i| write(&mut device, 11 + i, 2));
        device.flush().unwrap();
        let mut device = attach(layer, device.into_medium());
        shared.borrow_mut().asked.clear();
        let written = u64::from(PAGES) * 10;
        (0..300).for_each(|i| write(&mut device, mix(2, i) % written, 3 + i));
        let mut erased = BTreeSet::new();
        for request in &shared.borrow().asked {
            match *request {
                Request::Erase(block) => _ = erased.insert(block.0),
                Request::Program { page, .. } | Request::Copy { to: page, .. } => {
                    let block = page.0 / PAGES;
                    assert!(
                        erased.contains(&block),
                        "{layer}: page {} of block {block}",
                        page.0
                    );
                }
                _ => {}
            }
        }
        assert!(erased.len() > 5, "{layer}: {} blocks erased", erased.len());
    }
}
