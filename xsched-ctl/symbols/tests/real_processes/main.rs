//! Lookups in real processes that load, close, fork, run other programs, die, and delete their files.
//!
//! Each test is named after the accident that it stands for. All need a C compiler, and most the right to watch
//! every process; a test that lacks either says so and passes.

mod files;
mod foreign_roots;
mod kinds;
mod lives;
mod losses;
mod offsets;
mod subject;
