//! A stack as a disk that can be looked into while it is served.

use super::ExportError;
use nandlab_block::{
    BlockDevice, BlockError, BlockGeometry, Count, Counts, Hook, Lba, Op, Request,
};
use nandlab_ftl::{CauseCounts, Tally};
use nandlab_lab::table;
use nandlab_stack::{BuildError, Device, Stack};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A stack that is served and looked into at once. Shared by cloning.
#[derive(Clone)]
pub struct Served {
    geometry: BlockGeometry,
    state: Arc<Mutex<State>>,
}

struct State {
    stack: Stack,
    counts: Counts,
}

impl State {
    fn device(&mut self) -> &mut dyn Device {
        self.stack
            .disk()
            .expect("a stack without a disk is refused at first")
    }
}

impl Served {
    /// Takes a stack over until [`into_stack`](Self::into_stack).
    /// Fails if the stack has no disk.
    pub fn new(mut stack: Stack) -> Result<Self, BuildError> {
        let geometry = *stack.disk()?.geometry();
        let counts = Counts::default();
        let state = Arc::new(Mutex::new(State { stack, counts }));
        Ok(Self { geometry, state })
    }

    /// For looking only: what a request that panicked has left can still be looked at.
    fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(
        &self,
        op: Op,
        lba: Lba,
        sectors: u64,
        serve: impl FnOnce(&mut dyn Device) -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let mut state = self
            .state
            .lock()
            .map_err(|_| BlockError::internal("served disk", "an earlier request panicked"))?;
        let outcome = serve(state.device());
        state.counts.after(&Request { op, lba, sectors }, outcome)
    }

    /// The stack, once nobody else has it.
    pub fn into_stack(self) -> Result<Stack, ExportError> {
        let state = Arc::into_inner(self.state).ok_or(ExportError::Broken)?;
        state
            .into_inner()
            .map(|state| state.stack)
            .map_err(|_| ExportError::Broken)
    }

    /// What was asked for and what the flash did, as a table.
    pub fn summary(&self) -> String {
        let mut state = self.look();
        let tally = *state.device().tally();
        let sector = u64::from(self.geometry.sector);
        let requests = kinds(&state.counts).map(|(name, count)| {
            [
                name.to_string(),
                count.requests.to_string(),
                (count.sectors * sector).to_string(),
                count.failed.to_string(),
            ]
        });
        let requests = table::words(["requests", "served", "bytes", "failed"], requests);
        format!(
            "{requests}\n{}\n{}\n",
            causes(&tally),
            totals(&tally, state.stack.clock.now())
        )
    }

    /// The same in one line.
    pub fn line(&self) -> String {
        let mut state = self.look();
        let tally = *state.device().tally();
        let served: Vec<String> = kinds(&state.counts)
            .map(|(name, count)| format!("{} {name}", count.requests))
            .into();
        format!(
            "{}; {}",
            served.join(", "),
            totals(&tally, state.stack.clock.now())
        )
    }

    /// The same for machines.
    pub fn json(&self) -> String {
        let mut state = self.look();
        let tally = *state.device().tally();
        let requests: serde_json::Map<_, _> = kinds(&state.counts)
            .into_iter()
            .map(|(name, n)| (name.into(), serde_json::json!({ "served": n.requests, "sectors": n.sectors, "failed": n.failed })))
            .collect();
        let stats = serde_json::json!({
            "sector_bytes": self.geometry.sector,
            "requests": requests,
            "flash": by_cause(&tally),
            "host_pages": tally.host_pages,
            "write_amplification": tally.amplification(true),
            "device_ns": state.stack.clock.now(),
        });
        format!("{stats}\n")
    }
}

/// Flash operations by cause, as a table.
pub fn causes(tally: &Tally) -> String {
    let rows = tally
        .rows()
        .filter(|(_, n)| *n != CauseCounts::default())
        .map(|(cause, n)| {
            [
                cause.name().to_string(),
                n.reads.to_string(),
                n.programs.to_string(),
                n.copies.to_string(),
                n.erases.to_string(),
            ]
        });
    table::words(
        ["flash operations", "reads", "programs", "copies", "erases"],
        rows,
    )
}

/// Flash operations by cause, for machines.
pub fn by_cause(tally: &Tally) -> serde_json::Map<String, serde_json::Value> {
    let counts = |n: &CauseCounts| serde_json::json!({ "reads": n.reads, "programs": n.programs, "copies": n.copies, "erases": n.erases });
    tally
        .rows()
        .map(|(cause, n)| (cause.name().into(), counts(&n)))
        .collect()
}

/// What clients can ask for.
fn kinds(counts: &Counts) -> [(&'static str, Count); 4] {
    [
        ("reads", counts.reads),
        ("writes", counts.writes),
        ("flushes", counts.flushes),
        ("discards", counts.discards),
    ]
}

fn totals(tally: &Tally, device_ns: u64) -> String {
    let amplification = tally
        .amplification(true)
        .map_or("-".into(), |factor| format!("{factor:.3}"));
    format!(
        "{} pages written by the host, write amplification {amplification}, device time {:.3} s",
        tally.host_pages,
        device_ns as f64 / 1e9
    )
}

impl BlockDevice for Served {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        let sectors = buf.len() as u64 / u64::from(self.geometry.sector);
        self.request(Op::Read, lba, sectors, |disk| disk.read(lba, buf))
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        let sectors = data.len() as u64 / u64::from(self.geometry.sector);
        self.request(Op::Write, lba, sectors, |disk| disk.write(lba, data))
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.request(Op::Flush, Lba(0), 0, |disk| disk.flush())
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.request(Op::Discard, lba, sectors, |disk| disk.discard(lba, sectors))
    }
}
