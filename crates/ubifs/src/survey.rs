//! Every node of a logical block, wherever it lies: for those who cannot trust what leads to them.
//!
//! *Promises.* No bytes make it fail. It passes over a sound node whole, with any nodes in the
//! contents of a file. It reports a node with a wrong checksum if its header is plausible.

use crate::format::{Fault, Geometry, Header, Kind, MAGIC, PADDING, align8, is_erased, le32, node};

/// A node, sound or damaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub offs: u32,
    pub header: Header,
    /// The damage; `None` for a sound node.
    pub fault: Option<Fault>,
}

/// The nodes in the bytes of a logical block, in the order of their places. Orphans and signatures
/// are not among them: their lengths have no bound, and each false one costs a checksum.
pub(crate) fn nodes<'a>(bytes: &'a [u8], here: &Geometry) -> impl Iterator<Item = Seen> + 'a {
    let leb = here.leb;
    let fanout = here.fanout;
    let mut at = 0;
    core::iter::from_fn(move || {
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= 24) {
            let offs = at as u32;
            at += 8;
            let room = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let is_node = le32(rest, 0) == MAGIC;
            let header = is_node.then(|| Header::parse(rest, room, leb, fanout).ok());
            let Some(header) = header.flatten().filter(|header| is_short(header.kind)) else {
                continue;
            };
            let fault = node(rest, leb, fanout).err();
            let end = offs as usize + align8(header.len) as usize;
            // The length of a damaged node counts only if something can begin behind it.
            if fault.is_none() || is_edge(bytes.get(end..).unwrap_or_default()) {
                at = end;
            }
            return Some(Seen {
                offs,
                header,
                fault,
            });
        }
        None
    })
}

fn is_short(kind: Kind) -> bool {
    !matches!(kind, Kind::Orphans | Kind::Signature)
}

/// True if a node, padding or nothing begins with these bytes.
fn is_edge(rest: &[u8]) -> bool {
    match rest.first_chunk::<4>() {
        Some(first) => *first == MAGIC.to_le_bytes() || *first == [PADDING; 4] || is_erased(first),
        None => true,
    }
}
