//! A run of erase blocks of an array as an array of its own.
//!
//! *Promises* that nothing outside the run is read or changed, and that errors speak of the
//! partition's own pages and blocks. *Knows nothing of* partition tables.

use crate::{Block, Corrected, Geometry, GeometryError, Issued, Mtd, MtdError, Page};

/// Part of the array `M`.
#[derive(Clone, Debug)]
pub struct Partition<M> {
    inner: M,
    start: Block,
    geometry: Geometry,
}

impl<M: Mtd> Partition<M> {
    /// The `blocks` blocks of `inner` from `start` on. Blocks are interleaved over dies and planes,
    /// so both must be multiples of dies times planes: the partition's block `b` then lies on die
    /// `b % dies` as the geometry says.
    pub fn new(inner: M, start: Block, blocks: u32) -> Result<Self, GeometryError> {
        let whole = inner.geometry();
        if !start.0.is_multiple_of(whole.dies * whole.planes) {
            return Err(GeometryError {
                field: "partition start",
                found: u64::from(start.0),
                expected: "a multiple of dies times planes",
            });
        }
        let end = u64::from(start.0) + u64::from(blocks);
        if end > u64::from(whole.blocks) {
            return Err(GeometryError {
                field: "partition end",
                found: end,
                expected: "no more than the array's blocks",
            });
        }
        let geometry = Geometry {
            blocks,
            ..whole.clone()
        };
        geometry.check()?;
        Ok(Self {
            inner,
            start,
            geometry,
        })
    }

    /// Gives the whole array back.
    pub fn into_inner(self) -> M {
        self.inner
    }

    fn first_page(&self) -> u32 {
        self.start.0 * self.geometry.pages_per_block
    }

    /// Where a page lies in the whole array.
    fn page(&self, page: Page) -> Result<Page, MtdError> {
        self.geometry.check_access(page, 0, 0)?;
        Ok(Page(self.first_page() + page.0))
    }

    /// Where a block lies in the whole array.
    fn block(&self, block: Block) -> Result<Block, MtdError> {
        self.geometry.check_block(block)?;
        Ok(Block(self.start.0 + block.0))
    }

    /// An error of the whole array as one of this partition.
    fn shift_back(&self, error: MtdError) -> MtdError {
        let page = |page: Page| Page(page.0.saturating_sub(self.first_page()));
        let block = |block: Block| Block(block.0.saturating_sub(self.start.0));
        match error {
            MtdError::Uncorrectable(p) => MtdError::Uncorrectable(page(p)),
            MtdError::ProgramFailed(p) => MtdError::ProgramFailed(page(p)),
            MtdError::OutOfRange(p) => MtdError::OutOfRange(page(p)),
            MtdError::Illegal(p, why) => MtdError::Illegal(page(p), why),
            MtdError::Below(p, fault) => MtdError::Below(page(p), fault),
            MtdError::EraseFailed(b) => MtdError::EraseFailed(block(b)),
            MtdError::BadBlock(b) => MtdError::BadBlock(block(b)),
            MtdError::PowerCut
            | MtdError::BadLength { .. }
            | MtdError::ReadOnly(_)
            | MtdError::Backing(_) => error,
        }
    }
}

