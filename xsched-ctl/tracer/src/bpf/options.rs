//! How the kernel's side is to be set up.

use clap::ValueEnum;
use xsched_abi::Device;

/// How probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Uprobes {
    /// By the best way that works on this kernel
    Auto,
    /// One perf event for each function: slower to attach and detach, works since kernel 5.15
    PerfEvents,
}

/// How calls to the kernel driver are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// As `fentry` where that works; else as `tracepoint`, but only while a recorded process uses HIP or the driver
    Auto,
    /// Not at all
    Off,
    /// By the tracepoints of ioctl: adds about 0.3 us to every ioctl of the machine, whatever the device, while attached
    Tracepoint,
    /// By the driver's own functions, which costs others nothing; the kernel module must have BTF
    Fentry,
}

/// A device to be taken for one of the driver's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraDevice {
    /// Its number.
    pub number: u32,
    /// What it is taken for.
    pub device: Device,
    /// Its path.
    pub path: String,
}
