//! What the chip promises: it refuses what a data sheet forbids, fails as its reliability says, and
//! comes back from a power cut as a chip would.

use nandlab_mtd::{Block, Geometry, Move, Mtd, MtdError, Page};
use nandlab_nand::{
    Chip, ChipSpec, CrashStates, Ecc, Fate, LoggedKind, PageOrder, Reliability, Rules, preset,
};

fn spec() -> ChipSpec {
    let mut spec = preset::find("slc-2k").unwrap().spec();
    spec.geometry = Geometry {
        dies: 2,
        ..Geometry::single_die(512, 15, 4, 8)
    };
    spec.rules = Rules {
        order: PageOrder::Ascending,
        partial_programs: 1,
    };
    spec
}

fn chip(change: impl FnOnce(&mut ChipSpec)) -> Chip {
    let mut spec = spec();
    change(&mut spec);
    Chip::new(spec).unwrap()
}

fn data(byte: u8) -> Vec<u8> {
    vec![byte; 512]
}

fn read(chip: &mut Chip, page: u32) -> Result<(u8, u8), MtdError> {
    let mut data = data(1);
    let mut oob = [0; 15];
    chip.read(Page(page), &mut data, &mut oob)?;
    assert!(data.iter().all(|&b| b == data[0]));
    Ok((data[0], oob[0]))
}

fn why(result: Result<(), MtdError>) -> &'static str {
    match result {
        Err(MtdError::Illegal(_, why)) => why,
        other => panic!("{other:?} is not an illegal use"),
    }
}

#[test]
fn what_the_data_sheet_forbids_is_refused_with_the_recent_operations() {
    let mut c = chip(|_| {});
    c.program(Page(2), &data(7), &[1]).unwrap();
    assert_eq!(
        why(c.program(Page(2), &data(7), &[])),
        "program of a page that is not erased"
    );
    assert_eq!(
        why(c.program(Page(1), &data(7), &[])),
        "pages of a block programmed out of order"
    );
    assert_eq!(
        why(c.copy(Page(0), Page(8), &mut [0; 4], &[]).map(|_| ())),
        "copy of an erased page"
    );
    assert_eq!(
        why(c.copy(Page(2), Page(1), &mut [0; 4], &[]).map(|_| ())),
        "pages of a block programmed out of order"
    );
    assert_eq!(c.recent()[0], "program block 0 page 2");
    assert_eq!(
        c.program(Page(99), &data(0), &[]),
        Err(MtdError::OutOfRange(Page(99)))
    );
    assert_eq!(
        c.program(Page(3), &[0; 5], &[]),
        Err(MtdError::BadLength {
            found: 5,
            expected: 512
        })
    );
    assert_eq!(
        c.program(Page(3), &data(0), &[0; 16]),
        Err(MtdError::BadLength {
            found: 16,
            expected: 15
        })
    );
    c.mark_bad(Block(1)).unwrap();
    assert_eq!(
        c.program(Page(4), &data(0), &[]),
        Err(MtdError::BadBlock(Block(1)))
    );
    assert_eq!(c.erase(Block(1)), Err(MtdError::BadBlock(Block(1))));
}

#[test]
fn any_order_and_partial_programs_where_the_chip_allows_them() {
    let mut c = chip(|s| {
        s.rules = Rules {
            order: PageOrder::Any,
            partial_programs: 2,
        }
    });
    c.program(Page(3), &data(0xf0), &[0x0f]).unwrap();
    c.program(Page(1), &data(1), &[]).unwrap();
    c.program(Page(3), &data(0x3f), &[0xfe]).unwrap();
    assert_eq!(
        read(&mut c, 3),
        Ok((0x30, 0x0e)),
        "bits only go from one to zero"
    );
    assert_eq!(
        why(c.program(Page(3), &data(0), &[])),
        "program of a page that is not erased"
    );
    c.program(Page(2), &[], &[5]).unwrap();
    assert_eq!(
        read(&mut c, 2),
        Ok((0xff, 5)),
        "an OOB-only program leaves the data erased"
    );
}

#[test]
fn an_erase_forgets_and_counts() {
    let mut c = chip(|_| {});
    c.program(Page(0), &data(9), &[9]).unwrap();
    c.erase(Block(0)).unwrap();
    assert_eq!(read(&mut c, 0), Ok((0xff, 0xff)));
    assert_eq!(c.block(Block(0)).erases, 1);
    c.program(Page(0), &data(8), &[8]).unwrap();
    assert_eq!(read(&mut c, 0), Ok((8, 8)));
}

