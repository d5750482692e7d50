//! The LEB properties tree of the last commit, read whole.
//!
//! *Promises.* Every node is read once, so the number of blocks bounds memory and time.
//! A node that cannot be read leaves the blocks below it unknown, with its error. *Knows nothing
//! of* what is true of the blocks: [`space`](crate::space) compares.

use crate::UbifsError;
use crate::error::Result;
use crate::format::{Fault, LptShape, Ltab, Master, Place, Props};
use crate::lebs::Lebs;
use crate::node::Media;
use alloc::{vec, vec::Vec};

/// The LEB properties tree in memory.
#[derive(Clone, Debug)]
pub(crate) struct Lpt {
    /// The properties of each block of the main area, as far as they are known.
    pub props: Vec<Option<Props>>,
    /// The table of the tree's own blocks, if it is known.
    pub ltab: Option<Vec<Ltab>>,
    /// Bytes that the tree uses of each of its own blocks.
    pub live: Vec<u64>,
    /// Where the nodes lie: level, column, place.
    pub places: Vec<(u32, u32, Place)>,
    /// Nodes that could not be read.
    pub faults: Vec<UbifsError>,
}

/// A node that is still to be read.
struct Task {
    place: Place,
    level: u32,
    number: u32,
    /// The node's place among those of its level.
    column: u32,
}

impl Lpt {
    /// Reads the tree that a master node leads to.
    pub fn load<L: Lebs>(media: &mut Media<L>, master: &Master) -> Self {
        let shape = LptShape::new(&media.head);
        let empty = Props::empty(media.geometry().leb);
        let mut lpt = Self {
            props: vec![Some(empty); shape.main_lebs as usize],
            ltab: None,
            live: vec![0; shape.lebs as usize],
            places: Vec::new(),
            faults: Vec::new(),
        };
        let mut tasks = Vec::from([Task {
            place: master.lpt_root,
            level: shape.height,
            number: 1,
            column: 0,
        }]);
        while let Some(task) = tasks.pop() {
            let read = lpt.node(media, &shape, &task, &mut tasks);
            if let Err(error) = read {
                lpt.unknown(&shape, &task);
                lpt.faults.push(error);
            }
        }
        let read = lpt.tables(media, &shape, master);
        lpt.faults.extend(read.err());
        lpt
    }

    fn node<L: Lebs>(
        &mut self,
        media: &mut Media<L>,
        shape: &LptShape,
        task: &Task,
        tasks: &mut Vec<Task>,
    ) -> Result<()> {
        let (lnum, offs) = task.place;
        self.places.push((task.level, task.column, task.place));
        let wrong = |fault: Fault| fault.at(lnum, offs);
        if task.level == 0 {
            let bytes = self.bytes(media, shape, task.place, shape.pnode_bytes())?;
            let all = shape.parse_pnode(&bytes, task.number).map_err(wrong)?;
            let first = (4 * task.column) as usize;
            let known = self.props.iter_mut().skip(first);
            known
                .zip(all)
                .for_each(|(known, props)| *known = Some(props));
            return Ok(());
        }
        let bytes = self.bytes(media, shape, task.place, shape.nnode_bytes())?;
        let children = shape.parse_nnode(&bytes, task.number).map_err(wrong)?;
        let there = shape.nodes(task.level - 1);
        for (child, place) in (0..).zip(children) {
            let column = 4 * task.column + child;
            let Some(place) = place.filter(|_| column < there) else {
                continue;
            };
            let number = match task.level {
                1 => column,
                level => shape.nnode_number(task.number, level, child),
            };
            let level = task.level - 1;
            tasks.push(Task {
                place,
                level,
                number,
                column,
            });
        }
        Ok(())
    }

    /// The bytes of a node, which count as used.
    fn bytes<L: Lebs>(
        &mut self,
        media: &mut Media<L>,
        shape: &LptShape,
        (lnum, offs): Place,
        len: usize,
    ) -> Result<Vec<u8>> {
        let fits = u64::from(offs) + len as u64 <= media.geometry().leb.into();
        let expected = "room for the node";
        Fault::unless(
            fits,
            "the place of a node of the properties",
            offs,
            expected,
        )
        .map_err(|fault| fault.at(lnum, offs))?;
        let mut bytes = vec![0; len];
        media.read(lnum, offs, &mut bytes)?;
        if let Some(live) = self.live.get_mut((lnum - shape.first) as usize) {
            *live += len as u64;
        }
        Ok(bytes)
    }

    /// Nothing is known of the blocks below a node.
    fn unknown(&mut self, shape: &LptShape, task: &Task) {
        let width = 1usize << (2 * (task.level + 1));
        let first = task.column as usize * width;
        let below = self.props.iter_mut().skip(first).take(width);
        below.for_each(|props| *props = None);
        debug_assert!(task.level <= shape.height);
    }

    fn tables<L: Lebs>(
        &mut self,
        media: &mut Media<L>,
        shape: &LptShape,
        master: &Master,
    ) -> Result<()> {
        if shape.is_big {
            let (lnum, offs) = master.saved;
            let area = shape.first..shape.first + shape.lebs;
            let expected = "one of the tree's area";
            let fits = area.contains(&lnum);
            Fault::unless(fits, "the block of the saved blocks", lnum, expected)
                .map_err(|fault| fault.at(lnum, offs))?;
            let bytes = self.bytes(media, shape, master.saved, shape.saved_bytes())?;
            shape
                .parse_saved(&bytes)
                .map_err(|fault| fault.at(lnum, offs))?;
        }
        let (lnum, offs) = master.ltab;
        let bytes = self.bytes(media, shape, master.ltab, shape.ltab_bytes())?;
        let ltab = shape.parse_ltab(&bytes);
        self.ltab = Some(ltab.map_err(|fault| fault.at(lnum, offs))?);
        Ok(())
    }
}
