//! A translation layer with a bug: the run ends with what it did, where, and what led to it.

use nandlab_ftl::{Mapped, PageMap, Tallied};
use nandlab_lab::workload::Workloads;
use nandlab_lab::{Experiment, RunError, run};
use nandlab_mtd::{Layer, LayerError, Mtd, MtdError, Page};
use nandlab_nand::Chip;
use nandlab_stack::{DiskScheme, Document, Registry, Translation};
use std::path::Path;

/// `[ftl]` with `scheme = "log"`.
const LOG: DiskScheme = DiskScheme {
    name: "log",
    keys: &[],
    take: |_| Ok(Translation::disk("log", Options)),
};

#[derive(Debug)]
struct Options;

/// The page that is programmed twice.
const LAST: u32 = 300;

impl Layer<Chip> for Options {
    type Device = Mapped<Log, Chip>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        self.attach(chip)
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        let map = Log {
            places: vec![None; chip.geometry().pages() as usize / 2],
            next: 0,
        };
        Ok(Mapped::new("log", map, Tallied::new(chip)))
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_flash()
    }
}

/// Each write goes to the next page, and nothing is reclaimed. The bug: after a while it stays at
/// one page.
struct Log {
    places: Vec<Option<Page>>,
    next: u32,
}

impl PageMap<Chip> for Log {
    fn pages(&self) -> u32 {
        self.places.len() as u32
    }

    fn read(&mut self, flash: &mut Tallied<Chip>, n: u32, buf: &mut [u8]) -> Result<(), MtdError> {
        match self.places[n as usize] {
            Some(page) => _ = flash.read(page, buf, &mut [])?,
            None => buf.fill(0),
        }
        Ok(())
    }

    fn write(&mut self, flash: &mut Tallied<Chip>, n: u32, data: &[u8]) -> Result<(), MtdError> {
        let place = &mut self.places[n as usize];
        // A new file system clears its tables, which hold zeros already.
        if place.is_none() && data.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        flash.program(Page(self.next), data, &[])?;
        *place = Some(Page(self.next));
        self.next = LAST.min(self.next + 1);
        Ok(())
    }
}

/// A chip whose pages take one program, in any order.
const CHIP: &str = "
[chip]
preset = \"small-block-64MiB\"
blocks = 256
partial-programs = 1
[ftl]
scheme = \"log\"
";

fn error(rest: &str) -> RunError {
    let registry = Registry::standard().with_scheme(LOG);
    let text = format!("{CHIP}{rest}");
    let document = Document::parse("bug.toml", Path::new("."), &text, &[]).unwrap();
    let experiment = Experiment::take_with(document, &registry, &Workloads::standard()).unwrap();
    run(&experiment, &mut |_| ()).map(|_| ()).unwrap_err()
}

/// The text must have all of `expected`, in this order.
fn check(error: &RunError, expected: &[&str]) {
    assert!(!error.is_bad_input(), "{error}");
    let text = error.to_string();
    let mut rest = text.as_str();
    for part in expected {
        let found = rest.find(part);
        let at = found.unwrap_or_else(|| panic!("expected {part:?} in {text:?}"));
        rest = &rest[at + part.len()..];
    }
}

const BROKEN_RULE: &str = "internal error: log: page 300";
const RECENT: &str = "; the last operations on the chip were:\n  ";

#[test]
fn a_layer_that_breaks_a_rule_of_the_chip_stops_the_run() {
    let error = error("[workload]\nblock = 512\nrequests = 4000\nsize = \"64 KiB\"\n");
    assert!(matches!(error, RunError::Stopped(_)), "{error:?}");
    let request = ["run: request ", ", write of 512 bytes at offset "];
    let rule = [
        BROKEN_RULE,
        " in block 9: program of a page that is not erased",
        RECENT,
        "program",
    ];
    check(&error, &[&request[..], &rule[..]].concat());
}

#[test]
fn below_a_file_system_the_call_and_the_file_are_named_too() {
    let error = error("[fs]\ntype = \"ext2\"\n[workload]\ntype = \"bonnie\"\nsize = \"256 KiB\"\n");
    assert!(matches!(error, RunError::Explained(_)), "{error:?}");
    let call = [
        "call ",
        " of Bonnie",
        ": input/output error (EIO): ",
        "device: ",
    ];
    let rule = [
        BROKEN_RULE,
        " in block 9: program of a page that is not erased",
        RECENT,
        "program",
    ];
    check(&error, &[&call[..], &rule[..]].concat());
}
