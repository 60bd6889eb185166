//! Tests that need a guest whose time goes by its instructions, so that no timeout expires because this machine is busy:
//! `cargo xtask test --vm timed`.

mod gates;
