//! Translation layers and workloads that are written in Python.
//!
//! *Promises.* They take part in everything that those in Rust do: runs, sweeps, power cuts, stacks
//! driven by hand. A failure of the chip that such a layer does not handle stays the chip's. Any
//! other exception ends the run; the crash explorer reports it as a violation.

use crate::failure::{ChipError, failed};
use crate::flash::Flash;
use nandlab_ftl::{Cause, Mapped, PageMap, Tallied};
use nandlab_lab::workload::{
    BATCH, Decided, Feed, OpenError, Requests, WorkloadDescription, WorkloadKind, Workloads,
};
use nandlab_mtd::{Layer, LayerError, Mtd as _, MtdError};
use nandlab_nand::Chip;
use nandlab_stack::Translation;
use nandlab_stack::{DescriptionError, Document, Registry, Scheme, SchemeInput, Section};
use nandlab_workload::{Op, Request, Source, WorkloadError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A layer or a workload: its name, its keys with their defaults, and the function that makes one.
#[derive(FromPyObject)]
pub struct Plugin(String, Vec<(String, Setting)>, Py<PyAny>);

/// A description, and the layers and workloads of Python that it may name.
#[derive(FromPyObject)]
pub struct Description {
    #[pyo3(item(0))]
    text: String,
    #[pyo3(item(1))]
    file: String,
    #[pyo3(item(2))]
    directory: String,
    #[pyo3(item(3))]
    overrides: Vec<String>,
    #[pyo3(item(4))]
    layers: Vec<Plugin>,
    #[pyo3(item(5))]
    workloads: Vec<Plugin>,
}

impl Description {
    /// The document, and what it may name.
    pub fn parts(self) -> Result<(Document, Registry, Workloads), DescriptionError> {
        let directory = Path::new(&self.directory);
        let document = Document::parse(&self.file, directory, &self.text, &self.overrides)?;
        let layers = self.layers.into_iter().map(Named::new);
        let registry = layers.fold(Registry::standard(), Registry::with_scheme);
        let workloads = self.workloads.into_iter().map(Named::new);
        let workloads = workloads.fold(Workloads::standard(), Workloads::with);
        Ok((document, registry, workloads))
    }
}

/// A value of a key.
#[derive(Clone, Debug, FromPyObject, IntoPyObject)]
enum Setting {
    Flag(bool),
    Whole(u64),
    Number(f64),
    Text(String),
}

impl Setting {
    /// The value of this key, which has the type of the default.
    fn take(&self, section: &mut Section, key: &'static str) -> Result<Self, DescriptionError> {
        match self {
            Self::Flag(flag) => section.or(key, *flag).map(Self::Flag),
            Self::Whole(number) => section.or(key, *number).map(Self::Whole),
            Self::Number(number) => section.or(key, *number).map(Self::Number),
            Self::Text(text) => section.or(key, text.clone()).map(Self::Text),
        }
    }
}

/// A layer or a workload that a description may name.
#[derive(Clone)]
struct Named {
    name: &'static str,
    keys: Vec<(&'static str, Setting)>,
    make: Arc<Py<PyAny>>,
}

/// Prints as its name.
impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Named {
    fn new(Plugin(name, keys, make): Plugin) -> Self {
        let keys = keys.into_iter();
        Self {
            name: interned(&name),
            keys: keys.map(|(key, value)| (interned(&key), value)).collect(),
            make: Arc::new(make),
        }
    }

    fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|(key, _)| *key).collect()
    }

    /// The same with the values of a section as its defaults.
    fn with_values(&self, section: &mut Section) -> Result<Self, DescriptionError> {
        let mut described = self.clone();
        for (key, value) in &mut described.keys {
            *value = value.take(section, key)?;
        }
        Ok(described)
    }

    /// The values as keyword arguments.
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arguments = PyDict::new(py);
        for (key, value) in &self.keys {
            arguments.set_item(key.replace('-', "_"), value.clone())?;
        }
        Ok(arguments)
    }
}

/// A text that lives as long as the process. Equal texts are kept once.
fn interned(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = known.get(text) {
        return text;
    }
    let text: &'static str = Box::leak(text.into());
    known.insert(text);
    text
}

