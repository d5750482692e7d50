//! `fixed-partitions` of a device tree.
//!
//! A node that is compatible with `fixed-partitions` has a child for each partition: `reg` gives
//! its place in cells, `label` its name, `read-only` forbids writes. The device is the node above.

use super::{At, Entries, PARTITIONS_MAX, Partition, Result, checked, wrong};
use crate::fdt::{Fdt, FdtError, Step};
use crate::known::{View, printable};
use nandlab_sim::Backing;

const TABLE: &str = "device tree";
/// Bytes of a value that are looked at.
const VALUE_MAX: usize = 4096;

/// A node above the present place, or the present one.
#[derive(Default)]
struct Node {
    /// Where it begins, for errors.
    at: u64,
    path: String,
    /// Cells of an address and of a size in its children, where it says so.
    address: Option<u32>,
    size: Option<u32>,
    is_fixed: bool,
    reg: Option<(u64, Vec<u8>)>,
    label: Option<String>,
    read_only: bool,
    /// Partitions of a fixed node.
    children: Entries,
}

/// A device and its partitions.
struct Table {
    device: String,
    entries: Entries,
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    printable(&value[..end.unwrap_or(value.len())])
}

impl Node {
    fn take(&mut self, fdt: &mut Fdt<'_, '_>, step: &Step) {
        let Step::Property { name, at, .. } = step else {
            return;
        };
        let value = fdt.value(step, VALUE_MAX).unwrap_or_default();
        match &name[..] {
            b"#address-cells" => self.address = fdt.cell(step),
            b"#size-cells" => self.size = fdt.cell(step),
            b"compatible" => {
                let mut names = value.split(|byte| *byte == 0);
                self.is_fixed = names.any(|name| name == b"fixed-partitions");
            }
            b"reg" => self.reg = Some((*at, value)),
            b"label" => self.label = Some(text(&value)),
            // Linux takes the label, and only without one the old property.
            b"name" if self.label.is_none() => self.label = Some(text(&value)),
            b"read-only" => self.read_only = true,
            _ => {}
        }
    }

    /// A partition, if the node above is for partitions and this one has a place.
    fn partition(&self, above: &[Node]) -> Result<Option<(At, Partition)>> {
        let Some((at, reg)) = &self.reg else {
            return Ok(None);
        };
        let at = At::Byte(*at);
        // Cells that a node does not give are those of the nodes above it.
        let cells = |of: fn(&Node) -> Option<u32>| above.iter().rev().find_map(of).unwrap_or(1);
        let address = cells(|node| node.address) as usize;
        let size = cells(|node| node.size) as usize;
        if !(1..=2).contains(&address) || !(1..=2).contains(&size) {
            let found = format!("{address} cells for an address and {size} for a size");
            return wrong(TABLE, at, found, "1 or 2");
        }
        if reg.len() != 4 * (address + size) {
            let found = format!("a place of {} bytes", reg.len());
            return wrong(TABLE, at, found, 4 * (address + size));
        }
        let number = |cells: &[u8]| {
            cells
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let (place, len) = reg.split_at(4 * address);
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let name = self.label.clone().unwrap_or_else(|| name.into());
        let one = Partition {
            name,
            at: number(place),
            len: number(len),
            read_only: self.read_only,
        };
        Ok(Some((at, one)))
    }
}

fn failed(error: FdtError) -> super::PartitionError {
    super::PartitionError {
        table: TABLE,
        at: At::Byte(error.at),
        found: error.found,
        expected: error.expected.into(),
    }
}

/// All tables of the tree that begins at byte `at`.
fn tables(bytes: &mut dyn Backing, at: u64) -> Result<Vec<Table>> {
    let there = bytes.len();
    let Some(mut view) = View::new(bytes, at) else {
        return wrong(
            TABLE,
            At::Byte(0),
            "the end of the image",
            format!("byte {at} of {there}"),
        );
    };
    let mut fdt = Fdt::new(&mut view).map_err(failed)?;
    let mut above: Vec<Node> = Vec::new();
    let mut tables = Vec::new();
    while let Some(step) = fdt.step().map_err(failed)? {
        match &step {
            Step::Begin { name } => above.push(begin(&above, name, fdt.at())),
            Step::Property { .. } => {
                if let Some(node) = above.last_mut() {
                    node.take(&mut fdt, &step);
                }
            }
            Step::End => tables.extend(end(&mut above)?),
        }
    }
    Ok(tables)
}

fn begin(above: &[Node], name: &[u8], at: u64) -> Node {
    let parent = above
        .last()
        .map_or("", |node| node.path.trim_end_matches('/'));
    Node {
        at,
        path: format!("{parent}/{}", printable(name)),
        ..Node::default()
    }
}

/// A node ends: it may be a partition of the one above, or a table.
fn end(above: &mut Vec<Node>) -> Result<Option<Table>> {
    let Some(node) = above.pop() else {
        return Ok(None);
    };
    if above.last().is_some_and(|parent| parent.is_fixed) {
        let one = node.partition(above)?;
        if let Some(parent) = above.last_mut() {
            parent.children.extend(one);
            if parent.children.len() > PARTITIONS_MAX {
                let expected = format!("at most {PARTITIONS_MAX}");
                return wrong(TABLE, At::Byte(node.at), "one more partition", expected);
            }
        }
    }
    let device = above
        .last()
        .map_or_else(String::new, |parent| parent.path.clone());
    Ok(node.is_fixed.then_some(Table {
        device,
        entries: node.children,
    }))
}

/// Paths of the devices that a tree has partitions for.
pub fn tree_devices(bytes: &mut dyn Backing, at: u64) -> Result<Vec<String>> {
    let tables = tables(bytes, at)?;
    Ok(tables.into_iter().map(|table| table.device).collect())
}

/// The partitions that the tree at byte `at` has for a device of `len` bytes. The device is named
/// by its path or by a part of it; without a name the tree must have partitions for one only.
pub fn device_tree(
    bytes: &mut dyn Backing,
    at: u64,
    device: Option<&str>,
    len: u64,
) -> Result<Vec<Partition>> {
    let mut tables = tables(bytes, at)?;
    let all: Vec<&str> = tables.iter().map(|table| &table.device[..]).collect();
    let found = match all.len() {
        0 => "no fixed-partitions".to_owned(),
        _ => format!("partitions of {}", all.join(", ")),
    };
    let is_meant = |table: &Table| match device {
        Some(name) => table.device.split('/').any(|part| part == name) || table.device == name,
        None => true,
    };
    tables.retain(is_meant);
    match (tables.pop(), tables.is_empty(), device) {
        (Some(table), true, _) => checked(TABLE, table.entries, len, true),
        (None, _, None) => wrong(TABLE, At::Byte(0), found, "a node with partitions"),
        (_, _, Some(name)) => wrong(
            TABLE,
            At::Byte(0),
            found,
            format!("one device named {name}"),
        ),
        (_, _, None) => wrong(TABLE, At::Byte(0), found, "the name of one of them"),
    }
}