#[test]
fn copies_carry_the_name_and_share_the_data() {
    for quick in [true, false] {
        // A second allowed program takes the chip off its fast path; both must do the same.
        let mut c = chip(|s| s.rules.partial_programs = if quick { 1 } else { 2 });
        let tag: Vec<u8> = (1..16).collect();
        (0..3).for_each(|p| c.program(Page(p), &data(p as u8), &tag).unwrap());
        let moves = [0, 1].map(|i| Move {
            from: Page(2 * i),
            to: Page(4 + i),
        });
        let mut heads = [[0; 4]; 2];
        let tails = [[50; 11], [51; 11]];
        let copied = c.copy_many(&moves, heads.as_flattened_mut(), tails.as_flattened());
        assert_eq!(copied, (2, Ok(())));
        assert_eq!(heads[1], [1, 2, 3, 4]);
        let mut oob = [0; 15];
        c.read(Page(5), &mut [], &mut oob).unwrap();
        assert_eq!((&oob[..4], &oob[4..]), (&[1, 2, 3, 4][..], &[51; 11][..]));
        c.erase(Block(0)).unwrap();
        assert_eq!(
            read(&mut c, 5).unwrap().0,
            2,
            "the copy outlives its source"
        );
        assert_eq!(c.counts().copies, 2);
    }
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut a = chip(|_| {});
    a.program(Page(0), &data(1), &[]).unwrap();
    let mut b = a.fork().unwrap();
    b.erase(Block(0)).unwrap();
    b.program(Page(0), &data(2), &[]).unwrap();
    assert_eq!(
        (read(&mut a, 0).unwrap().0, read(&mut b, 0).unwrap().0),
        (1, 2)
    );
}

#[test]
fn failed_programs_and_erases_are_reported_and_leave_nothing_to_trust() {
    let mut c = chip(|s| s.reliability.program_fail = [1.0, 1.0]);
    assert_eq!(
        c.program(Page(0), &data(1), &[]),
        Err(MtdError::ProgramFailed(Page(0)))
    );
    assert_eq!(read(&mut c, 0), Err(MtdError::Uncorrectable(Page(0))));
    let mut c = chip(|s| s.reliability.erase_fail = [1.0, 1.0]);
    assert_eq!(c.erase(Block(0)), Err(MtdError::EraseFailed(Block(0))));
    assert_eq!(
        why(c.program(Page(0), &data(1), &[])),
        "program of a page that a cut or a failure left undefined"
    );
    let c = chip(|s| s.reliability.factory_bad = 1.0);
    let mut c = c;
    assert_eq!(c.is_bad(Block(3)), Ok(true));
}

#[test]
fn bit_errors_are_corrected_up_to_the_strength_of_the_code() {
    let outcome = |ecc, rate| {
        let mut c = chip(|s| {
            s.reliability = Reliability {
                bit_errors: [rate, rate],
                ecc,
                ..Reliability::default()
            }
        });
        c.program(Page(0), &data(0x55), &[]).unwrap();
        let mut buf = data(0);
        let result = c.read(Page(0), &mut buf, &mut []);
        (result, buf == data(0x55), c.counts())
    };
    let (result, intact, counts) = outcome(
        Ecc::Bch {
            bits: 40,
            codeword: 512,
        },
        2e-3,
    );
    assert!(result.unwrap().bits > 0 && intact && counts.corrected_bits > 0);
    let (result, intact, counts) = outcome(
        Ecc::Bch {
            bits: 1,
            codeword: 512,
        },
        1e-2,
    );
    assert!(
        result == Err(MtdError::Uncorrectable(Page(0))) && !intact && counts.uncorrectable == 1
    );
    let (result, intact, _) = outcome(Ecc::None, 1e-2);
    assert!(
        result.is_ok() && !intact,
        "without a code nothing is noticed"
    );
}

#[test]
fn copy_back_carries_bit_errors_and_a_copy_through_the_controller_does_not() {
    let bits_after = |copy_back| {
        let mut c = chip(|s| {
            s.timing.copy_back = copy_back;
            s.reliability = Reliability {
                bit_errors: [1e-3, 1e-3],
                ecc: Ecc::Bch {
                    bits: 200,
                    codeword: 512,
                },
                ..Reliability::default()
            };
        });
        c.program(Page(0), &data(1), &[0; 15]).unwrap();
        // Down one chain of copies on one die: blocks 0, 2, 4, 6.
        (0..3).for_each(|i| {
            c.copy(Page(8 * i), Page(8 * (i + 1)), &mut [0; 4], &[0; 11])
                .map(|_| ())
                .unwrap()
        });
        c.read(Page(24), &mut data(0), &mut []).unwrap().bits
    };
    assert!(bits_after(true) > bits_after(false));
}

