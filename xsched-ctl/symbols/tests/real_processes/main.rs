//! Lookups in real processes that load and close libraries, fork, execute other programs, end, and delete their files.
//!
//! Each test is named after the case that it covers. All need a C compiler, and most need the permission to watch
//! every process; a test without these prints that and passes.

mod files;
mod foreign_roots;
mod kinds;
mod lives;
mod losses;
mod offsets;
mod subject;
