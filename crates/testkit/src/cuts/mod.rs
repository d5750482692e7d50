//! Power cuts between the writes of a disk, without a chip: tests of file systems.
//!
//! *Promises.* A [`Story`] makes changes on a file system over a
//! [`WriteLog`](nandlab_block::WriteLog) and notes, change by change, what a power cut must leave
//! ([`Expected`]). The [`Run`] then gives every state that
//! [`nandlab_block::Cuts`] allows, each with what was promised by then. A test mounts the state,
//! calls [`assert_kept`], runs the file system's own check, and goes on.
//!
//! *Knows nothing of* formats. Failed assertions panic and name the state.
//!
//! | module | its one idea |
//! |---|---|
//! | `expected` | what a path may hold after a cut |
//! | `story` | changes, and what each promises |
//! | `stories` | runs that every file system has to survive |
//! | `run` | the states of a run |

mod expected;
mod run;
mod stories;
mod story;

pub use expected::{Expectations, Expected, assert_kept, assert_kept_repaired, held};
pub use run::{Run, State, assert_went_on, go_on};
pub use stories::{churn, mixed, mixed_with};
pub use story::Story;
