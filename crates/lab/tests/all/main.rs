//! The integration tests, in one program so that they link once.

mod album;
mod benchmarks;
mod camera;
mod closed_form;
mod crash;
mod crash_f2fs;
mod crash_files;
mod crash_flash;
mod crash_schemes;
mod ext_parts;
mod file_stacks;
mod files;
mod files_ext;
mod ledger;
mod remap_rollback;
mod report_fixture;
mod report_structure;
mod slow;
