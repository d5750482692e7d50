//! The promise: any stack of array and adapters returns the bytes that a plain table of pages would
//! hold. A request that the contract forbids is refused and changes nothing. A failure prints the
//! seed and the step that replay it.

use nandlab_mtd::{
    Block, Counter, Event, Fault, FaultInjector, Image, ImageFormat, Layout, Mtd, MtdError, Page,
    Partition, Tracer,
};
use nandlab_sim::{Rail, Schedule, mix};

const BLOCKS: u32 = 6;
const PAGES_PER_BLOCK: u32 = 4;
const STEPS: u64 = 4_000;

/// What an array must do, as plainly as it can be said. Data and user bytes of each page, and which
/// blocks are bad.
struct Model {
    data: Vec<Vec<u8>>,
    oob: Vec<Vec<u8>>,
    bad: Vec<bool>,
}

impl Model {
    fn new(page: u32, oob: u32) -> Self {
        let pages = (BLOCKS * PAGES_PER_BLOCK) as usize;
        Self {
            data: vec![vec![0xFF; page as usize]; pages],
            oob: vec![vec![0xFF; oob as usize]; pages],
            bad: vec![false; BLOCKS as usize],
        }
    }

    fn program(&mut self, page: u32, data: &[u8], oob: &[u8]) -> bool {
        let Some(bad) = self.bad.get((page / PAGES_PER_BLOCK) as usize) else {
            return false;
        };
        let old = &mut self.data[page as usize];
        let old_oob = &mut self.oob[page as usize];
        let sized = (data.is_empty() || data.len() == old.len()) && oob.len() <= old_oob.len();
        let clears =
            |old: &[u8], new: &[u8]| old.iter().zip(new).all(|(old, new)| old & new == *new);
        if *bad || !sized || !clears(old, data) || !clears(old_oob, oob) {
            return false;
        }
        old[..data.len()].copy_from_slice(data);
        old_oob[..oob.len()].copy_from_slice(oob);
        true
    }

    fn copy(&mut self, from: u32, to: u32, head: usize, tail: &[u8]) -> bool {
        let Some(data) = self.data.get(from as usize).cloned() else {
            return false;
        };
        let Some(kept) = self.oob[from as usize].get(..head) else {
            return false;
        };
        let oob = [kept, tail].concat();
        self.program(to, &data, &oob)
    }

    fn erase(&mut self, block: u32) -> bool {
        let fine = self.bad.get(block as usize).is_some_and(|bad| !bad);
        if fine {
            let pages =
                (block * PAGES_PER_BLOCK) as usize..((block + 1) * PAGES_PER_BLOCK) as usize;
            self.data[pages.clone()]
                .iter_mut()
                .chain(&mut self.oob[pages])
                .for_each(|bytes| bytes.fill(0xFF));
        }
        fine
    }
}

/// Bytes that are often subsets of each other, so that partial programs succeed now and then.
fn bytes(word: u64, len: usize) -> Vec<u8> {
    let mask = [0xFF, 0x0F, 0x03, 0x00][(word % 4) as usize];
    (0..len)
        .map(|i| if i % 7 == 0 { mask } else { mask & 0x1F })
        .collect()
}

