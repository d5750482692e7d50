//! Campaigns: many damaged images, on which our verdicts are compared with those of the formats'
//! own tools, or of the kernel where a format has none.
//!
//! Each test takes some dozen images of its format, or a few hundred. `NANDLAB_CAMPAIGN` sets
//! another number: `COUNT` images, or `COUNT:SEED` with a seed other than 1.
//! `NANDLAB_CAMPAIGN=0xCASE` makes one image again, by the number that a failure prints, and keeps
//! it. It shows the findings and the tool's words:
//!
//! ```text
//! NANDLAB_CAMPAIGN=100000 cargo test -p nandlab-image --test all slow::campaign -- --nocapture
//! ```

mod disks;
mod flash;
mod judges;
mod known;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

/// The variable with the size of a campaign.
const SIZE: &str = "NANDLAB_CAMPAIGN";
/// Cases that are shown of each kind.
const SHOWN: usize = 3;

/// Which cases are run.
#[derive(Clone, Copy, Debug)]
enum Campaign {
    /// So many images, drawn from this seed.
    Many { count: u64, seed: u64 },
    /// The case of this number.
    One(u64),
}

impl Campaign {
    /// The size from the environment, or else `usual` cases.
    fn of(usual: u64) -> Self {
        let Ok(size) = std::env::var(SIZE) else {
            return Self::Many {
                count: usual,
                seed: 1,
            };
        };
        Self::parse(&size)
            .unwrap_or_else(|| panic!("{SIZE}={size}: expected COUNT, COUNT:SEED or 0xCASE"))
    }

    fn parse(size: &str) -> Option<Self> {
        if let Some(case) = size.strip_prefix("0x") {
            return u64::from_str_radix(case, 16).ok().map(Self::One);
        }
        let (count, seed) = size.split_once(':').unwrap_or((size, "1"));
        Some(Self::Many {
            count: count.parse().ok()?,
            seed: seed.parse().ok()?,
        })
    }

    fn is_one(self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Runs all cases on all processors. A case gets its number.
    fn run(self, case: impl Fn(u64, &Tally) + Sync) -> Tally {
        let tally = Tally::default();
        let (count, seed) = match self {
            Self::Many { count, seed } => (count, seed),
            Self::One(number) => {
                case(number, &tally);
                return tally;
            }
        };
        let workers = thread::available_parallelism().map_or(1, |count| count.get() as u64);
        thread::scope(|scope| {
            for worker in 0..workers {
                let case = &case;
                let tally = &tally;
                scope.spawn(move || {
                    for number in (worker..count).step_by(workers as usize) {
                        case(nandlab_sim::mix(seed, number), tally);
                    }
                });
            }
        });
        tally
    }
}

/// How the cases ended.
#[derive(Debug, Default)]
struct Tally {
    counts: Mutex<BTreeMap<String, u64>>,
    /// Cases on which we are too lenient, by the tool's first line.
    lenient: Mutex<BTreeMap<String, Vec<String>>>,
    /// Cases on which the tool says nothing and we do, by our first finding.
    stricter: Mutex<BTreeMap<String, Vec<String>>>,
}

/// A line without its numbers: cases of one kind have one.
fn kind(line: &str) -> String {
    let letters = line.chars().filter(|c| !c.is_ascii_digit());
    letters.take(80).collect()
}

fn keep(cases: &Mutex<BTreeMap<String, Vec<String>>>, kind: String, case: String) {
    cases.lock().unwrap().entry(kind).or_default().push(case);
}

impl Tally {
    fn count(&self, what: &str) {
        *self.counts.lock().unwrap().entry(what.into()).or_insert(0) += 1;
    }

    fn count_of(&self, what: &str) -> u64 {
        self.counts.lock().unwrap().get(what).copied().unwrap_or(0)
    }

    /// Prints the counts; panics if we were too lenient.
    fn conclude(self) {
        println!("{:#?}", self.counts.lock().unwrap());
        let stricter = shown(&self.stricter.into_inner().unwrap());
        println!("damage to us, none to the tool:\n{stricter}");
        let lenient = self.lenient.into_inner().unwrap();
        assert!(
            lenient.is_empty(),
            "sound to us, damage to the tool:\n{}",
            shown(&lenient)
        );
    }
}

fn shown(kinds: &BTreeMap<String, Vec<String>>) -> String {
    let kind = |(kind, cases): (&String, &Vec<String>)| {
        let first = cases[..cases.len().min(SHOWN)].join("\n  ");
        format!("{kind}: {} cases\n  {first}\n", cases.len())
    };
    kinds.iter().map(kind).collect()
}
