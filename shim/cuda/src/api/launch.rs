//! Launches of kernels as their calls describe them, and CUDA's structures for that.

use std::mem::MaybeUninit;
use std::{ptr, slice};

use crate::api::{Handle, Named, Pointer};

/// `CUlaunchConfig`
#[repr(C)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) stream: Handle,
    pub(crate) attributes: *const LaunchAttribute,
    pub(crate) count: u32,
}

/// `CUlaunchAttribute`. What the program has not set of its value may be anything.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchAttribute {
    id: u32,
    padding: MaybeUninit<u32>,
    value: MaybeUninit<[u64; 8]>,
}

const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<LaunchAttribute>() == 72);

impl LaunchAttribute {
    /// Its number, and its value if that is one: neither an event, which others may ask for before the launch, nor a place for an
    /// answer.
    pub(crate) fn value(&self) -> Option<(u32, &[u8])> {
        let size = match self.id {
            // IGNORE
            0 => 0,
            // ACCESS_POLICY_WINDOW
            1 => 28,
            // COOPERATIVE, SYNCHRONIZATION_POLICY, CLUSTER_SCHEDULING_POLICY_PREFERENCE, PROGRAMMATIC_STREAM_SERIALIZATION, PRIORITY,
            // MEM_SYNC_DOMAIN, PREFERRED_SHARED_MEMORY_CARVEOUT, NVLINK_UTIL_CENTRIC_SCHEDULING
            2 | 3 | 5 | 6 | 8 | 10 | 14 | 16 => 4,
            // CLUSTER_DIMENSION, PREFERRED_CLUSTER_DIMENSION
            4 | 11 => 12,
            // MEM_SYNC_DOMAIN_MAP
            9 => 2,
            // Those of newer releases, too.
            _ => return None,
        };
        // SAFETY: a program sets as much of the value as the attribute has; 64 bytes are there.
        Some((self.id, unsafe { slice::from_raw_parts(self.value.as_ptr().cast(), size) }))
    }
}

/// Grid, block, and bytes of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

/// A launch of a kernel. Pointers are the caller's, for as long as the call lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Or a kernel of a library.
    pub(crate) function: usize,
    pub(crate) shape: Shape,
    attributes: *const LaunchAttribute,
    count: u32,
    /// Addresses of the parameters, or null.
    pub(crate) parameters: *const *const u8,
    /// All parameters in one buffer, as a list of keys and pointers, or null.
    pub(crate) extra: *const *const u8,
    pub(crate) is_cooperative: bool,
}

impl Launch {
    /// Its attributes.
    ///
    /// # Safety
    /// The call from which it was made has not returned.
    pub(crate) unsafe fn attributes(&self) -> &[LaunchAttribute] {
        if self.attributes.is_null() {
            return &[];
        }
        // SAFETY: the caller of CUDA passes as many as it says.
        unsafe { slice::from_raw_parts(self.attributes, self.count as usize) }
    }
}

/// A launch with nothing special.
pub(crate) fn plain(
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    parameters: Pointer,
    extra: Pointer,
) -> Launch {
    Launch {
        function: function.expose_provenance(),
        shape: Shape { grid, block, shared },
        attributes: ptr::null(),
        count: 0,
        parameters: parameters.cast_const().cast(),
        extra: extra.cast_const().cast(),
        is_cooperative: false,
    }
}

/// A launch whose blocks wait for each other.
pub(crate) fn cooperative(
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    parameters: Pointer,
) -> Launch {
    Launch { is_cooperative: true, ..plain(function, grid, block, shared, parameters, ptr::null_mut()) }
}

/// A configured launch. Without a configuration, which the driver refuses, it has no blocks.
///
/// # Safety
/// The configuration is null or valid.
pub(crate) unsafe fn launch_of(
    config: *const LaunchConfig,
    function: Handle,
    parameters: Pointer,
    extra: Pointer,
) -> Launch {
    // SAFETY: the caller's promise.
    match unsafe { config.as_ref() } {
        Some(&LaunchConfig { grid, block, shared, attributes, count, .. }) => {
            Launch { attributes, count, ..plain(function, grid, block, shared, parameters, extra) }
        }
        None => plain(function, [0; 3], [0; 3], 0, parameters, extra),
    }
}

/// The stream of a configured launch, by `stream` or `own`.
///
/// # Safety
/// The configuration is null or valid.
pub(crate) unsafe fn configured(config: *const LaunchConfig, named: fn(Handle) -> Named) -> Named {
    // SAFETY: the caller's promise.
    named(unsafe { config.as_ref() }.map_or(ptr::null_mut(), |config| config.stream))
}
