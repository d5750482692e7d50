//! What each layer says of each fault of the flash: its name, and the page or block of the fault.

use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions, PageOrder};
use nandlab_ftl::mtdblock::MtdBlock;
use nandlab_ftl::nftl::{Nftl, NftlOptions, Ordering};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_mtd::{Geometry, Hook, Hooked, MtdError, Outcome, Page, Request};
use nandlab_nand::{Chip, preset};
use nandlab_sim::{Chain, mix};
use std::cell::Cell;
use std::rc::Rc;

const PAGES_PER_BLOCK: u32 = 8;
/// A sector that is read.
const SECTOR: u64 = 5;
const LAYERS: [&str; 6] = ["page", "bast", "sast", "fast", "nftl", "mtdblock"];

/// What fails from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    Nothing,
    /// Reads of data, and copies, but of each block's first page: a chain of units hangs on it.
    Reads,
    /// Reads of spare bytes alone.
    Spares,
    Programs,
    Erases,
    /// Programs break a rule of the chip.
    Rules,
}

/// Makes a kind of operation fail while it is switched on.
struct Switch(Rc<Cell<Fails>>);

impl Hook for Switch {
    fn before(&mut self, request: &Request) -> Result<(), MtdError> {
        match (self.0.get(), *request) {
            (Fails::Reads, Request::Copy { from, .. }) if !is_first(from) => {
                Err(MtdError::Uncorrectable(from))
            }
            (Fails::Programs, Request::Program { page, .. } | Request::Copy { to: page, .. }) => {
                Err(MtdError::ProgramFailed(page))
            }
            (Fails::Rules, Request::Program { page, .. } | Request::Copy { to: page, .. }) => {
                Err(MtdError::Illegal(page, "programmed twice"))
            }
            (Fails::Erases, Request::Erase(block)) => Err(MtdError::EraseFailed(block)),
            _ => Ok(()),
        }
    }

    fn after(&mut self, request: &Request, outcome: Outcome) -> Outcome {
        match (self.0.get(), *request) {
            (Fails::Reads, Request::Read { page, data: true }) if !is_first(page) => {
                Err(MtdError::Uncorrectable(page))
            }
            (Fails::Spares, Request::Read { page, data: false }) => {
                Err(MtdError::Uncorrectable(page))
            }
            _ => outcome,
        }
    }
}

fn is_first(page: Page) -> bool {
    page.0.is_multiple_of(PAGES_PER_BLOCK)
}

/// A layer on a small chip, and what fails there.
struct Bench {
    device: Box<dyn BlockDevice>,
    fails: Rc<Cell<Fails>>,
}

impl Bench {
    /// A layer whose sectors are all written.
    fn filled(layer: &str) -> Self {
        let fails = Rc::new(Cell::new(Fails::Nothing));
        let flash = Hooked::with(chip(), Switch(fails.clone()));
        let log_block = |options| LogBlockOptions {
            page_order: PageOrder::Any,
            log_blocks: 2,
            spare_blocks: 4,
            ..options
        };
        let device: Box<dyn BlockDevice> = match layer {
            "page" => {
                let options = PageOptions {
                    over_provisioning: 0.3,
                    ..PageOptions::default()
                };
                Box::new(PageFtl::format(flash, options).unwrap())
            }
            "bast" => {
                Box::new(LogBlockFtl::format(flash, log_block(LogBlockOptions::bast())).unwrap())
            }
            "sast" => {
                let options = log_block(LogBlockOptions::sast(4, 2));
                Box::new(LogBlockFtl::format(flash, options).unwrap())
            }
            "fast" => {
                Box::new(LogBlockFtl::format(flash, log_block(LogBlockOptions::fast())).unwrap())
            }
            "nftl" => {
                let options = NftlOptions {
                    spare_units: 8,
                    ordering: Ordering::Guarded,
                    verify_free: false,
                    ..NftlOptions::default()
                };
                Box::new(Nftl::format(flash, options).unwrap())
            }
            _ => Box::new(MtdBlock::format(flash).unwrap()),
        };
        let mut bench = Self { device, fails };
        (0..bench.sectors()).for_each(|lba| bench.write(lba).unwrap());
        bench.device.flush().unwrap();
        bench
    }

    fn sectors(&self) -> u64 {
        self.device.geometry().sectors
    }

    fn write(&mut self, lba: u64) -> Result<(), BlockError> {
        self.device.write(Lba(lba), &[lba as u8; 512])
    }

