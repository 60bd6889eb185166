//! Types for the location and accessibility of memory: pools, locations, advice.

use core::ffi::{c_char, c_void};

pub(crate) type hipMemPool_t = *mut c_void;
pub(crate) type hipMemPoolAttr = u32;
pub(crate) type hipMemAccessFlags = u32;
pub(crate) type hipMemoryAdvise = u32;
pub(crate) type hipMemRangeAttribute = u32;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct hipMemLocation {
    pub(crate) r#type: u32,
    pub(crate) id: i32,
}

#[repr(C)]
pub(crate) struct hipMemAccessDesc {
    pub(crate) location: hipMemLocation,
    pub(crate) flags: hipMemAccessFlags,
}

/// The fields after the location are unused, so they are taken as plain words.
#[repr(C)]
#[derive(Default)]
pub(crate) struct hipMemPoolProps {
    pub(crate) allocType: u32,
    pub(crate) handleTypes: u32,
    pub(crate) location: hipMemLocation,
    rest: [u64; 9],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipUUID {
    pub(crate) bytes: [c_char; 16],
}
