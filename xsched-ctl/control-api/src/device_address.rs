//! Devices by their PCI addresses.

use xsched_protocol::arbiter_page::device_parts;

/// A device as `lspci` writes it, with the partition behind a slash unless it is 0. The key is
/// [`xsched_protocol::arbiter_page::device_key`].
pub fn device_name(key: u64) -> String {
    let (domain, bus, device, partition) = device_parts(key);
    let address = format!("{domain:04x}:{bus:02x}:{device:02x}.0");
    if partition == 0 { address } else { format!("{address}/{partition}") }
}

#[cfg(test)]
mod tests {
    use xsched_protocol::arbiter_page::device_key;

    use super::*;

    #[test]
    fn a_device_is_named_by_its_address() {
        assert_eq!(device_name(device_key(0, 0xc1, 0, 0)), "0000:c1:00.0");
        assert_eq!(device_name(device_key(0x1_0002, 0x05, 0x1f, 3)), "10002:05:1f.0/3");
        assert_eq!(device_name(device_key(0, 0xff, 0x1f, 2047)), "0000:ff:1f.0/2047");
    }
}
