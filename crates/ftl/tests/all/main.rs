//! The integration tests, in one program so that they link once.

mod common;
mod crash;
mod crash_schemes;
mod errors;
mod lives;
mod log_block_counts;
mod log_block_faults;
mod log_block_model;
mod log_block_wear;
mod model;
mod mtdblock;
mod nftl_counts;
mod nftl_cuts;
mod nftl_faults;
mod nftl_format;
mod nftl_hostile;
mod nftl_model;
mod page_remap;
mod page_remap_counts;
mod page_remap_cuts;
mod page_remap_faults;
mod planes;
mod rules;
mod write_cache_cuts;
mod write_cache_evictions;
mod write_cache_model;
