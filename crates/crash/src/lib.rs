//! The crash explorer: cuts the power everywhere in a run, recovers from each state, and judges
//! what is left.
//!
//! *Promises.* A run is made once, on a chip that logs its operations. For each chosen moment the
//! explorer builds the chip exactly as a cut at that moment may leave it. It attaches the layer
//! from this chip alone, lets an [`Oracle`] compare the contents with what the host had been
//! promised, and goes on writing. Some of these recoveries are cut again. Refusals, panics and
//! endless loops are violations as well. Each [`Violation`] has an [`Id`] that makes the same state
//! again, and the first one is shrunk to a few host operations. A report is a function of subject,
//! operations and plan: threads and wall time have no part in it.
//!
//! *Works on* any [`Subject`]. [`Disk`] makes one of each block layer, [`Files`] one of each file
//! system over a layer.
//!
//! *Knows nothing of* concrete layers: a [`Layer`](nandlab_mtd::Layer) or a
//! [`Volume`](nandlab_vfs::Volume) is all that it needs.
//!
//! # Cutting your own layer
//!
//! This layer appends each sector to the flash, in a page that names the sector. It never collects
//! garbage. Every cut is survived, until the flush no longer waits for the chip:
//!
//! ```
//! use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
//! use nandlab_crash::{Disk, DiskOp, Plan, assert_found, assert_survives};
//! use nandlab_mtd::{Block, Geometry, Layer, LayerError, Mtd, MtdError, Page};
//! use nandlab_nand::{Chip, ChipSpec, preset};
//!
//! const DISK: BlockGeometry = BlockGeometry { sector: 512, sectors: 8, page: 512 };
//!
//! struct Append {
//!     flush_waits: bool,
//! }
//!
//! struct Attached {
//!     flash: Chip,
//!     next: u32,
//!     places: [Option<Page>; 8],
//!     flush_waits: bool,
//! }
//!
//! impl Layer<Chip> for Append {
//!     type Device = Attached;
//!
//!     fn format(&self, flash: Chip) -> Result<Attached, LayerError> {
//!         let flush_waits = self.flush_waits;
//!         Ok(Attached { flash, next: 0, places: [None; 8], flush_waits })
//!     }
//!
//!     fn attach(&self, flash: Chip) -> Result<Attached, LayerError> {
//!         let mut device = self.format(flash)?;
//!         let mut sector = [0xFF];
//!         for page in 0..device.flash.geometry().pages() {
//!             let read = device.flash.read(Page(page), &mut [0; 512], &mut sector);
//!             if let (Ok(_), Some(place)) = (&read, device.places.get_mut(sector[0] as usize)) {
//!                 *place = Some(Page(page));
//!             }
//!             if read.is_err() || sector[0] != 0xFF {
//!                 // Never fill a block that was open at the cut.
//!                 device.next = (page / 8 + 1) * 8;
//!             }
//!         }
//!         Ok(device)
//!     }
//!
//!     fn power_off(&self, device: Attached) -> Chip {
//!         device.flash
//!     }
//! }
//!
//! fn lost(_: MtdError) -> BlockError {
//!     BlockError::WornOut(None)
//! }
//!
//! impl BlockDevice for Attached {
//!     fn geometry(&self) -> &BlockGeometry {
//!         &DISK
//!     }
//!
//!     fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
//!         for (place, sector) in self.places[lba.0 as usize..].iter().zip(buf.chunks_mut(512)) {
//!             match place {
//!                 Some(page) => _ = self.flash.read(*page, sector, &mut []).map_err(lost)?,
//!                 None => sector.fill(0),
//!             }
//!         }
//!         Ok(())
//!     }
//!
//!     fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
//!         for (lba, sector) in (lba.0..).zip(data.chunks(512)) {
//!             if self.next % 8 == 0 {
//!                 self.flash.erase(Block(self.next / 8)).map_err(lost)?;
//!             }
//!             self.flash.program(Page(self.next), sector, &[lba as u8]).map_err(lost)?;
//!             self.places[lba as usize] = Some(Page(self.next));
//!             self.next += 1;
//!         }
//!         Ok(())
//!     }
//!
//!     fn flush(&mut self) -> Result<(), BlockError> {
//!         if self.flush_waits {
//!             self.flash.sync().map_err(lost)?;
//!         }
//!         Ok(())
//!     }
//!
//!     fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
//!         self.write(lba, &vec![0; sectors as usize * 512])
//!     }
//! }
//!
//! let chip = ChipSpec {
//!     geometry: Geometry::single_die(512, 16, 8, 32),
//!     ..preset::find("nandsim-jftl").unwrap().spec()
//! };
//! let write = |n| DiskOp::Write { lba: Lba(n * 3 % 8), sectors: 1, stamp: n };
//! let ops: Vec<DiskOp> = (1..20).flat_map(|n| [write(n), DiskOp::Flush]).collect();
//!
//! let sound = Disk { chip: chip.clone(), layer: Append { flush_waits: true } };
//! let report = assert_survives(&sound, &ops, &Plan::default());
//! assert!(report.states > 100);
//!
//! let wrong = Disk { chip, layer: Append { flush_waits: false } };
//! let report = assert_found(&wrong, &ops, &Plan::default());
//! assert_eq!(report.smallest.unwrap().host_ops, ["0: write 1 at sector 3 (#1)", "1: flush"]);
//! ```
//!
//! | module | its one idea |
//! |---|---|
//! | `subject` | the explored stack and its judge: two traits |
//! | `plan` | how to explore |
//! | `workload` | the operations, and the runs that are made of them |
//! | `life` | from power-up to the last operation, with times |
//! | `cut`, `id` | where the power can go; the name of a state |
//! | `walk` | the states of a life, one after another |
//! | `bench` | the formatted chip, and all cuts of a run in parallel |
//! | `explore` | a whole exploration |
//! | `again` | one state by its name; the chips of all |
//! | `shrink` | the smallest case |
//! | `disk` | block layers, and their oracle |
//! | [`files`] | file systems over layers, and their oracle |
//! | `outcome` | the report, as data and as text |
//! | `assert` | assertions for tests |

#![forbid(unsafe_code)]

mod again;
mod assert;
mod bench;
mod cut;
mod disk;
mod explore;
pub mod files;
mod id;
mod life;
mod outcome;
mod plan;
mod shrink;
mod subject;
mod walk;
mod workload;

pub use again::{chip_of_state, chips_of_states, replay};
pub use assert::{assert_each_found, assert_found, assert_survives};
pub use cut::{Cut, Phase};
pub use disk::{Disk, DiskOp, FlushedOrNewer, operations};
pub use explore::{explore, explore_watched};
pub use files::{FileOp, Files};
pub use id::{Id, IdError};
pub use outcome::{CrashReport, Recovery, Smallest, Violation};
pub use plan::{CrashError, Cuts, Plan, SecondLevel};
pub use subject::{Failure, GoOn, Kind, Oracle, Subject};
pub use workload::Workload;
