//! The list of deferred writes (`flash_bh`), and the pages that they pin.
//!
//! *Promises.* A page is here exactly while an element refers to it. Elements leave in the order in
//! which they came; one that touches a dirty element of its page becomes part of it.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use nandlab_vfs::{Ino, Time};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// What an element makes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeType {
    /// Nothing but length: what `prepare_write` wants where a write begins behind the end.
    Hole,
    /// Contents of a page: what `commit_write` wants.
    Data,
}

/// A deferred write (`struct jffs2_flash_bh`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashBh {
    /// What it makes of the file.
    pub node: NodeType,
    /// The inode of the file.
    pub ino: Ino,
    /// The page's number in the file.
    pub page: u64,
    /// First byte in the page; 0 for a hole.
    pub start: u64,
    /// The byte behind the last; for a hole, bytes of the page that belong to the file.
    pub end: u64,
    /// Since when it is dirty.
    pub since: Time,
}

impl FlashBh {
    /// First byte in the file.
    pub fn offset(&self) -> u64 {
        self.page * PAGE + self.start
    }

    /// The byte behind the last, in the file.
    pub fn limit(&self) -> u64 {
        self.page * PAGE + self.end
    }
}

/// A page that must stay until it is written.
#[derive(Debug)]
struct Pinned {
    data: Box<[u8]>,
    elements: u32,
    /// The element that came last.
    last: u64,
}

/// The list and its pages.
#[derive(Debug, Default)]
pub struct Queue {
    elements: BTreeMap<u64, FlashBh>,
    next: u64,
    pages: BTreeMap<(Ino, u64), Pinned>,
    /// Elements of each file, by their place in the list.
    files: BTreeMap<Ino, Vec<u64>>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Bytes of pinned pages.
    pub fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Whether a file has elements.
    pub fn has(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// A pinned page's bytes.
    pub fn page(&self, ino: Ino, page: u64) -> Option<&[u8]> {
        self.pages.get(&(ino, page)).map(|pinned| &*pinned.data)
    }

    /// The first pinned page of a file from `page` on.
    pub fn next_page(&self, ino: Ino, page: u64) -> Option<u64> {
        self.pages
            .range((ino, page)..=(ino, u64::MAX))
            .next()
            .map(|((_, page), _)| *page)
    }

    /// Appends a hole: the file reaches to `limit`.
    pub fn push_hole(&mut self, ino: Ino, limit: u64, since: Time) {
        let page = (limit - 1) / PAGE;
        let end = (limit - 1) % PAGE + 1;
        self.append(FlashBh {
            node: NodeType::Hole,
            ino,
            page,
            start: 0,
            end,
            since,
        });
    }

    fn append(&mut self, element: FlashBh) -> u64 {
        let place = self.next;
        self.next += 1;
        self.files.entry(element.ino).or_default().push(place);
        self.elements.insert(place, element);
        place
    }

    /// Changes part of a page, which is pinned from now on, and appends its element, or lets a
    /// waiting one of the page grow. `contents` is what a page holds that is not here yet.
    pub fn change(
        &mut self,
        (ino, page): (Ino, u64),
        start: u64,
        data: &[u8],
        since: Time,
        contents: impl FnOnce() -> Box<[u8]>,
    ) {
        let end = start + data.len() as u64;
        let pinned = self.pages.entry((ino, page)).or_insert_with(|| Pinned {
            data: contents(),
            elements: 0,
            last: 0,
        });
        pinned.data[start as usize..end as usize].copy_from_slice(data);
        // To the end of the page the whole page is written, as Linux does.
        let start = if end == PAGE { 0 } else { start };
        if pinned.elements > 0
            && let Some(waiting) = self.elements.get_mut(&pinned.last)
            && start <= waiting.end
            && waiting.start <= end
        {
            waiting.start = waiting.start.min(start);
            waiting.end = waiting.end.max(end);
            return;
        }
        pinned.elements += 1;
        pinned.last = self.next;
        self.append(FlashBh {
            node: NodeType::Data,
            ino,
            page,
            start,
            end,
            since,
        });
    }

    /// Takes the oldest element, of `file` if one is named, with those behind it that continue it,
    /// up to `bytes` together; appends what they hold to `into`.
    pub fn take(
        &mut self,
        file: Option<Ino>,
        bytes: u64,
        into: &mut Vec<u8>,
    ) -> Option<(FlashBh, u32)> {
        let first = match file {
            Some(ino) => *self.files.get(&ino)?.first()?,
            None => *self.elements.keys().next()?,
        };
        let mut merged = self.remove(first, into)?;
        let mut count = 1;
        while merged.node == NodeType::Data {
            let Some((place, next)) = self.next_of(&merged, bytes) else {
                break;
            };
            self.remove(place, into);
            merged.end = next.limit() - merged.page * PAGE;
            count += 1;
        }
        Some((merged, count))
    }

    /// The next element of a file that goes on where `merged` ends, within so many bytes.
    fn next_of(&self, merged: &FlashBh, bytes: u64) -> Option<(u64, FlashBh)> {
        let place = *self.files.get(&merged.ino)?.first()?;
        let next = *self.elements.get(&place)?;
        let goes_on = next.node == NodeType::Data && next.offset() == merged.limit();
        let fits = goes_on && next.limit() - merged.offset() <= bytes;
        fits.then_some((place, next))
    }

    fn remove(&mut self, place: u64, into: &mut Vec<u8>) -> Option<FlashBh> {
        let element = self.elements.remove(&place)?;
        if let Some(places) = self.files.get_mut(&element.ino) {
            places.retain(|other| *other != place);
            if places.is_empty() {
                self.files.remove(&element.ino);
            }
        }
        if element.node == NodeType::Data
            && let Some(pinned) = self.pages.get_mut(&(element.ino, element.page))
        {
            into.extend_from_slice(&pinned.data[element.start as usize..element.end as usize]);
            pinned.elements -= 1;
            if pinned.elements == 0 {
                self.pages.remove(&(element.ino, element.page));
            }
        }
        Some(element)
    }

    /// A file ends at `size` now: dirty data behind it is void, and bytes of its last page behind
    /// it are zeros.
    pub fn cut(&mut self, ino: Ino, size: u64) {
        let places = self.files.get(&ino).cloned().unwrap_or_default();
        let mut void = Vec::new();
        for place in places {
            let Some(element) = self.elements.get_mut(&place) else {
                continue;
            };
            if element.limit() > size && element.offset() < size {
                element.end = size - element.page * PAGE;
            } else if element.offset() >= size {
                self.remove(place, &mut void);
                void.clear();
            }
        }
        if let Some(pinned) = self.pages.get_mut(&(ino, size / PAGE)) {
            pinned.data[(size % PAGE) as usize..].fill(0);
        }
    }
}
