//! UBIFS, in a volume of UBI or as the bytes of one.
//!
//! *Promises.* Those of [`Volume`]. An image that ends before its volume does is opened for reading
//! only, and what is missing cannot be read. *Knows nothing of* how the bytes got there.

use crate::error::{ImageError, Result};
use crate::make::too_small;
use crate::truncated::Truncation;
use crate::volume::{Access, AnyLebs, Layer, Mounted, Opening, Volume, failed};
use crate::walk::Losses;
use nandlab_sim::Backing as _;
use nandlab_ubifs::{Bare, Ubifs, UbifsError};

const NAME: &str = "UBIFS";

/// The refusal of mkfs as an error.
pub(crate) fn unmade(error: UbifsError) -> ImageError {
    let is_small = error == UbifsError::Full;
    too_small(NAME, &error.to_string(), is_small)
}

impl Volume {
    /// A file that begins with a superblock, as mkfs.ubifs writes it.
    pub(crate) fn ubifs_bytes(&mut self, opening: &Opening, access: Access) -> Result<()> {
        let bytes = self.place.open(access, 0)?;
        let there = bytes.len();
        let Some(bare) = Bare::new(bytes).map_err(|error| failed(NAME, error))? else {
            return self.ubifs_headless(opening, access);
        };
        let declared = bare.declared_bytes();
        if declared > there && access == Access::Write {
            let truncation = Truncation { there, declared };
            return Err(failed(NAME, truncation));
        }
        if declared > there {
            let truncation = Truncation { there, declared };
            self.troubles.push(truncation.to_string());
            self.truncation = Some(truncation);
        }
        self.ubifs(Box::new(bare), opening, access)
    }

    /// A file without a sound superblock.
    fn ubifs_headless(&mut self, opening: &Opening, access: Access) -> Result<()> {
        let bytes = self.place.open(access, 0)?;
        let may_guess = opening.salvage && access == Access::Read;
        match may_guess.then(|| Bare::guessed(bytes)).flatten() {
            Some(bare) => self.ubifs(Box::new(bare), opening, access),
            None => Err(failed(
                NAME,
                "no superblock, expected one in the first 4096 bytes",
            )),
        }
    }

    /// Logical blocks with a superblock in the first of them.
    pub(crate) fn ubifs(&mut self, lebs: AnyLebs, opening: &Opening, access: Access) -> Result<()> {
        let lebs = match self.anew.take() {
            Some(format) => nandlab_ubifs::format(lebs, &format).map_err(unmade)?,
            None => lebs,
        };
        let fs = match access {
            Access::Read if opening.salvage => Ubifs::salvage(lebs),
            Access::Read => Ubifs::mount(lebs),
            Access::Write => Ubifs::mount_writable(lebs),
        };
        let fs = match fs {
            Ok(fs) => fs,
            Err(error @ UbifsError::Feature { .. }) if opening.salvage => {
                self.unsupported = Some(error.to_string());
                return Ok(());
            }
            // The layers around it can still be reported.
            Err(error) if opening.salvage => {
                self.troubles.push(format!("{NAME}: {error}"));
                return Ok(());
            }
            Err(error) => return Err(failed(NAME, error)),
        };
        let head = fs.head();
        let journal = fs.journal();
        self.layers.push(Layer::Ubifs {
            format: head.version,
            leb: head.geometry.leb,
            lebs: head.geometry.lebs,
            compressor: head.compressor_name(),
            in_use: journal.in_use,
            fixup: journal.fixup,
            journal: journal.nodes,
        });
        self.mounted = Some(Mounted::Ubifs(Box::new(fs)));
        Ok(())
    }

    /// A flash programmer still has to write the image: its free space is to be fixed up then.
    pub(crate) fn keep_fixup(&mut self) -> Result<()> {
        match &mut self.mounted {
            Some(Mounted::Ubifs(fs)) if fs.journal().fixup => {
                let kept = fs.require_fixup();
                kept.map_err(|error| failed("UBIFS", error))
            }
            _ => Ok(()),
        }
    }

    /// Lets a walk meet inodes without a path, if a format does that without writes: UBIFS. Returns
    /// the inodes that got a name or a stand-in.
    pub(crate) fn reconnect(&mut self) -> Losses {
        let mut losses = Losses::default();
        if let Some(Mounted::Ubifs(fs)) = &mut self.mounted {
            let told = fs.reconnect();
            for finding in &told.findings {
                losses.add(b"", finding.to_string());
            }
            losses.more += told.more;
        }
        losses
    }
}
