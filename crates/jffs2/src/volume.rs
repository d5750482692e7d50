//! JFFS2 as a recipe for a volume, and what of it survives a power cut.

use crate::{Finding, Format, Jffs2, Medium, Options, Severity};
use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use nandlab_mtd::Mtd;
use nandlab_vfs::{Mounted, Nature, Promise, Volume, VolumeError};

/// A volume of JFFS2 with its options.
#[derive(Clone, Debug, Default)]
pub struct Jffs2Volume {
    /// How it is mounted. A new volume is made for the same medium, compression and summaries.
    pub options: Options,
}

impl<M: Mtd + 'static> Volume<M> for Jffs2Volume {
    /// A node is there or not. The first nodes of a long write may be there without the rest.
    fn nature(&self, _: &M) -> Nature {
        Nature {
            promise: Promise::Fsynced,
            sector: 1,
            block: self.options.node_bytes as usize,
            is_unix: true,
            directories: &[],
            by_parts: true,
            late: false,
            lags: false,
        }
    }

    /// Erases the medium. An unmarked medium that is new, such as a volume of UBI's, reads as
    /// erased, which is an empty file system.
    fn format(&self, mtd: &mut M) -> Result<(), VolumeError> {
        let Options {
            medium,
            compression,
            summary,
            ..
        } = self.options;
        if medium != Some(Medium::Unmarked) {
            let choices = Format {
                medium,
                compression,
                summary,
                ..Format::default()
            };
            crate::format(mtd, &choices)?;
        }
        Ok(())
    }

    fn mount(&self, mtd: M) -> Result<Box<dyn Mounted<M>>, VolumeError> {
        Ok(Box::new(Jffs2::mount(mtd, self.options)?))
    }
}

impl<M: Mtd> Mounted<M> for Jffs2<M> {
    /// A torn node or page is what a cut leaves, and no damage.
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, VolumeError> {
        let findings = self.check()?.findings;
        let damage = findings.iter().filter(|finding| {
            let cut = matches!(finding, Finding::Node { .. } | Finding::Page { .. });
            finding.severity() == Severity::Damage && !cut
        });
        Ok(damage.map(ToString::to_string).collect())
    }

    fn into_medium(self: Box<Self>) -> M {
        self.into_mtd()
    }
}