impl<M: Mtd> Mtd for Partition<M> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
        self.inner
            .read(self.page(page)?, data, oob)
            .map_err(|e| self.shift_back(e))
    }

    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.inner
            .program(self.page(page)?, data, oob)
            .map_err(|e| self.shift_back(e))
    }

    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError> {
        self.inner
            .copy(self.page(from)?, self.page(to)?, head, tail)
            .map_err(|e| self.shift_back(e))
    }

    fn erase(&mut self, block: Block) -> Result<(), MtdError> {
        self.inner
            .erase(self.block(block)?)
            .map_err(|e| self.shift_back(e))
    }

    fn slc_pages(&self) -> Option<u32> {
        self.inner.slc_pages()
    }

    fn erase_slc(&mut self, block: Block) -> Result<(), MtdError> {
        self.inner
            .erase_slc(self.block(block)?)
            .map_err(|e| self.shift_back(e))
    }

    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
        self.inner
            .is_bad(self.block(block)?)
            .map_err(|e| self.shift_back(e))
    }

    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
        self.inner
            .mark_bad(self.block(block)?)
            .map_err(|e| self.shift_back(e))
    }

    fn issued(&self) -> Issued {
        self.inner.issued()
    }

    fn fence(&mut self, mark: Issued) {
        self.inner.fence(mark);
    }

    fn sync(&mut self) -> Result<(), MtdError> {
        self.inner.sync().map_err(|e| self.shift_back(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, FaultInjector, Image, ImageFormat, Layout};
    use alloc::{vec, vec::Vec};

    fn array() -> Image<Vec<u8>> {
        let format = ImageFormat {
            page: 512,
            oob: 16,
            pages_per_block: 4,
            layout: Layout::LinuxSmallPage,
            ecc: None,
        };
        Image::new(vec![0xFF; format.bytes(8) as usize], format).unwrap()
    }

    #[test]
    fn pages_are_those_of_the_array_from_the_start_on() {
        let mut part = Partition::new(array(), Block(2), 4).unwrap();
        part.program(Page(5), &[0x21; 512], &[7]).unwrap();
        part.mark_bad(Block(3)).unwrap();
        let mut whole = part.into_inner();
        let mut data = [0; 512];
        let mut oob = [0; 1];
        whole.read(Page(13), &mut data, &mut oob).unwrap();
        assert_eq!(
            (data, oob, whole.is_bad(Block(5))),
            ([0x21; 512], [7], Ok(true))
        );
    }

    #[test]
    fn nothing_outside_can_be_reached() {
        let mut part = Partition::new(array(), Block(2), 4).unwrap();
        let outside = |page| MtdError::OutOfRange(Page(page));
        assert_eq!(part.read(Page(16), &mut [], &mut [0]), Err(outside(16)));
        assert_eq!(
            part.program(Page(u32::MAX), &[], &[0]),
            Err(outside(u32::MAX))
        );
        assert_eq!(part.copy(Page(0), Page(16), &mut [], &[]), Err(outside(16)));
        assert_eq!(
            (
                part.erase(Block(4)),
                part.mark_bad(Block(4)),
                part.is_bad(Block(4))
            ),
            (Err(outside(16)), Err(outside(16)), Err(outside(16)))
        );
    }

    #[test]
    fn errors_speak_of_the_partitions_own_addresses() {
        let mut array = FaultInjector::new(array());
        array.add(Fault::program(Page(9)..=Page(9)));
        array.add(Fault::uncorrectable(Page(10)..=Page(10)));
        array.add(Fault::erase(Block(3)..=Block(3)));
        let mut part = Partition::new(array, Block(2), 4).unwrap();
        assert_eq!(
            part.program(Page(1), &[], &[0]),
            Err(MtdError::ProgramFailed(Page(1)))
        );
        assert_eq!(
            part.read(Page(2), &mut [], &mut [0]),
            Err(MtdError::Uncorrectable(Page(2)))
        );
        assert_eq!(part.erase(Block(1)), Err(MtdError::EraseFailed(Block(1))));
        part.mark_bad(Block(2)).unwrap();
        assert_eq!(part.erase(Block(2)), Err(MtdError::BadBlock(Block(2))));
        part.program(Page(0), &[], &[0]).unwrap();
        assert!(matches!(
            part.program(Page(0), &[], &[1]),
            Err(MtdError::Illegal(Page(0), _))
        ));
    }

    #[test]
    fn a_run_that_would_break_the_interleave_is_refused() {
        struct Wide(Geometry);
        impl Mtd for Wide {
            fn geometry(&self) -> &Geometry {
                &self.0
            }
            fn read(
                &mut self,
                page: Page,
                _: &mut [u8],
                _: &mut [u8],
            ) -> Result<Corrected, MtdError> {
                Err(MtdError::Uncorrectable(page))
            }
            fn program(&mut self, _: Page, _: &[u8], _: &[u8]) -> Result<(), MtdError> {
                Err(MtdError::ReadOnly(None))
            }
            fn copy(
                &mut self,
                _: Page,
                _: Page,
                _: &mut [u8],
                _: &[u8],
            ) -> Result<Corrected, MtdError> {
                Err(MtdError::ReadOnly(None))
            }
            fn erase(&mut self, _: Block) -> Result<(), MtdError> {
                Err(MtdError::ReadOnly(None))
            }
            fn is_bad(&mut self, _: Block) -> Result<bool, MtdError> {
                Ok(false)
            }
            fn mark_bad(&mut self, _: Block) -> Result<(), MtdError> {
                Err(MtdError::ReadOnly(None))
            }
            fn sync(&mut self) -> Result<(), MtdError> {
                Ok(())
            }
        }
        let cut = |start, blocks| {
            let geometry = Geometry {
                dies: 4,
                planes: 2,
                ..Geometry::single_die(2048, 64, 64, 64)
            };
            Partition::new(Wide(geometry), Block(start), blocks)
                .map(|part| part.geometry.blocks)
                .map_err(|e| e.field)
        };
        assert_eq!(
            (cut(8, 16), cut(4, 16), cut(8, 12)),
            (Ok(16), Err("partition start"), Err("blocks"))
        );
        assert_eq!(
            (cut(56, 8), cut(56, 16), cut(0, u32::MAX)),
            (Ok(8), Err("partition end"), Err("partition end"))
        );
    }
}