/// One random request to both.
fn step(array: &mut dyn Mtd, model: &mut Model, word: u64) {
    let page_bytes = model.data[0].len();
    let oob_bytes = model.oob[0].len();
    // Mostly inside the array, mostly of the right lengths.
    let place = |shift: u32, most: u32| {
        if (word >> shift).is_multiple_of(61) {
            u32::MAX - 1
        } else {
            (word >> shift) as u32 % (most + 1)
        }
    };
    let page = place(8, BLOCKS * PAGES_PER_BLOCK);
    let block = place(8, BLOCKS);
    let data_len = [page_bytes, page_bytes, 0, page_bytes - 1][((word >> 20) % 16 / 5) as usize];
    let oob_len = (word >> 28) as usize % (oob_bytes + 2);
    match (word >> 40) % 16 {
        0..=4 => {
            let mut data = vec![0xA5; data_len];
            let mut oob = vec![0xA5; oob_len];
            let fine = (page as usize) < model.data.len()
                && data_len != page_bytes - 1
                && oob_len <= oob_bytes;
            assert_eq!(array.read(Page(page), &mut data, &mut oob).is_ok(), fine);
            if fine {
                assert_eq!(
                    (&data[..], &oob[..]),
                    (
                        &model.data[page as usize][..data_len],
                        &model.oob[page as usize][..oob_len]
                    )
                );
            }
        }
        5..=10 => {
            let data = bytes(word >> 44, data_len);
            let oob = bytes(word >> 46, oob_len);
            assert_eq!(
                array.program(Page(page), &data, &oob).is_ok(),
                model.program(page, &data, &oob)
            );
        }
        11..=12 => {
            let to = place(14, BLOCKS * PAGES_PER_BLOCK);
            let head = oob_len / 2;
            let tail = bytes(word >> 46, oob_len.div_ceil(2));
            let mut seen = vec![0; head];
            let fine = array.copy(Page(page), Page(to), &mut seen, &tail).is_ok();
            assert_eq!(fine, model.copy(page, to, head, &tail));
            if fine {
                assert_eq!(seen, model.oob[to as usize][..head]);
            }
        }
        13..=14 => assert_eq!(array.erase(Block(block)).is_ok(), model.erase(block)),
        // A block or two in a run turn bad, not all of them.
        _ if (word >> 48).is_multiple_of(256) && oob_bytes > 0 => {
            assert_eq!(array.mark_bad(Block(block)).is_ok(), block < BLOCKS);
            model
                .bad
                .get_mut(block as usize)
                .into_iter()
                .for_each(|bad| *bad = true);
        }
        _ => {
            assert_eq!(
                array.is_bad(Block(block)).ok(),
                model.bad.get(block as usize).copied()
            );
            assert_eq!(array.sync(), Ok(()));
            array.fence(array.issued());
        }
    }
}

/// Prints what replays a failed run.
struct Replay(&'static str, u64, u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: stack {}, seed {}, step {}", self.0, self.1, self.2);
        }
    }
}

fn check(name: &'static str, mut array: impl Mtd) {
    let geometry = array.geometry().clone();
    assert_eq!(
        (geometry.blocks, geometry.pages_per_block),
        (BLOCKS, PAGES_PER_BLOCK)
    );
    for seed in 0..4 {
        // A bad block stays bad and keeps what it held, so each seed goes on from what the one
        // before left.
        let mut model = Model::new(geometry.page, geometry.oob);
        for block in 0..BLOCKS {
            model.bad[block as usize] = array.is_bad(Block(block)).unwrap();
            array.erase(Block(block)).ok();
            for page in block * PAGES_PER_BLOCK..(block + 1) * PAGES_PER_BLOCK {
                array
                    .read(
                        Page(page),
                        &mut model.data[page as usize],
                        &mut model.oob[page as usize],
                    )
                    .unwrap();
            }
        }
        let mut replay = Replay(name, seed, 0);
        for n in 0..STEPS {
            replay.2 = n;
            step(&mut array, &mut model, mix(replay.1, n));
        }
        assert!(
            model.bad.iter().any(|bad| !bad),
            "every block turned bad: the rest of the run shows nothing"
        );
    }
}

fn image(format: ImageFormat, blocks: u32) -> Image<Vec<u8>> {
    Image::new(vec![0xFF; format.bytes(blocks) as usize], format).unwrap()
}

const SMALL: ImageFormat = ImageFormat {
    page: 512,
    oob: 16,
    pages_per_block: PAGES_PER_BLOCK,
    layout: Layout::LinuxSmallPage,
    ecc: None,
};
const LARGE: ImageFormat = ImageFormat {
    page: 2048,
    oob: 64,
    layout: Layout::LinuxLargePage64,
    ..SMALL
};

