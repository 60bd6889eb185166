//! `xsched-ctl serve` and the commands that speak to it, with a stand-in for the shim.

mod commands;
mod directory;
mod files;
mod fixture;
mod hostile;
mod lives;
mod standing;

/// Nobody.
const USER: u32 = 65534;
