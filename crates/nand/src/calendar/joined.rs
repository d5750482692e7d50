//! Copies to several planes of one die with one program: the multi-plane copy of data sheets.

use super::{Calendar, Window};
use nandlab_mtd::Block;
use nandlab_sim::Nanos;

/// A page: its block, and its index there.
type Place = (Block, u32);

impl Calendar {
    /// Copies at `now` to pages with one index on different planes of a die; nobody waits. The
    /// window is that of the program.
    ///
    /// The sources are read one after another where they share a die. Data stays in the page
    /// register of its plane if the chip copies back. Elsewhere it goes out over the bus and in
    /// again.
    pub fn copy_joined(
        &mut self,
        moves: impl Iterator<Item = (Place, Place)>,
        now: Nanos,
    ) -> Window {
        let floor = core::mem::take(&mut self.floor);
        let mut target = 0;
        let mut ready = now;
        let mut bus_in = 0;
        for (from, to) in moves {
            let (die, plane, _) = self.position(from.0, from.1);
            let (to_die, to_plane, _) = self.position(to.0, to.1);
            target = to_die;
            let stays = self.timing.copy_back && (die, plane) == (to_die, to_plane);
            let bus = if stays { 0 } else { self.page_transfer };
            let start = now.max(self.dies[die].free).max(floor);
            let out = start + self.timing.read_ns + bus;
            self.dies[die].occupy(start, out);
            ready = ready.max(out);
            bus_in += bus;
        }
        let begin = ready.max(self.dies[target].free);
        let end = begin + bus_in + self.timing.program_ns;
        self.dies[target].occupy(begin, end);
        self.horizon = self.horizon.max(end);
        Window { start: begin, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Timing, preset};
    use nandlab_mtd::Geometry;

    const US: Nanos = 1_000;
    /// Times of the chip: read, transfer, program.
    const TIMES: [Nanos; 3] = [60 * US, 40 * US, 1_300 * US];

    /// Two dies of two planes.
    fn calendar(copy_back: bool) -> Calendar {
        let spec = preset::find("emmc-16GiB").unwrap().spec();
        let geometry = Geometry {
            page: 4000,
            ..spec.geometry
        };
        let timing = Timing {
            oob_bus_bytes: 0,
            copy_back,
            ..spec.timing
        };
        Calendar::new(&geometry, &timing, None)
    }

    /// Blocks 0 and 2 are the planes of die 0, blocks 1 and 3 those of die 1.
    fn copies(calendar: &mut Calendar, pairs: [(u32, u32); 2]) -> Window {
        let places = pairs.map(|(from, to)| ((Block(from), 7), (Block(to), 3)));
        calendar.copy_joined(places.into_iter(), 0)
    }

    #[test]
    fn two_planes_share_a_program_and_nothing_else() {
        let [read, bus, program] = TIMES;
        let window = copies(&mut calendar(false), [(4, 0), (4, 2)]);
        let ready = 2 * (read + bus);
        assert_eq!(
            (window.start, window.end),
            (ready, ready + 2 * bus + program)
        );
    }

    #[test]
    fn sources_on_another_die_are_read_while_the_target_works() {
        let [read, bus, program] = TIMES;
        let mut calendar = calendar(false);
        let busy = calendar.erase(Block(0), 0).end;
        let window = copies(&mut calendar, [(1, 0), (3, 2)]);
        assert_eq!(window.start, busy);
        assert_eq!(window.end, busy + 2 * bus + program);
        assert!(2 * (read + bus) < busy);
    }

    #[test]
    fn copy_back_keeps_data_in_the_register_of_its_plane_only() {
        let [read, bus, program] = TIMES;
        let window = copies(&mut calendar(true), [(4, 0), (4, 2)]);
        assert_eq!(window.end, 2 * read + bus + bus + program);
        let window = copies(&mut calendar(true), [(4, 0), (6, 2)]);
        assert_eq!(window.end, 2 * read + program);
    }
}