impl Scheme for Named {
    fn name(&self) -> &'static str {
        self.name
    }

    fn keys(&self) -> Vec<&'static str> {
        self.names()
    }

    fn take(&self, input: &mut SchemeInput<'_>) -> Result<Translation, DescriptionError> {
        let layer = self.with_values(input.section)?;
        Ok(Translation {
            needs_contents: true,
            ..Translation::disk(self.name, layer)
        })
    }
}

impl Layer<Chip> for Named {
    type Device = Mapped<Map, Chip>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        self.started(chip, "format")
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        self.started(chip, "attach")
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_flash()
    }
}

impl Named {
    /// Makes the map, and starts it on its chip.
    fn started(&self, chip: Chip, call: &'static str) -> Result<Mapped<Map, Chip>, LayerError> {
        let mut flash = Tallied::new(chip);
        let map = Map::new(self, &mut flash);
        map.call(&mut flash, call, |map| map.call_method0(call).map(drop))?;
        flash.cause = Cause::Host;
        Ok(Mapped::new(self.name, map, flash))
    }
}

/// A map of pages that is an object of Python.
pub struct Map {
    name: &'static str,
    object: Py<PyAny>,
    flash: Py<Flash>,
    pages: u32,
}

impl Map {
    fn new(layer: &Named, flash: &mut Tallied<Chip>) -> Self {
        let made = Python::attach(|py| {
            let lent = Py::new(py, Flash::new(flash.geometry())?)?;
            let object = lent.get().during(flash, || {
                let arguments = layer.arguments(py)?;
                layer.make.call(py, (&lent,), Some(&arguments))
            })?;
            let pages = object.getattr(py, "pages")?.extract(py)?;
            Ok(Self {
                name: layer.name,
                object,
                flash: lent,
                pages,
            })
        });
        made.unwrap_or_else(|error| failed(layer.name, "__init__", error))
    }

    /// Calls the object while it has the flash.
    fn call<T>(
        &self,
        flash: &mut Tallied<Chip>,
        name: &str,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, MtdError> {
        Python::attach(|py| {
            let lent = self.flash.get();
            let outcome = lent.during(flash, || call(self.object.bind(py)));
            outcome.or_else(|error| match lent.take_failure() {
                Some(failure) if error.is_instance_of::<ChipError>(py) => Err(failure),
                _ => failed(self.name, name, error),
            })
        })
    }
}

impl PageMap<Chip> for Map {
    fn pages(&self) -> u32 {
        self.pages
    }

    fn read(
        &mut self,
        flash: &mut Tallied<Chip>,
        page: u32,
        buf: &mut [u8],
    ) -> Result<(), MtdError> {
        let is_whole = self.call(flash, "read", |map| {
            let found = map.call_method1("read", (page,))?;
            filled(&found, buf)
        })?;
        // A layer in Python names no page of the flash, so that the error has none.
        if is_whole {
            Ok(())
        } else {
            Err(MtdError::Uncorrectable(nandlab_mtd::Page(page)))
        }
    }

    fn write(&mut self, flash: &mut Tallied<Chip>, page: u32, data: &[u8]) -> Result<(), MtdError> {
        self.call(flash, "write", |map| {
            let data = PyBytes::new(map.py(), data);
            map.call_method1("write", (page, data)).map(drop)
        })
    }

    fn flush(&mut self, flash: &mut Tallied<Chip>) -> Result<(), MtdError> {
        self.call(flash, "flush", |map| map.call_method0("flush").map(drop))
    }
}

/// Takes the bytes of a page: `bytes`, a `Page`, or `None` for zeros. Returns whether it is whole.
fn filled(found: &Bound<'_, PyAny>, buf: &mut [u8]) -> PyResult<bool> {
    if found.is_none() {
        buf.fill(0);
        return Ok(true);
    }
    let (data, is_whole) = if found.cast::<PyBytes>().is_ok() {
        (found.clone(), true)
    } else {
        (found.getattr("data")?, found.getattr("whole")?.extract()?)
    };
    let data: &[u8] = data.extract()?;
    if data.len() != buf.len() {
        let found = data.len();
        let expected = buf.len();
        let text = format!("a page of {found} bytes, expected {expected}");
        return Err(PyValueError::new_err(text));
    }
    buf.copy_from_slice(data);
    Ok(is_whole)
}

impl WorkloadKind for Named {
    fn name(&self) -> &'static str {
        self.name
    }

