//! Tests of the whole program, over its command line and over TCP.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod hand_over;
mod page;
mod serving;
