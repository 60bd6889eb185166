//! How the kernel's side is to be set up.

use clap::ValueEnum;
use xsched_abi::Device;

/// How probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Uprobes {
    /// In the best way that works on this kernel
    Auto,
    /// One perf event for each function: slower to attach and detach, works since kernel 5.15
    PerfEvents,
}

/// How calls to the kernel driver are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// Like `fentry` where that works; otherwise like `tracepoint`, but only while a recorded process uses HIP or the
    /// driver
    Auto,
    /// Not at all
    Off,
    /// At the tracepoints of ioctl: adds about 0.3 us to every ioctl of the machine, on any device, while attached
    Tracepoint,
    /// At the driver's own functions, which costs other processes nothing; the kernel module must have BTF
    Fentry,
}

/// A device that counts as one of the driver's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraDevice {
    /// Its number.
    pub number: u32,
    /// The device that it counts as.
    pub device: Device,
    /// Its path.
    pub path: String,
}
