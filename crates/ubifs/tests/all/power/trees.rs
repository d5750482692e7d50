//! Trees that a cut may leave: names and attributes as they were after some call, and each
//! block of a file as some call left it.

use nandlab_vfs::FileType;
use nandlab_vfs::tree::{Entry, Tree};
use std::collections::BTreeSet;

const BLOCK: usize = 4096;

/// Names with their inodes, the root's own attributes left out.
fn names(tree: &Tree) -> Vec<String> {
    let said = tree.iter().filter(|(path, _)| !path.is_empty());
    let said = said.map(|(path, entry)| {
        let Entry { attr, xattrs, .. } = entry;
        let path = path.escape_ascii();
        let (kind, mode, owner) = (attr.kind, attr.mode, (attr.uid, attr.gid));
        let target = match kind {
            FileType::Symlink => &entry.contents[..],
            _ => &[],
        };
        let links = attr.links;
        format!("{path} {kind:?} {mode:o} {owner:?} {links} {target:?} {xattrs:?}")
    });
    said.collect()
}

/// Says what is wrong with a tree that was found, unless a cut may leave it.
pub fn judge(found: &Tree, allowed: &[&Tree]) -> Result<(), String> {
    let own = names(found);
    let mut why = String::new();
    for tree in allowed.iter().rev() {
        let its = names(tree);
        if own != its {
            let differ = own.iter().zip(&its).find(|(own, its)| own != its);
            why = format!("{} names, {} allowed, {differ:?}", own.len(), its.len());
            continue;
        }
        match contents(found, tree, allowed) {
            Ok(()) => return Ok(()),
            Err(what) => why = what,
        }
    }
    Err(why)
}

/// Compares files, which the names of `tree` tell apart.
fn contents(found: &Tree, tree: &Tree, allowed: &[&Tree]) -> Result<(), String> {
    let files = found.iter().zip(tree.values());
    for ((path, own), known) in files.filter(|(_, known)| known.attr.kind == FileType::File) {
        let is_same = |entry: &&Entry| entry.attr.ino == known.attr.ino;
        let versions = allowed.iter();
        let versions = versions.flat_map(|tree| tree.values().find(is_same));
        let versions: Vec<&[u8]> = versions.map(|entry| &entry.contents[..]).collect();
        let path = path.escape_ascii();
        let len = own.contents.len();
        let lengths: BTreeSet<usize> = versions.iter().map(|bytes| bytes.len()).collect();
        let least = lengths.first().copied().unwrap_or(0);
        if len < least || len > lengths.last().copied().unwrap_or(0) {
            return Err(format!("{path}: {len} bytes, allowed {lengths:?}"));
        }
        for (number, block) in own.contents.chunks(BLOCK).enumerate() {
            let is_known = |bytes: &&[u8]| is_block(bytes, number * BLOCK, block);
            if !versions.iter().any(is_known) {
                return Err(format!("{path}: block {number} is of no version"));
            }
        }
    }
    Ok(())
}

/// True if a version has this block; zeros lie behind its end.
fn is_block(bytes: &[u8], from: usize, block: &[u8]) -> bool {
    let known = bytes.get(from..).unwrap_or_default();
    let known = &known[..known.len().min(block.len())];
    let (head, tail) = block.split_at(known.len());
    head == known && tail.iter().all(|byte| *byte == 0)
}
