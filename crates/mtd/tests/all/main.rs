//! The integration tests, in one program so that they link once.

mod slow;
mod stacked_adapters_behave_like_one_array;
