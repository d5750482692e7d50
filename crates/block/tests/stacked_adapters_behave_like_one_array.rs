//! The promise: however disks and adapters are stacked, what comes back is what a plain array of
//! bytes would hold, and a request that the contract forbids is refused and changes nothing. A
//! failure prints the seed and the step that replay it.

use nandlab_block::{
    BlockDevice, BlockError, Counter, Event, Fault, FaultInjector, Image, Lba, Nvram, Op,
    Partition, Ram, Tracer, WriteLog,
};
use nandlab_sim::{Rail, Schedule, mix};

const SECTOR: usize = 64;
const SECTORS: u64 = 48;
const STEPS: u64 = 4_000;

/// What a disk must do, as plainly as it can be said.
struct Model(Vec<u8>);

impl Model {
    fn extent(&self, lba: u64, bytes: usize) -> Option<std::ops::Range<usize>> {
        let inside = lba.checked_add((bytes / SECTOR) as u64)? <= SECTORS;
        (bytes.is_multiple_of(SECTOR) && inside)
            .then(|| lba as usize * SECTOR..lba as usize * SECTOR + bytes)
    }
}

/// One random request to both; returns whether the contract allows it.
fn step(disk: &mut dyn BlockDevice, model: &mut Model, word: u64) -> (Op, bool) {
    // Mostly inside the disk, sometimes across its end or far outside; mostly whole sectors.
    let lba = if word.is_multiple_of(97) {
        u64::MAX - word % 3
    } else {
        (word >> 8) % (SECTORS + 2)
    };
    let odd = usize::from((word >> 24).is_multiple_of(31));
    let bytes = (word >> 16) as usize % 6 * SECTOR + odd;
    let extent = model.extent(lba, bytes);
    match (word >> 32) % 8 {
        0..=2 => {
            let mut buf = vec![0xA5; bytes];
            let outcome = disk.read(Lba(lba), &mut buf);
            assert_eq!(outcome.is_ok(), extent.is_some());
            if let Some(extent) = extent.clone() {
                assert_eq!(buf, model.0[extent]);
            }
            (Op::Read, extent.is_some())
        }
        3..=5 => {
            let data: Vec<u8> = (0..bytes as u64).map(|i| mix(word, i) as u8).collect();
            assert_eq!(disk.write(Lba(lba), &data).is_ok(), extent.is_some());
            extent
                .clone()
                .into_iter()
                .for_each(|extent| model.0[extent].copy_from_slice(&data));
            (Op::Write, extent.is_some())
        }
        6 => {
            let extent = model.extent(lba, bytes - odd);
            assert_eq!(
                disk.discard(Lba(lba), (bytes / SECTOR) as u64).is_ok(),
                extent.is_some()
            );
            extent
                .clone()
                .into_iter()
                .for_each(|extent| model.0[extent].fill(0));
            (Op::Discard, extent.is_some())
        }
        _ => {
            assert_eq!(disk.flush(), Ok(()));
            (Op::Flush, true)
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

fn check(name: &'static str, mut disk: impl BlockDevice) {
    let mut model = Model(vec![0; SECTORS as usize * SECTOR]);
    let mut replay = Replay(name, 1, 0);
    assert_eq!(
        (disk.geometry().sector as usize, disk.geometry().sectors),
        (SECTOR, SECTORS)
    );
    for n in 0..STEPS {
        replay.2 = n;
        step(&mut disk, &mut model, mix(replay.1, n));
    }
}

#[test]
fn each_kind_of_disk_is_an_array() {
    check("ram", Ram::new(SECTOR as u32, SECTORS));
    check("nvram", Nvram::new(SECTOR as u32, SECTORS, Rail::new()));
    check(
        "image",
        Image::new(vec![0; SECTORS as usize * SECTOR], SECTOR as u32).unwrap(),
    );
}

#[test]
fn a_stack_of_every_adapter_is_an_array() {
    let part = |start| {
        Partition::new(Ram::new(SECTOR as u32, SECTORS + 1000), Lba(start), SECTORS).unwrap()
    };
    check("partition", part(250));
    check("log", WriteLog::new(Counter::new(part(1))));
    let mut idle =
        FaultInjector::new(Tracer::new(part(1000), |_: &Event| {})).powered_by(Rail::new());
    idle.add(Fault::new(Op::Write, BlockError::WornOut(None)).when(Schedule::never()));
    check(
        "all",
        Partition::new(WriteLog::new(Counter::new(Box::new(idle))), Lba(0), SECTORS).unwrap(),
    );
}

#[test]
fn neighbouring_partitions_never_meet() {
    let mut disk = Ram::new(SECTOR as u32, 3 * SECTORS);
    let mut models = [0, 1, 2].map(|_| Model(vec![0; SECTORS as usize * SECTOR]));
    let mut replay = Replay("neighbours", 2, 0);
    for n in 0..3 * STEPS {
        replay.2 = n;
        let word = mix(replay.1, n);
        let third = (word >> 40) % 3;
        let mut part = Partition::new(&mut disk, Lba(third * SECTORS), SECTORS).unwrap();
        step(&mut part, &mut models[third as usize], word);
    }
}

#[test]
fn the_tally_and_the_trace_agree_with_what_was_asked() {
    let mut events = 0u64;
    let mut disk = Counter::new(Tracer::new(
        Ram::new(SECTOR as u32, SECTORS),
        |event: &Event| events += u64::from(event.outcome.is_ok()),
    ));
    let mut model = Model(vec![0; SECTORS as usize * SECTOR]);
    let mut asked = [[0u64; 2]; 4];
    for n in 0..STEPS {
        let (op, fine) = step(&mut disk, &mut model, mix(3, n));
        asked[op as usize][usize::from(fine)] += 1;
    }
    let counts = disk.counts();
    let tally = [counts.reads, counts.writes, counts.flushes, counts.discards]
        .map(|c| [c.failed, c.requests]);
    assert_eq!(tally, asked);
    drop(disk);
    assert_eq!(events, asked.iter().map(|row| row[1]).sum::<u64>());
}

#[test]
fn an_injected_failure_leaves_the_array_as_it_was() {
    let mut disk = FaultInjector::new(Ram::new(SECTOR as u32, SECTORS));
    disk.add(Fault::new(Op::Write, BlockError::WornOut(None)).when(Schedule::random(5, 0.3)));
    let mut model = vec![0u8; SECTORS as usize];
    let mut failed = 0;
    for n in 0..STEPS {
        let lba = (mix(4, n) % SECTORS) as usize;
        let value = n as u8;
        match disk.write(Lba(lba as u64), &[value; SECTOR]) {
            Ok(()) => model[lba] = value,
            Err(error) => {
                assert_eq!(error, BlockError::WornOut(None));
                failed += 1;
            }
        }
        let mut buf = [0; SECTOR];
        disk.read(Lba(lba as u64), &mut buf).unwrap();
        assert_eq!(buf, [model[lba]; SECTOR], "seed 4, step {n}");
    }
    assert!(
        (STEPS / 5..STEPS / 2).contains(&failed),
        "{failed} of {STEPS} failed"
    );
}