    fn read(&mut self, lba: u64) -> Result<(), BlockError> {
        self.device.read(Lba(lba), &mut [0; 512])
    }

    /// Writes here and there until that fails.
    fn write_until_it_fails(&mut self) -> BlockError {
        let sectors = self.sectors();
        let mut writes = (0..20_000).map(|i| i * 37 % sectors);
        writes.find_map(|lba| self.write(lba).err()).unwrap()
    }

    /// The error that this fault leads to.
    fn error(&mut self, fails: Fails) -> BlockError {
        self.fails.set(fails);
        match fails {
            Fails::Reads | Fails::Spares => self.read(SECTOR).unwrap_err(),
            _ => self.write_until_it_fails(),
        }
    }
}

/// Blocks of eight pages of 512 bytes.
fn chip() -> Chip {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.geometry = Geometry {
        blocks: 48,
        pages_per_block: PAGES_PER_BLOCK,
        ..spec.geometry
    };
    Chip::new(spec).unwrap()
}

/// The name under which a layer reports.
fn name(layer: &str) -> &str {
    match layer {
        "page" => "page mapping",
        "nftl" => "NFTL",
        "bast" | "sast" | "fast" => "log-block mapping",
        other => other,
    }
}

/// The error in one line with `N` for each number. A page must lie in its block.
fn words(error: &BlockError) -> String {
    let line = Chain(error).to_string();
    if let Some((_, place)) = line
        .split_once("page ")
        .filter(|(_, at)| at.contains(" in block "))
    {
        let mut numbers = place
            .split(|c: char| !c.is_ascii_digit())
            .flat_map(str::parse::<u32>);
        let page = numbers.next().unwrap();
        assert_eq!(numbers.next(), Some(page / PAGES_PER_BLOCK), "{line}");
    }
    let mut words = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' if words.ends_with('N') => {}
            '0'..='9' => words.push('N'),
            other => words.push(other),
        }
    }
    words
}

/// What each layer says of this fault: `expected` has `LAYER` for the layer's name.
fn check(layer: &str, fails: Fails, expected: &str) {
    let error = Bench::filled(layer).error(fails);
    let expected = expected.replace("LAYER", name(layer));
    assert_eq!(words(&error), expected, "{layer}, {fails:?}");
}

const LOST: &str = "sector N: contents lost to a media error: LAYER: ";
const WORN_OUT: &str = "worn out: no erase block left to write to: LAYER: ";

#[test]
fn a_page_that_cannot_be_read_is_named() {
    for layer in LAYERS {
        check(
            layer,
            Fails::Reads,
            &format!("{LOST}page N in block N: uncorrectable"),
        );
    }
    check(
        "nftl",
        Fails::Spares,
        &format!("{LOST}page N in block N: uncorrectable"),
    );
}

#[test]
fn a_worn_out_layer_names_the_program_that_failed_last() {
    for layer in LAYERS {
        // Fixed places know no spare blocks: what fails is lost.
        let head = if layer == "mtdblock" { LOST } else { WORN_OUT };
        check(
            layer,
            Fails::Programs,
            &format!("{head}page N in block N: program failed"),
        );
    }
}

#[test]
fn a_worn_out_layer_names_the_erase_that_failed_last() {
    for layer in LAYERS {
        let head = if layer == "mtdblock" { LOST } else { WORN_OUT };
        check(
            layer,
            Fails::Erases,
            &format!("{head}block N: erase failed"),
        );
    }
}

#[test]
fn a_layer_that_breaks_a_rule_names_the_page() {
    for layer in LAYERS {
        let expected = "internal error: LAYER: page N in block N: programmed twice";
        check(layer, Fails::Rules, expected);
    }
}

/// The page-mapped layer forgets where a sector was once that is lost: its map says no more.
#[test]
fn what_was_lost_before_names_the_page_that_says_so() {
    for layer in LAYERS {
        let mut bench = Bench::filled(layer);
        bench.fails.set(Fails::Reads);
        // Whatever is moved meanwhile cannot be read.
        let sectors = bench.sectors();
        (0..400).for_each(|i| bench.write(mix(1, i) % sectors).unwrap());
        bench.device.flush().unwrap();
        bench.fails.set(Fails::Nothing);
        let error = (0..sectors).find_map(|lba| bench.read(lba).err()).unwrap();
        let place = if layer == "page" {
            "medium"
        } else {
            "page N in block N"
        };
        let expected = format!("{LOST}{place}: marked as lost").replace("LAYER", name(layer));
        assert_eq!(words(&error), expected, "{layer}");
    }
}
