//! What every benchmark shares: the row that it prints, and how it measures.
//!
//! A benchmark is a binary `bench-<name>` of this package, under `bench/`. It prints one JSON object a line on stdout,
//! one per finding, and asserts nothing: whoever reads the rows judges. `cargo xtask bench <name>` builds, runs and
//! renders it.
//!
//! Two builds of anything are compared within one run, in alternation ([`paired`]): a machine that slows down in the
//! middle slows both sides.

mod row;
mod samples;

pub use row::{Goal, Row};
pub use samples::{Paired, Samples, alternate, paired, repeated};
