//! The built library, preloaded into real processes.
//!
//! The programs are written in C and compiled here, against a runtime in C that prints what it is called
//! with. Nearly every test runs a program without the shim and with it, and compares all that came out.

mod accidents;
mod copies;
mod exports;
mod fixture;
mod forwarding;
mod headers;
mod programs;