#[test]
fn nothing_happens_once_the_power_is_off() {
    let mut c = chip(|_| {});
    c.rail().cut_at(1);
    c.program(Page(0), &data(1), &[]).unwrap();
    assert_eq!(c.program(Page(1), &data(1), &[]), Err(MtdError::PowerCut));
    assert_eq!(c.sync(), Err(MtdError::PowerCut));
    c.rail().restore();
    assert_eq!(read(&mut c, 1), Ok((0xff, 0xff)));
}

#[test]
fn torn_programs_read_as_erased_as_garbage_or_rightly_and_must_be_erased_first() {
    let mut seen = std::collections::BTreeSet::new();
    for word in 0..40 {
        let mut c = chip(|_| {});
        let op = LoggedKind::Program {
            page: Page(0),
            data: data(7).into(),
            oob: [7; 15].into(),
        };
        c.replay(&op, Fate::Torn(word)).unwrap();
        seen.insert(format!("{:?}", read(&mut c, 0)));
        assert!(matches!(
            c.program(Page(0), &data(1), &[]),
            Err(MtdError::Illegal(..))
        ));
        c.erase(Block(0)).unwrap();
        c.program(Page(0), &data(1), &[]).unwrap();
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn a_torn_erase_leaves_each_page_to_its_fate() {
    let mut c = chip(|_| {});
    (0..4).for_each(|p| c.program(Page(p), &data(p as u8), &[]).unwrap());
    let mut seen = std::collections::BTreeSet::new();
    for word in 0..20 {
        let mut torn = c.fork().unwrap();
        torn.replay(&LoggedKind::Erase(Block(0)), Fate::Torn(word))
            .unwrap();
        seen.extend((0..4).map(|p| format!("{:?}", read(&mut torn, p).map(|r| r.0 == p as u8))));
        assert!(matches!(
            torn.program(Page(3), &data(1), &[]),
            Err(MtdError::Illegal(..))
        ));
        torn.erase(Block(0)).unwrap();
        torn.program(Page(0), &data(1), &[]).unwrap();
    }
    assert_eq!(
        seen.len(),
        6,
        "intact, blank, and each of the four pages unreadable: {seen:?}"
    );
}

#[test]
fn at_a_cut_each_die_has_at_most_one_operation_half_done() {
    let mut c = chip(|_| {});
    let base = c.fork().unwrap();
    c.start_log();
    // Six programs on each of two dies, none waited for.
    for index in 0..4 {
        (0..2).for_each(|block| {
            c.program(Page(block * 4 + index), &data(3), &[0; 15])
                .unwrap()
        });
    }
    let log = c.take_log();
    let middle = log[2].start + (log[2].end - log[2].start) / 2;
    for word in 0..50 {
        let mut after = CrashStates::new(base.fork().unwrap(), &log)
            .at(middle, word)
            .unwrap();
        let states: Vec<_> = (0..8).map(|p| read(&mut after, p).map(|r| r.0)).collect();
        assert_eq!(
            (&states[0], &states[4]),
            (&Ok(3), &Ok(3)),
            "what ended is there"
        );
        assert!(
            states[2..4]
                .iter()
                .chain(&states[6..])
                .all(|s| *s == Ok(0xff)),
            "what had not begun is not"
        );
    }
}

/// A chip with cache programs takes the data of a page while it programs the page before.
#[test]
fn at_a_cut_a_die_has_begun_nothing_behind_what_it_has_not_finished() {
    let mut c = chip(|s| {
        s.timing.cache_program = true;
        s.timing.bus_ps_per_byte = 100_000;
    });
    let base = c.fork().unwrap();
    c.start_log();
    (0..4).for_each(|page| c.program(Page(page), &data(3), &[0; 15]).unwrap());
    let log = c.take_log();
    let t = log[1].end - 1;
    assert!(log[2].start < t, "the die has taken the third page");
    let mut seen = std::collections::BTreeSet::new();
    for word in 0..200 {
        let mut after = CrashStates::new(base.fork().unwrap(), &log)
            .at(t, word)
            .unwrap();
        let whole = |after: &mut Chip, page| read(after, page) == Ok((3, 0));
        let second = whole(&mut after, 1);
        let begun = after.is_programmed(Page(2));
        assert!(
            second || !begun,
            "word {word}: the third page without the second"
        );
        seen.insert((second, begun));
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}
