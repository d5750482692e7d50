//! Copies whose programs run together on the planes of a die.

use super::Chip;
use crate::calendar::Window;
use nandlab_mtd::{Block, Move, MtdError, Page, rows};

impl Chip {
    /// Copies until a page fails. Neighbouring moves to one page index of different planes are a
    /// group: all are read first, and one program takes them.
    pub(super) fn copy_groups(
        &mut self,
        moves: &[Move],
        heads: &mut [u8],
        tails: &[u8],
    ) -> (usize, Result<(), MtdError>) {
        let mut window = None;
        let mut group_end = 0;
        for (done, (m, head, tail)) in rows(moves, heads, tails).enumerate() {
            if done == group_end {
                let group = self.group(&moves[done..]);
                group_end += group;
                window = self.reserve(&moves[done..group_end]);
            }
            if let Err(error) = self.copy_any(m.from, m.to, head, tail, window) {
                return (done, Err(error));
            }
            self.joined_copies += u64::from(window.is_some());
        }
        (moves.len(), Ok(()))
    }

    /// Moves that run together, from the first one on. A page outside the array ends the group, and
    /// its copy reports the error.
    fn group(&self, moves: &[Move]) -> usize {
        let place = |m: &Move| {
            let (source, _) = self.locate(m.from).ok()?;
            let (block, index) = self.locate(m.to).ok()?;
            let (die, plane, row) = self.calendar.position(block, index);
            Some((plane, (die, row, self.modes(source, block))))
        };
        let mut places = moves.iter().map_while(place);
        let Some((plane, first)) = places.next() else {
            return 1;
        };
        let mut planes = 1u32 << plane;
        let joins = |&(plane, place): &(u32, _)| {
            let free = planes & 1 << plane == 0;
            planes |= 1 << plane;
            free && place == first
        };
        1 + places.take_while(joins).count()
    }

    /// The time of a group on the calendar; none for a move alone.
    fn reserve(&mut self, group: &[Move]) -> Option<Window> {
        if group.len() < 2 {
            return None;
        }
        let first = group[0];
        let block = |page: Page| Block(self.per_block.split(page.0).0);
        let modes = self.modes(block(first.from), block(first.to));
        if self.any_slc {
            self.calendar.enter(modes[0], modes[1]);
        }
        let split = |page: Page| {
            let (block, index) = self.per_block.split(page.0);
            (Block(block), index)
        };
        let places = group.iter().map(|m| (split(m.from), split(m.to)));
        Some(self.calendar.copy_joined(places, self.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChipSpec, CrashStates, preset};
    use alloc::{collections::BTreeSet, vec, vec::Vec};
    use nandlab_mtd::{Geometry, Mtd};

    const PAGES: u32 = 4;
    const OOB: usize = 15;
    /// Pages of the source block, and of blocks on the two planes of its die.
    const SOURCE: u32 = 0;
    const TARGETS: [u32; 2] = [2 * PAGES, PAGES * 3];

    /// One die of two planes: even blocks on one plane, odd ones on the other.
    fn chip(multi_plane: bool) -> Chip {
        let mut spec: ChipSpec = preset::find("emmc-16GiB").unwrap().spec();
        spec.geometry = Geometry {
            planes: 2,
            ..Geometry::single_die(512, OOB as u32, PAGES, 8)
        };
        spec.timing.multi_plane = multi_plane;
        let mut chip = Chip::new(spec).unwrap();
        for page in 0..4u8 {
            let oob = [page; OOB];
            chip.program(Page(page.into()), &vec![page + 1; 512], &oob)
                .unwrap();
        }
        chip.sync().unwrap();
        chip
    }

    /// Four pages of the source to two rows of both planes.
    fn moves() -> Vec<Move> {
        let to = |i: u32| TARGETS[i as usize % 2] + i / 2;
        let from_to = |i| Move {
            from: Page(SOURCE + i),
            to: Page(to(i)),
        };
        (0..4).map(from_to).collect()
    }

    fn copy(chip: &mut Chip) -> (usize, Result<(), MtdError>) {
        let moves = moves();
        let mut heads = [0; 4 * 4];
        let tails = [9; 4 * (OOB - 4)];
        chip.copy_joined(&moves, &mut heads, &tails)
    }

    fn contents(chip: &mut Chip) -> Vec<Result<(u8, [u8; OOB]), MtdError>> {
        let mut read = |m: &Move| {
            let mut data = [0; 512];
            let mut oob = [0; OOB];
            chip.read(m.to, &mut data, &mut oob)?;
            Ok((data[0], oob))
        };
        moves().iter().map(&mut read).collect()
    }

    #[test]
    fn joined_copies_hold_what_single_copies_hold_in_less_time() {
        let [mut single, mut joined] = [false, true].map(chip);
        let took = |chip: &mut Chip| {
            let began = chip.clock().now();
            assert_eq!(copy(chip), (4, Ok(())));
            chip.sync().unwrap();
            chip.clock().now() - began
        };
        let times = [took(&mut single), took(&mut joined)];
        let program = single.spec().timing.program_ns;
        assert_eq!(times[0] - times[1], 2 * program);
        let copies = |chip: &Chip| (chip.counts().copies, chip.joined_copies());
        assert_eq!([copies(&single), copies(&joined)], [(4, 0), (4, 4)]);
        let held = contents(&mut single);
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(held, contents(&mut joined));
    }

    #[test]
    fn a_cut_tears_each_plane_of_a_joined_program_in_its_own_way() {
        let mut chip = chip(true);
        let before = chip.fork().unwrap();
        chip.start_log();
        assert_eq!(copy(&mut chip), (4, Ok(())));
        let log = chip.take_log();
        let within = log[0].start + 1;
        assert_eq!((log[0].start, log[0].end), (log[1].start, log[1].end));
        let mut states = BTreeSet::new();
        for word in 0..200 {
            let mut cut = CrashStates::new(before.fork().unwrap(), &log)
                .at(within, word)
                .unwrap();
            let found = contents(&mut cut).into_iter().map(|page| match page {
                Ok((0xff, _)) => 'e',
                Ok(_) => 'd',
                Err(_) => 'u',
            });
            states.insert(found.collect::<alloc::string::String>());
        }
        let all = ["dd", "de", "du", "ed", "ee", "eu", "ud", "ue", "uu"];
        let all = all.map(|row| alloc::format!("{row}ee"));
        assert_eq!(states, BTreeSet::from(all));
    }

    #[test]
    fn a_page_outside_the_array_is_refused_after_the_copies_before_it() {
        let mut chip = chip(true);
        let mut moves = moves();
        moves[3].to = Page(8 * PAGES);
        let mut heads = [0; 4 * 4];
        let (done, result) = chip.copy_joined(&moves, &mut heads, &[9; 4 * (OOB - 4)]);
        assert_eq!((done, result), (3, Err(MtdError::OutOfRange(moves[3].to))));
        assert_eq!(chip.block(Block(2)).next, 2);
        assert_eq!(chip.joined_copies(), 2);
    }
}
