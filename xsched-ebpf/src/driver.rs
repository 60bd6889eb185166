//! Ioctls on the devices of AMD's kernel driver: `/dev/kfd` and `/dev/dri/*`.
//!
//! There are two sources of the same record. `fentry` and `fexit` on the driver's own ioctl functions see only calls of this
//! driver and cost other calls nothing; they need BTF of the module. The tracepoints of ioctl(2) see the calls of every device.
//! So the programs look at the file behind the descriptor, by offsets that user space takes from the kernel's BTF
//! ([`DriverConfig`]). Without these offsets, user space looks at the descriptor ([`Device::Untold`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of an ioctl's struct that a record carries, before and after the call. Fields worth showing lie within.
pub const STRUCT_LEN_MAX: usize = 128;

/// The type byte of commands of `/dev/kfd`.
pub const KFD_TYPE: u8 = b'K';

/// The type byte of commands of `/dev/dri/*`.
pub const DRM_TYPE: u8 = b'd';

/// A device of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Device {
    /// Not determined in the kernel: user space looks at the descriptor.
    Untold = 0,
    /// `/dev/kfd`: queues, events and memory for compute.
    Kfd = 1,
    /// `/dev/dri/*` of an AMD GPU.
    Dri = 2,
}

impl Device {
    /// From its number.
    pub const fn from_u32(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Untold),
            1 => Some(Self::Kfd),
            2 => Some(Self::Dri),
            _ => None,
        }
    }
}

/// The only element of the `DRIVER` map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DriverConfig {
    /// 1 while opening one of the devices is to be reported.
    pub report_opening: u32,
    /// 1 if the offsets below are known.
    pub has_offsets: u32,
    /// `task_struct.files`.
    pub task_files: u32,
    /// `files_struct.fdt`.
    pub files_fdt: u32,
    /// `fdtable.max_fds`.
    pub fdtable_max_fds: u32,
    /// `fdtable.fd`.
    pub fdtable_fd: u32,
    /// `file.f_inode`.
    pub file_inode: u32,
    /// `inode.i_rdev`.
    pub inode_rdev: u32,
}

/// An ioctl that has been entered and has not returned.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PendingIoctl {
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// When it was entered.
    pub begin_ns: u64,
    /// Its argument, mostly the address of a struct.
    pub arg: u64,
    /// The command: direction, size, type and number
    /// (`_IOC`, <https://github.com/torvalds/linux/blob/v6.12/include/uapi/asm-generic/ioctl.h>).
    pub command: u32,
    /// A [`Device`].
    pub device: u32,
    /// Device number in the kernel's encoding ([`device_number`]), or zero if it is not known.
    pub rdev: u32,
    /// The descriptor, or -1 if it is not known.
    pub fd: i32,
    /// Bytes of `before` that could be read.
    pub before_len: u32,
    /// Keeps the struct free of padding; zero.
    pub reserved: u32,
    /// The struct as the caller passed it, if the command reads one.
    pub before: [u8; STRUCT_LEN_MAX],
}

/// An ioctl that has returned.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ioctl {
    /// [`RecordKind::Ioctl`](crate::RecordKind::Ioctl).
    pub kind: u32,
    /// Bytes of `after` that could be read.
    pub after_len: u32,
    /// When it returned.
    pub end_ns: u64,
    /// What it returned: 0 or more, or a negated errno.
    pub ret: i64,
    /// The note of its entry.
    pub entered: PendingIoctl,
    /// The struct as the driver left it, if the command writes one.
    pub after: [u8; STRUCT_LEN_MAX],
}

/// A watched process opens one of the driver's devices, if it exists.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceOpened {
    /// [`RecordKind::DeviceOpened`](crate::RecordKind::DeviceOpened).
    pub kind: u32,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// When.
    pub time_ns: u64,
    /// 1 if the process is stopped and waits to be continued.
    pub is_stopped: u32,
    /// Keeps the struct free of padding; zero.
    pub reserved: u32,
}

/// A device number in the kernel's encoding: 12 bits of major, 20 of minor
/// (`MKDEV`, <https://github.com/torvalds/linux/blob/v6.12/include/linux/kdev_t.h>).
pub const fn device_number(major: u32, minor: u32) -> u32 {
    major << 20 | minor & 0xf_ffff
}

/// The type byte of a command.
pub const fn command_type(command: u32) -> u8 {
    (command >> 8) as u8
}

/// The number of a command within its type.
pub const fn command_number(command: u32) -> u8 {
    command as u8
}

/// Size of the struct that a command takes, in bytes.
pub const fn command_size(command: u32) -> usize {
    (command >> 16 & 0x3fff) as usize
}

/// Whether the caller passes a struct to the driver.
pub const fn passes_struct(command: u32) -> bool {
    command >> 30 & 1 != 0
}

/// Whether the driver returns a struct.
pub const fn returns_struct(command: u32) -> bool {
    command >> 31 != 0
}

const _: () = assert!(size_of::<DriverConfig>() == 32);
const _: () = assert!(size_of::<PendingIoctl>() == 48 + STRUCT_LEN_MAX);
const _: () = assert!(size_of::<Ioctl>() == 24 + size_of::<PendingIoctl>() + STRUCT_LEN_MAX);
const _: () = assert!(size_of::<DeviceOpened>() == 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_fields_are_those_of_the_kernel() {
        // AMDKFD_IOC_CREATE_QUEUE: _IOWR('K', 0x02, 88 bytes), as strace prints it.
        let create_queue = 0xc058_4b02;
        assert_eq!(command_type(create_queue), KFD_TYPE);
        assert_eq!((command_number(create_queue), command_size(create_queue)), (2, 88));
        assert!(passes_struct(create_queue) && returns_struct(create_queue));
        // AMDKFD_IOC_GET_VERSION: _IOR('K', 0x01, 8 bytes).
        let get_version = 0x8008_4b01;
        assert!(!passes_struct(get_version) && returns_struct(get_version));
    }

    #[test]
    fn device_numbers_are_the_kernels() {
        assert_eq!(device_number(226, 128), 226 << 20 | 128);
    }
}
