//! Free space in the log: a ring of blocks between tail and head.
//!
//! *Promises* that the head never reaches the tail from behind: one block stays free, so that full
//! and empty differ. *Knows nothing of* what the blocks hold.

/// A ring of log blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    first: u32,
    /// One behind the last block.
    end: u32,
    head: u32,
    used: u32,
}

impl Ring {
    /// An empty ring of the blocks from `first` to before `end`.
    pub fn new(first: u32, end: u32) -> Self {
        Self {
            first,
            end,
            head: first,
            used: 0,
        }
    }

    /// The same ring, still empty, with its head elsewhere.
    pub fn with_head(self, head: u32) -> Self {
        Self { head, ..self }
    }

    pub fn blocks(&self) -> u32 {
        self.end - self.first
    }

    /// The block that is taken next.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Blocks that can be taken.
    pub fn free(&self) -> u32 {
        self.blocks() - self.used - 1
    }

    /// The block that follows `block`.
    pub fn next(&self, block: u32) -> u32 {
        if block + 1 == self.end {
            self.first
        } else {
            block + 1
        }
    }

    /// The block that `block` follows.
    pub fn before(&self, block: u32) -> u32 {
        if block == self.first {
            self.end - 1
        } else {
            block - 1
        }
    }

    /// Takes the next block, if there is one.
    pub fn take(&mut self) -> Option<u32> {
        (self.free() > 0).then(|| {
            let block = self.head;
            self.head = self.next(block);
            self.used += 1;
            block
        })
    }

    /// Gives back what was taken since `head` was the head.
    pub fn rewind(&mut self, head: u32) {
        self.used -= self.distance(head, self.head);
        self.head = head;
    }

    /// Gives back everything that was taken before `tail`.
    pub fn release_before(&mut self, tail: u32) {
        self.used = self.distance(tail, self.head);
    }

    /// Blocks from one to the other, forwards.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from {
            to - from
        } else {
            to + self.blocks() - from
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_goes_round_and_stops_before_the_tail() {
        let mut ring = Ring::new(1, 6);
        assert_eq!((ring.before(1), ring.next(5), ring.before(3)), (5, 1, 2));
        assert_eq!(
            [(); 5].map(|()| ring.take()),
            [Some(1), Some(2), Some(3), Some(4), None]
        );
        ring.release_before(3);
        assert_eq!([(); 3].map(|()| ring.take()), [Some(5), Some(1), None]);
        ring.rewind(1);
        assert_eq!((ring.head(), ring.free()), (1, 1));
        ring.release_before(1);
        assert_eq!(
            (
                ring.free(),
                ring.take(),
                ring.take(),
                ring.take(),
                ring.take()
            ),
            (4, Some(1), Some(2), Some(3), Some(4))
        );
    }
}
