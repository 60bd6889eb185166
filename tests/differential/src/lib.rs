//! Differential testing of the shim: random HIP programs must do the same with it as without.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `program` | programs and their text form |
//! | `order` | the programs that have exactly one result |
//! | `generate`, `repertoire` | a program from a seed; what it may use |
//! | `observe` | the values that are compared |
//! | `mode`, `client` | how programs are run |
//! | `campaign` | many programs, with and without the shim |
//! | `planted` | how many programs it takes to find bugs planted on purpose |
//! | `shrink` | the smallest program that still shows a difference |
//!
//! Programs run in a separate HIP client, the package `differential-runner`.

pub mod campaign;
pub mod client;
pub mod generate;
pub mod mode;
pub mod observe;
pub mod order;
pub mod planted;
pub mod program;
pub mod repertoire;
pub mod shrink;
