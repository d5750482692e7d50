//! ext4 takes the rounds: what the real one sent to its disk, and the same again at other places of
//! its files.
//!
//! ext4 overwrites in place. So the recorded rounds are repeated with their journal, their inodes
//! and their flushes as they are. Each run of writes to a file goes to as many other blocks of the
//! same file. They are drawn at random and written in order, as the page cache writes them.

use super::Rewriter;
use crate::f2fs::cells::{PIECE, phases_of, serve};
use crate::f2fs::disk::{Disk, Pages};
use crate::f2fs::rival;
use crate::f2fs::work::{FILES_REWRITTEN, Work};
use nandlab_f2fs::Counts;
use nandlab_sim::mix;
use nandlab_workload::{Op, Request};
use std::collections::BTreeSet;
use std::error::Error;

/// Bytes of a block of ext4.
const BLOCK: u64 = 4096;
/// The least request of a file's first filling. Tables and the journal are written in smaller ones.
const LONG: u64 = 64 << 10;
/// Seed of the random block choice.
const SEED: u64 = 1;

/// The recorded requests on a disk.
pub struct Recorded<'a> {
    disk: Disk<'a>,
    /// From mkfs to the full files.
    filling: Vec<Request>,
    rounds: Vec<Request>,
    /// Bytes that the program wrote in the recorded rounds.
    bytes: u64,
    /// Blocks of the files, in order.
    data: Vec<u64>,
    /// Blocks drawn so far.
    drawn: u64,
    /// Whether the recorded rounds have been served as they are.
    is_repeated: bool,
    buffer: Vec<u8>,
}

impl<'a> Recorded<'a> {
    /// What was recorded for this work.
    pub fn new(disk: Disk<'a>, work: &Work) -> Result<Self, Box<dyn Error>> {
        let spec = work.rewrites();
        let Parts {
            made,
            filling,
            rounds,
        } = split(work)?;
        let data = blocks(&made, &filling);
        let expected = FILES_REWRITTEN * spec.bytes / BLOCK;
        if (data.len() as u64).abs_diff(expected) > expected / 100 {
            let found = data.len();
            return Err(format!("{found} blocks of files, expected {expected}").into());
        }
        Ok(Self {
            disk,
            filling: [made, filling].concat(),
            rounds,
            bytes: spec.rounds * spec.round,
            data,
            drawn: 0,
            is_repeated: false,
            buffer: vec![0; PIECE],
        })
    }

    fn serve(&mut self, request: &Request) -> Result<(), Box<dyn Error>> {
        serve(&mut self.disk, request, &mut self.buffer)
            .map_err(|error| format!("{request:?}: {error}").into())
    }

    /// Whether a request writes blocks of a file.
    fn is_data(&self, request: &Request) -> bool {
        let block = request.offset / BLOCK;
        request.op == Op::Write && self.data.binary_search(&block).is_ok()
    }

    /// The recorded rounds elsewhere.
    fn again(&mut self) -> Vec<Request> {
        let rounds = std::mem::take(&mut self.rounds);
        let mut requests = Vec::with_capacity(rounds.len());
        let mut at = 0;
        while let Some(request) = rounds.get(at) {
            let run = self.run(&rounds[at..]);
            if run == 0 {
                requests.push(*request);
            } else {
                self.moved(&rounds[at..at + run], &mut requests);
            }
            at += run.max(1);
        }
        self.rounds = rounds;
        requests
    }

    /// How many of the first requests write to a file in order.
    fn run(&self, requests: &[Request]) -> usize {
        let mut end = 0;
        let follows = |request: &&Request| {
            let is_next = self.is_data(request) && request.offset >= end;
            end = request.offset + request.length;
            is_next
        };
        requests.iter().take_while(follows).count()
    }

    /// As many blocks as a run has, at random between its first and its last.
    fn moved(&mut self, run: &[Request], requests: &mut Vec<Request>) {
        let place = |block: u64| self.data.partition_point(|known| *known < block);
        let first = run[0].offset / BLOCK;
        let last = run[run.len() - 1].offset / BLOCK;
        let places = place(first)..place(last) + 1;
        let blocks: u64 = run.iter().map(|request| request.length / BLOCK).sum();
        let drawn = self.draw(blocks, places);
        let written = drawn.into_iter().map(|block| Request {
            offset: block * BLOCK,
            length: BLOCK,
            ..run[0]
        });
        requests.extend(written);
    }

    /// Draws so many of a file's blocks.
    fn draw(&mut self, blocks: u64, places: std::ops::Range<usize>) -> BTreeSet<u64> {
        let mut drawn = BTreeSet::new();
        while (drawn.len() as u64) < blocks.min(places.len() as u64) {
            self.drawn += 1;
            let at = mix(SEED, self.drawn) % places.len() as u64;
            drawn.insert(self.data[places.start + at as usize]);
        }
        drawn
    }
}

/// What was recorded, in order, without marks.
#[derive(Default)]
struct Parts {
    /// Of mkfs and the mount.
    made: Vec<Request>,
    /// Requests before the first round.
    filling: Vec<Request>,
    rounds: Vec<Request>,
}

fn split(work: &Work) -> Result<Parts, Box<dyn Error>> {
    let phases = phases_of(work)?;
    let begin = phases.0.iter().position(|phase| phase.name == "rounds");
    let begin = begin.ok_or("no phase of rounds")?;
    let mut parts = Parts::default();
    let mut phase = None;
    for request in rival::requests(work)? {
        match (rival::mark(work, &request), phase) {
            (Some(number), _) => phase = Some(number),
            (None, None) => parts.made.push(request),
            (None, Some(number)) if number < begin => parts.filling.push(request),
            (None, Some(number)) if number == begin => parts.rounds.push(request),
            _ => {}
        }
    }
    Ok(parts)
}

/// Blocks of the files: those that long requests wrote first, and mkfs did not.
fn blocks(made: &[Request], filling: &[Request]) -> Vec<u64> {
    let written = |requests: &[Request], least: u64| -> BTreeSet<u64> {
        let long = requests
            .iter()
            .filter(|request| request.op == Op::Write && request.length >= least);
        long.flat_map(|request| {
            request.offset / BLOCK..(request.offset + request.length).div_ceil(BLOCK)
        })
        .collect()
    };
    let tables = written(made, 0);
    let files = written(filling, LONG);
    files.difference(&tables).copied().collect()
}

impl Rewriter for Recorded<'_> {
    fn fill(&mut self) -> Result<(), Box<dyn Error>> {
        let filling = std::mem::take(&mut self.filling);
        filling.iter().try_for_each(|request| self.serve(request))
    }

    fn round(&mut self) -> Result<u64, Box<dyn Error>> {
        let requests = if std::mem::replace(&mut self.is_repeated, true) {
            self.again()
        } else {
            self.rounds.clone()
        };
        requests
            .iter()
            .try_for_each(|request| self.serve(request))?;
        Ok(self.bytes)
    }

    fn pages(&mut self) -> Pages {
        self.disk.pages()
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}
