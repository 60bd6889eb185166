//! Differential testing of the shim: random HIP programs must do the same with it as without.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `program` | what a program is, and its text |
//! | `order` | which programs have one result only |
//! | `generate` | a program from a seed |
//! | `observe` | what is compared |
//! | `mode`, `client` | how programs are run |
//! | `campaign` | many of them, with and without the shim |
//! | `planted` | how long it takes to find bugs that were put in on purpose |
//! | `shrink` | the smallest program that still shows a difference |
//!
//! Programs run in a HIP client of their own, the package `differential-runner`.

pub mod campaign;
pub mod client;
pub mod generate;
pub mod mode;
pub mod observe;
pub mod order;
pub mod planted;
pub mod program;
pub mod shrink;
