//! The bpf(2) calls that aya 0.14 does not offer, or only combined with others.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use aya_obj::generated::{BPF_F_MMAPABLE, bpf_attr, bpf_cmd, bpf_map_info, bpf_map_type};

/// `BPF_MAP_FREEZE`, which aya uses for constants only. It fails while the map is mapped writable anywhere.
pub(super) fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = zeroed();
    attr.__bindgen_anon_2.map_fd = map.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_MAP_FREEZE, &mut attr).map(drop)
}

/// An array of one element that can be mapped into memory.
pub(super) fn create_mappable(value_size: usize) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this is the union's variant for BPF_MAP_CREATE, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_1 };
    fields.map_type = bpf_map_type::BPF_MAP_TYPE_ARRAY as u32;
    fields.key_size = size_of::<u32>() as u32;
    fields.value_size = value_size as u32;
    fields.max_entries = 1;
    fields.map_flags = BPF_F_MMAPABLE;
    let map = bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr)?;
    // SAFETY: the kernel has just created this descriptor for this call, and no other code owns it. It is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(map) })
}

/// The kernel's id of a map.
pub(super) fn id(map: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: the struct is plain data, for which all zeros is a valid value.
    let mut info: bpf_map_info = unsafe { std::mem::zeroed() };
    let mut attr = zeroed();
    attr.info.bpf_fd = map.as_raw_fd() as u32;
    attr.info.info_len = size_of::<bpf_map_info>() as u32;
    attr.info.info = (&raw mut info) as u64;
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(info.id)
}

/// Writes an element of an array. `value` must be as long as the element.
pub(super) fn set<const N: usize>(map: BorrowedFd<'_>, index: u32, value: &[u8; N]) -> io::Result<()> {
    element(bpf_cmd::BPF_MAP_UPDATE_ELEM, map, index, value.as_ptr() as u64).map(drop)
}

/// Puts a map into an array of maps. Programs see it immediately. The call returns some milliseconds later, when all programs
/// have ended that may have seen the old state.
pub(super) fn insert_map(maps: BorrowedFd<'_>, index: u32, map: BorrowedFd<'_>) -> io::Result<()> {
    set(maps, index, &map.as_raw_fd().to_ne_bytes())
}

/// Removes a map from an array of maps. The call takes as long as that of [`insert_map`].
pub(super) fn remove_map(maps: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    element(bpf_cmd::BPF_MAP_DELETE_ELEM, maps, index, 0).map(drop)
}

/// The [`id`] of the map at an index of an array of maps, if there is one.
pub(super) fn id_at(maps: BorrowedFd<'_>, index: u32) -> Option<u32> {
    let mut id = 0_u32;
    element(bpf_cmd::BPF_MAP_LOOKUP_ELEM, maps, index, (&raw mut id) as u64).ok().map(|_| id)
}

fn element(command: bpf_cmd, map: BorrowedFd<'_>, index: u32, value: u64) -> io::Result<libc::c_int> {
    let mut attr = zeroed();
    // SAFETY: this is the union's variant for single elements, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_2 };
    fields.map_fd = map.as_raw_fd() as u32;
    fields.key = (&raw const index) as u64;
    fields.__bindgen_anon_1.value = value;
    bpf(command, &mut attr)
}

fn zeroed() -> bpf_attr {
    // SAFETY: an all zeros bpf_attr is valid, and the kernel requires unused fields to be zero.
    unsafe { std::mem::zeroed() }
}

fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<libc::c_int> {
    // SAFETY: `attr` is a whole bpf_attr, and the callers above keep the memory valid to which it points.
    let outcome =
        unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_int, attr, size_of::<bpf_attr>()) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as libc::c_int) }
}
