//! Each scheme as a [`Layer`]: its options are the recipe.

use crate::logblock::{LogBlockFtl, LogBlockOptions};
use crate::nftl::{Nftl, NftlOptions};
use crate::page::{PageFtl, PageOptions};
use nandlab_mtd::{Layer, LayerError, Mtd};

macro_rules! layers {
    ($($options:ident => $ftl:ident),*) => {$(
        impl<M: Mtd> Layer<M> for $options {
            type Device = $ftl<M>;

            fn format(&self, medium: M) -> Result<$ftl<M>, LayerError> {
                Ok($ftl::format(medium, self.clone())?)
            }

            fn attach(&self, medium: M) -> Result<$ftl<M>, LayerError> {
                Ok($ftl::attach(medium, self.clone())?)
            }

            fn power_off(&self, device: $ftl<M>) -> M {
                device.into_medium()
            }
        }
    )*};
}
layers!(PageOptions => PageFtl, LogBlockOptions => LogBlockFtl, NftlOptions => Nftl);