#[test]
fn an_image_of_each_layout_is_an_array() {
    check("small", image(SMALL, BLOCKS));
    check("large", image(LARGE, BLOCKS));
    check(
        "marker only",
        image(
            ImageFormat {
                layout: Layout::MarkerOnly,
                ..SMALL
            },
            BLOCKS,
        ),
    );
    check("data only", image(ImageFormat { oob: 0, ..LARGE }, BLOCKS));
}

#[test]
fn a_stack_of_every_adapter_is_an_array() {
    check(
        "partition",
        Partition::new(image(SMALL, BLOCKS + 5), Block(3), BLOCKS).unwrap(),
    );
    let mut idle = FaultInjector::new(image(LARGE, 2 * BLOCKS)).powered_by(Rail::new());
    idle.add(Fault::program(..).when(Schedule::never()));
    idle.add(Fault::uncorrectable(Page(0)..Page(PAGES_PER_BLOCK)));
    let traced = Tracer::new(Counter::new(idle), |_: &Event| {});
    check(
        "all",
        Counter::new(Box::new(
            Partition::new(traced, Block(BLOCKS), BLOCKS).unwrap(),
        )),
    );
}

#[test]
fn neighbouring_partitions_never_meet() {
    let mut array = image(SMALL, 3 * BLOCKS);
    let mut models = [0, 1, 2].map(|_| Model::new(512, 8));
    let mut replay = Replay("neighbours", 9, 0);
    for n in 0..2 * STEPS {
        replay.2 = n;
        let word = mix(replay.1, n);
        let third = (word >> 56) as u32 % 3;
        let mut part = Partition::new(&mut array, Block(third * BLOCKS), BLOCKS).unwrap();
        step(&mut part, &mut models[third as usize], word);
    }
}

#[test]
fn an_image_is_the_same_array_when_it_is_opened_again() {
    let mut model = Model::new(2048, 38);
    let mut backing = vec![0xFF; LARGE.bytes(BLOCKS) as usize];
    let mut replay = Replay("reopened", 10, 0);
    for n in 0..STEPS {
        replay.2 = n;
        step(
            &mut Image::new(&mut backing, LARGE).unwrap(),
            &mut model,
            mix(replay.1, n),
        );
    }
}

#[test]
fn an_injected_failure_leaves_the_array_as_it_was() {
    let mut array = FaultInjector::new(image(SMALL, BLOCKS));
    array.add(Fault::program(..).when(Schedule::random(1, 0.2)));
    array.add(Fault::erase(..).when(Schedule::random(2, 0.2)));
    let mut model = Model::new(512, 8);
    let mut failed = 0u32;
    let mut served = 0u32;
    for n in 0..STEPS {
        let word = mix(11, n);
        let page = word as u32 % (BLOCKS * PAGES_PER_BLOCK);
        let data = bytes(word >> 8, 512);
        let oob = bytes(word >> 16, 8);
        let outcome = match (word >> 32) % 3 {
            0 => array.erase(Block(page / PAGES_PER_BLOCK)),
            _ => array.program(Page(page), &data, &oob),
        };
        match (outcome, (word >> 32) % 3) {
            (Ok(()), 0) => assert!(model.erase(page / PAGES_PER_BLOCK)),
            (Ok(()), _) => assert!(model.program(page, &data, &oob)),
            (Err(MtdError::EraseFailed(_) | MtdError::ProgramFailed(_)), _) => failed += 1,
            (Err(error), _) => {
                assert!(matches!(error, MtdError::Illegal(..)), "{error}");
                assert!(!model.program(page, &data, &oob));
            }
        }
        served += u32::from(outcome.is_ok());
        let mut seen = [0; 512];
        let mut seen_oob = [0; 8];
        array.read(Page(page), &mut seen, &mut seen_oob).unwrap();
        assert_eq!(
            (&seen[..], &seen_oob[..]),
            (
                &model.data[page as usize][..],
                &model.oob[page as usize][..]
            ),
            "seed 11, step {n}"
        );
    }
    assert!(
        failed > 400 && served > 1000,
        "{failed} failed, {served} served"
    );
}
