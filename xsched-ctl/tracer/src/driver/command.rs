//! Descriptions of the driver's commands.
//!
//! Names and offsets are those of the kernel's headers; `tests.rs` compares them.

use std::borrow::Cow;

use xsched_abi::{
    Device,
    driver::{DRM_TYPE, KFD_TYPE, command_number, command_type},
};

use super::{amdgpu, drm, kfd};

#[derive(Debug)]
pub(super) struct Command {
    /// Its number within its type (`_IOC_NR`).
    pub(super) number: u8,
    pub(super) name: &'static str,
    /// The fields worth showing.
    pub(super) fields: &'static [Field],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Offset in the struct, in bytes.
    pub(super) offset: u8,
    /// When it is valid.
    pub(super) side: Side,
    /// Type, which determines how it is shown.
    pub(super) kind: Kind,
}

/// What fills a field in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The caller; the driver may overwrite it.
    Passed,
    /// The driver, if the call succeeds.
    Returned,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    U32,
    I32,
    U64,
    /// `__u64`: an address or handle.
    Pointer,
    /// `__u32` with names for bits; bits without one are shown as a number.
    Flags(&'static [(u32, &'static str)]),
    /// `__u32` with names for values.
    Name(&'static [(u32, &'static str)]),
}

/// A command without fields to show.
pub(super) const fn named(number: u8, name: &'static str) -> Command {
    Command { number, name, fields: &[] }
}

impl Command {
    pub(super) const fn with(self, fields: &'static [Field]) -> Self {
        Self { fields, ..self }
    }
}

/// A field that the caller fills in.
pub(super) const fn passed(name: &'static str, offset: u8, kind: Kind) -> Field {
    Field { name, offset, side: Side::Passed, kind }
}

/// A field that the driver fills in.
pub(super) const fn returned(name: &'static str, offset: u8, kind: Kind) -> Field {
    Field { name, offset, side: Side::Returned, kind }
}

/// Numbers of the commands that each DRM driver defines for itself: 0x40 to 0x9f.
const DRIVER_COMMANDS: std::ops::Range<u8> = 0x40..0xa0;

/// The command of a device that has this value, if the tables have it.
pub(super) fn find(device: Device, value: u32) -> Option<&'static Command> {
    let number = command_number(value);
    let (table, number) = match (device, command_type(value)) {
        (Device::Kfd, KFD_TYPE) => (kfd::COMMANDS, number),
        (Device::Dri, DRM_TYPE) if DRIVER_COMMANDS.contains(&number) => {
            (amdgpu::COMMANDS, number - DRIVER_COMMANDS.start)
        }
        (Device::Dri, DRM_TYPE) => (drm::COMMANDS, number),
        _ => return None,
    };
    table.iter().find(|command| command.number == number)
}

/// Name of a command: from the tables, or made of its value.
pub(super) fn name(device: Device, value: u32) -> Cow<'static, str> {
    match find(device, value) {
        Some(command) => command.name.into(),
        None => format!("ioctl {value:#010x}").into(),
    }
}

#[cfg(test)]
mod tests {
    use xsched_abi::driver::STRUCT_LEN_MAX;

    use super::*;

    fn all() -> impl Iterator<Item = &'static Command> {
        kfd::COMMANDS.iter().chain(drm::COMMANDS).chain(amdgpu::COMMANDS)
    }

    #[test]
    fn numbers_and_names_are_unique() {
        for table in [kfd::COMMANDS, drm::COMMANDS, amdgpu::COMMANDS] {
            assert!(table.is_sorted_by(|a, b| a.number < b.number));
        }
        let mut names: Vec<_> = all().map(|command| command.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn fields_lie_within_what_is_recorded() {
        for command in all() {
            for field in command.fields {
                let end = usize::from(field.offset) + field.kind.size();
                assert!(end <= STRUCT_LEN_MAX, "{} {}", command.name, field.name);
            }
        }
    }

    #[test]
    fn a_command_is_looked_up_by_device_and_type() {
        assert_eq!(name(Device::Kfd, 0xc058_4b02), "AMDKFD_IOC_CREATE_QUEUE");
        assert_eq!(name(Device::Dri, 0xc010_6442), "DRM_AMDGPU_CTX");
        assert_eq!(name(Device::Dri, 0xc040_6400), "DRM_IOCTL_VERSION");
        // TCGETS, and KFD's number on the other device.
        assert_eq!(name(Device::Kfd, 0x5401), "ioctl 0x00005401");
        assert_eq!(name(Device::Dri, 0xc058_4b02), "ioctl 0xc0584b02");
        assert_eq!(name(Device::Kfd, 0xc004_4b7f), "ioctl 0xc0044b7f");
    }
}
