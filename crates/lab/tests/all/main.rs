//! The integration tests, in one program so that they link once.

mod benchmarks;
mod closed_form;
mod files;
mod files_ext;
mod ledger;
mod remap_rollback;
mod report_fixture;
mod report_structure;
mod slow;
