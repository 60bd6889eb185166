//! The bpf(2) calls that aya 0.14 does not make, or not without more than is wanted here.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use aya_obj::generated::{BPF_F_MMAPABLE, bpf_attr, bpf_cmd, bpf_map_info, bpf_map_type};

/// `BPF_MAP_FREEZE`, which aya does for constants only. It fails while somebody has the map mapped to write.
pub(super) fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = zeroed();
    attr.__bindgen_anon_2.map_fd = map.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_MAP_FREEZE, &mut attr).map(drop)
}

/// An array of one element that can be mapped into memory.
pub(super) fn create_mappable(value_size: usize) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of BPF_MAP_CREATE, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_1 };
    fields.map_type = bpf_map_type::BPF_MAP_TYPE_ARRAY as u32;
    fields.key_size = size_of::<u32>() as u32;
    fields.value_size = value_size as u32;
    fields.max_entries = 1;
    fields.map_flags = BPF_F_MMAPABLE;
    let map = bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr)?;
    // SAFETY: the kernel has just made this descriptor for us; it is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(map) })
}

/// The number by which the kernel knows a map.
pub(super) fn id(map: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: plain data, of which all-zero is valid.
    let mut info: bpf_map_info = unsafe { std::mem::zeroed() };
    let mut attr = zeroed();
    attr.info.bpf_fd = map.as_raw_fd() as u32;
    attr.info.info_len = size_of::<bpf_map_info>() as u32;
    attr.info.info = (&raw mut info) as u64;
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(info.id)
}

/// Writes an element of an array: its first bytes are these, the others zero. Nobody else may have it yet.
pub(super) fn set<const N: usize>(map: BorrowedFd<'_>, index: u32, value: &[u8; N]) -> io::Result<()> {
    element(bpf_cmd::BPF_MAP_UPDATE_ELEM, map, index, value.as_ptr() as u64).map(drop)
}

/// Puts a map at a place in an array of maps. Programs see it at once; the call itself returns when all have ended that may
/// have seen what was there before, which takes the kernel some milliseconds.
pub(super) fn put(maps: BorrowedFd<'_>, index: u32, map: BorrowedFd<'_>) -> io::Result<()> {
    set(maps, index, &map.as_raw_fd().to_ne_bytes())
}

/// Leaves a place in an array of maps empty. It takes as long.
pub(super) fn take_out(maps: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    element(bpf_cmd::BPF_MAP_DELETE_ELEM, maps, index, 0).map(drop)
}

/// The [`id`] of the map at a place in an array of maps, if one is there.
pub(super) fn id_at(maps: BorrowedFd<'_>, index: u32) -> Option<u32> {
    let mut id = 0_u32;
    element(bpf_cmd::BPF_MAP_LOOKUP_ELEM, maps, index, (&raw mut id) as u64).ok().map(|_| id)
}

fn element(command: bpf_cmd, map: BorrowedFd<'_>, index: u32, value: u64) -> io::Result<libc::c_int> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of single elements; every field of it is plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_2 };
    fields.map_fd = map.as_raw_fd() as u32;
    fields.key = (&raw const index) as u64;
    fields.__bindgen_anon_1.value = value;
    bpf(command, &mut attr)
}

fn zeroed() -> bpf_attr {
    // SAFETY: an all-zero bpf_attr is valid, and the kernel requires unused fields to be zero.
    unsafe { std::mem::zeroed() }
}

fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<libc::c_int> {
    // SAFETY: `attr` is a whole bpf_attr; the callers above see to what it points to.
    let outcome =
        unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_int, attr, size_of::<bpf_attr>()) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as libc::c_int) }
}
