//! The integration tests, in one program so that they link once.

mod benchmarks;
mod closed_form;
mod errors;
mod errors_fs;
mod files;
mod files_ext;
mod ledger;
mod reference;
mod remap_rollback;
mod report_fixture;
mod report_structure;
mod slow;
