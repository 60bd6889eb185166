//! Options for calls to the kernel driver.

use std::path::Path;

use clap::ValueEnum;
use xsched_abi::Device;

use crate::driver::number_of;

/// How calls to the kernel driver are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
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
pub(crate) struct ExtraDevice {
    /// Its number.
    pub(crate) number: u32,
    /// The device that it counts as.
    pub(crate) device: Device,
    /// Its path.
    pub(crate) path: String,
}

/// Reads `kfd=PATH` or `dri=PATH`.
pub(super) fn extra_device(text: &str) -> Result<ExtraDevice, String> {
    let (kind, path) = text.split_once('=').ok_or("expected kfd=PATH or dri=PATH")?;
    let device = match kind {
        "kfd" => Device::Kfd,
        "dri" => Device::Dri,
        _ => return Err("expected kfd=PATH or dri=PATH".to_owned()),
    };
    match number_of(Path::new(path)) {
        Ok(0) => Err(format!("{path} is no character device")),
        Ok(number) => Ok(ExtraDevice { number, device, path: path.to_owned() }),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_checked_when_they_are_given() {
        let null = extra_device("kfd=/dev/null").unwrap();
        assert_eq!((null.device, null.path.as_str()), (Device::Kfd, "/dev/null"));
        for bad in ["/dev/null", "gpu=/dev/null", "kfd=/proc/self/maps", "dri=/dev/no-such-device"] {
            assert!(extra_device(bad).is_err(), "{bad}");
        }
    }
}
