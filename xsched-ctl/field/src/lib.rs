//! The field kit, `xsched-ctl field`: tries and measures xsched-ctl on a node that it has never seen, and writes one report to send
//! back. DESIGN.md says why it is made as it is.
//!
//! ```text
//! run ─► kit ─► steps: each in three modes ─► measurement: participants begin together ─► process ─► client, or python3
//!   │     └► controller: the kit's own, for a mode                                        (speech: what they say)
//!   └► report: HTML and JSON, written after every step
//! ```

mod bounded;
mod client;
mod controller;
mod error;
mod kit;
mod machine;
mod measurement;
mod options;
mod process;
mod report;
mod run;
mod scripts;
mod speech;
mod statistics;
mod steps;
mod trouble;

pub use client::client;
pub use error::FieldError;
pub use options::{Include, Mode, Options, Step};
pub use run::run;