    fn keys(&self) -> Vec<&'static str> {
        self.names()
    }

    fn take(&self, section: &mut Section) -> Result<WorkloadDescription, DescriptionError> {
        Ok(WorkloadDescription::requests(self.with_values(section)?))
    }
}

impl Requests for Named {
    fn has_times(&self) -> bool {
        false
    }

    fn open(
        &self,
        bytes: u64,
        sector: u64,
        seed: u64,
    ) -> Result<(Box<dyn Feed>, Decided), OpenError> {
        let opened = Python::attach(|py| {
            let arguments = self.arguments(py)?;
            let requests = self.make.call(py, (bytes, seed), Some(&arguments))?;
            Ok(requests.bind(py).try_iter()?.unbind())
        });
        let feed = Drawn {
            name: self.name,
            requests: opened.unwrap_or_else(|error| failed(self.name, "__call__", error)),
            bytes,
            sector,
            at: 0,
        };
        Ok((Box::new(feed), Decided::new()))
    }
}

/// Requests that an iterator of Python yields.
struct Drawn {
    name: &'static str,
    requests: Py<PyIterator>,
    bytes: u64,
    sector: u64,
    at: u64,
}

/// A request: its kind, its first byte, its bytes, and when it arrives.
#[derive(FromPyObject)]
enum Asked<'py> {
    Timed(String, u64, u64, u64),
    Plain(String, u64, u64),
    #[pyo3(transparent)]
    Other(Bound<'py, PyAny>),
}

impl Drawn {
    fn draw(&mut self, most: usize, into: &mut Vec<Request>) {
        let drawn = Python::attach(|py| {
            let mut requests = self.requests.bind(py).clone();
            for item in requests.by_ref().take(most) {
                let request = self.checked(&item?)?;
                into.push(request);
            }
            Ok(())
        });
        drawn.unwrap_or_else(|error| failed(self.name, "__next__", error));
    }

    /// Refuses a request that no disk would take.
    fn checked(&mut self, item: &Bound<'_, PyAny>) -> PyResult<Request> {
        let (kind, offset, length, at) = match item.extract()? {
            Asked::Timed(kind, offset, length, at) => (kind, offset, length, at),
            Asked::Plain(kind, offset, length) => (kind, offset, length, self.at),
            Asked::Other(other) => {
                let text = format!("found {other}, expected (kind, offset, length)");
                return Err(PyTypeError::new_err(text));
            }
        };
        let op = match &kind[..] {
            "read" => Op::Read,
            "write" => Op::Write,
            "discard" => Op::Discard,
            "flush" => Op::Flush,
            other => {
                let text = format!("found {other}, expected read, write, flush or discard");
                return Err(PyValueError::new_err(text));
            }
        };
        let is_flush = op == Op::Flush;
        let end = offset.checked_add(length);
        let is_aligned = offset.is_multiple_of(self.sector) && length.is_multiple_of(self.sector);
        let fits = end.is_some_and(|end| end <= self.bytes) && is_aligned && length > 0;
        let fine = if is_flush {
            offset == 0 && length == 0
        } else {
            fits
        };
        if !fine || at < self.at {
            let text = format!(
                "{kind} of {length} bytes at {offset}, arrival {at} ns: expected whole sectors of \
                 {} bytes on a disk of {} bytes, zeros for a flush, and times that do not decrease",
                self.sector, self.bytes
            );
            return Err(PyValueError::new_err(text));
        }
        self.at = at;
        Ok(Request {
            op,
            at,
            offset,
            length,
        })
    }
}

impl Source for Drawn {
    fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
        let mut one = Vec::new();
        self.draw(1, &mut one);
        Ok(one.pop())
    }
}

impl Feed for Drawn {
    fn draw(&mut self, into: &mut Vec<Request>) -> Result<(), WorkloadError> {
        self.draw(BATCH, into);
        Ok(())
    }

    /// Nobody knows when an iterator ends.
    fn share_done(&self) -> f64 {
        0.0
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
