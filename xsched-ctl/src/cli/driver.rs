//! Options for calls to the kernel driver.

use std::path::Path;

use xsched_abi::Device;
use xsched_tracer::{ExtraDevice, number_of};

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
