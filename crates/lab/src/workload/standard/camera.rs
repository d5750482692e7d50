//! Choices of the camera, as `[workload]` has them.

use crate::workload::files::{DescribedFiles, size};
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::SpecError;
use nandlab_workload::camera::{CameraMs500, CameraSpec, DeleteAll, IndexDelete, IndexWrite};
use nandlab_workload::files::FileCalls;

impl DescribedFiles for CameraSpec {
    const NAME: &'static str = "camera-ms500";
    const KEYS: &'static [&'static str] = &[
        "transactions",
        "photos",
        "deletes",
        "photo-min",
        "photo-max",
        "entry",
        "unit",
        "fsync",
        "delete-all-above",
        "delete-all",
        "index-write",
        "index-delete",
        "total",
    ];

    fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let default = Self::default();
        let transactions = section.or("transactions", default.transactions)?;
        let usual = default.clone().for_transactions(transactions);
        let moments = [
            ("after-creates", DeleteAll::AfterCreates),
            ("after-deletes", DeleteAll::AfterDeletes),
        ];
        let writes = [("units", IndexWrite::Units), ("entry", IndexWrite::Entry)];
        let deletes = [
            ("overwrite", IndexDelete::Overwrite),
            ("compact", IndexDelete::Compact),
        ];
        Ok(Self {
            transactions,
            photos: section.or("photos", default.photos)?,
            deletes: section.or("deletes", default.deletes)?,
            photo_bytes_min: size(section, ["photo-min"], default.photo_bytes_min)?,
            photo_bytes_max: size(section, ["photo-max"], default.photo_bytes_max)?,
            entry_bytes: size(section, ["entry"], default.entry_bytes)?,
            unit: size(section, ["unit"], default.unit)?,
            fsync: section.or("fsync", default.fsync)?,
            delete_all_above: section.or("delete-all-above", default.delete_all_above)?,
            delete_all: section.choice("delete-all", &moments, default.delete_all)?,
            index_write: section.choice("index-write", &writes, default.index_write)?,
            index_delete: section.choice("index-delete", &deletes, default.index_delete)?,
            // As many bytes a transaction as the paper's camera, unless sizes are to stay as drawn:
            // 0.
            total: Some(size(section, ["total"], usual.total.unwrap_or(0))?)
                .filter(|total| *total > 0),
            seed: 0,
        })
    }

    fn check(&self) -> Result<(), SpecError> {
        Self::check(self)
    }

    fn key_of(field: &'static str) -> String {
        match field {
            "shortest photo" => "photo-min",
            "longest photo" => "photo-max",
            key => key,
        }
        .into()
    }

    fn start(&self, seed: u64) -> Result<Box<dyn FileCalls>, SpecError> {
        Ok(Box::new(CameraMs500::new(Self {
            seed,
            ..self.clone()
        })?))
    }
}
