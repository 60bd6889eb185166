//! What the thunk and the driver exchange: numbers of requests, and their arguments.
//!
//! The layouts are those of Linux's [`kfd_ioctl.h`](https://github.com/torvalds/linux/blob/master/include/uapi/linux/kfd_ioctl.h).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The letter of KFD's requests, and of DRM's.
pub(crate) const KFD: u32 = b'K' as u32;
pub(crate) const DRM: u32 = b'd' as u32;

/// Version of the interface. From 13 on, the runtime hands its queues' errors to the debugger's interface, from 14 on it waits for
/// ages of events: neither is here.
pub(crate) const VERSION: [u32; 2] = [1, 12];

/// The GPU's number: `sys/…/nodes/1/gpu_id` has the same.
pub(crate) const GPU_ID: u32 = 0x9000;

/// Where flat addresses are group memory and private memory: the driver's choice for gfx9.
pub(crate) const GROUP_BASE: u64 = 1 << 48;
pub(crate) const PRIVATE_BASE: u64 = 2 << 48;

/// KFD's requests by number.
pub(crate) mod number {
    pub(crate) const GET_VERSION: u32 = 0x01;
    pub(crate) const CREATE_QUEUE: u32 = 0x02;
    pub(crate) const DESTROY_QUEUE: u32 = 0x03;
    pub(crate) const SET_MEMORY_POLICY: u32 = 0x04;
    pub(crate) const GET_CLOCK_COUNTERS: u32 = 0x05;
    pub(crate) const UPDATE_QUEUE: u32 = 0x07;
    pub(crate) const CREATE_EVENT: u32 = 0x08;
    pub(crate) const DESTROY_EVENT: u32 = 0x09;
    pub(crate) const SET_EVENT: u32 = 0x0a;
    pub(crate) const RESET_EVENT: u32 = 0x0b;
    pub(crate) const WAIT_EVENTS: u32 = 0x0c;
    pub(crate) const SET_SCRATCH_BACKING: u32 = 0x11;
    pub(crate) const GET_TILE_CONFIG: u32 = 0x12;
    pub(crate) const SET_TRAP_HANDLER: u32 = 0x13;
    pub(crate) const GET_APERTURES: u32 = 0x14;
    pub(crate) const ACQUIRE_VM: u32 = 0x15;
    pub(crate) const ALLOC_MEMORY: u32 = 0x16;
    pub(crate) const FREE_MEMORY: u32 = 0x17;
    pub(crate) const MAP_MEMORY: u32 = 0x18;
    pub(crate) const UNMAP_MEMORY: u32 = 0x19;
    pub(crate) const SET_CU_MASK: u32 = 0x1a;
    pub(crate) const SET_XNACK_MODE: u32 = 0x21;
    pub(crate) const AVAILABLE_MEMORY: u32 = 0x23;
}

/// Derives what all of these structures are: plain numbers without padding.
macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* }
    )*};
}

arguments! {
    Version { major: u32, minor: u32 }
    CreateQueue {
        ring_base: u64,
        write_pointer: u64,
        read_pointer: u64,
        doorbell_offset: u64,
        ring_size: u32,
        gpu_id: u32,
        queue_type: u32,
        percentage: u32,
        priority: u32,
        queue_id: u32,
        eop_buffer: u64,
        eop_buffer_size: u64,
        save_area: u64,
        save_area_size: u32,
        control_stack_size: u32,
    }
    /// A queue or an event.
    Id { id: u32, pad: u32 }
    UpdateQueue {
        ring_base: u64,
        queue_id: u32,
        ring_size: u32,
        percentage: u32,
        priority: u32,
    }
    ClockCounters { gpu: u64, cpu: u64, system: u64, system_frequency: u64, gpu_id: u32, pad: u32 }
    CreateEvent {
        page_offset: u64,
        trigger_data: u32,
        event_type: u32,
        auto_reset: u32,
        node_id: u32,
        event_id: u32,
        slot_index: u32,
    }
    WaitEvents { events: u64, count: u32, for_all: u32, timeout_ms: u32, result: u32 }
    /// One event of a wait. `data` is what kind of memory exception it was: not present, read only, not executable, imprecise; then
    /// the address, the GPU and the type of the error.
    EventData { failure: [u32; 4], address: u64, gpu_id: u32, error_type: u32, extension: u64, event_id: u32, pad: u32 }
    Apertures {
        group_base: u64,
        group_limit: u64,
        private_base: u64,
        private_limit: u64,
        gpuvm_base: u64,
        gpuvm_limit: u64,
        gpu_id: u32,
        pad: u32,
    }
    GetApertures { apertures: u64, count: u32, pad: u32 }
    AllocMemory { address: u64, size: u64, handle: u64, mmap_offset: u64, gpu_id: u32, flags: u32 }
    Handle { handle: u64 }
    MapMemory { handle: u64, devices: u64, device_count: u32, success_count: u32 }
    XnackMode { enabled: i32 }
    AvailableMemory { available: u64, gpu_id: u32, pad: u32 }
    TileConfig {
        tiles: u64,
        macro_tiles: u64,
        tile_count: u32,
        macro_tile_count: u32,
        gpu_id: u32,
        address_config: u32,
        banks: u32,
        ranks: u32,
    }
    /// `drm_version`: three lengths with the addresses of their texts.
    DrmVersion {
        major: i32,
        minor: i32,
        patch: i32,
        pad: u32,
        name_length: u64,
        name: u64,
        date_length: u64,
        date: u64,
        description_length: u64,
        description: u64,
    }
    /// `drm_amdgpu_info`: where the answer goes, and what was asked.
    DrmInfo { answer: u64, size: u32, query: u32, details: [u32; 4] }
}

/// Kinds of memory in `AllocMemory::flags`.
pub(crate) mod memory {
    pub(crate) const VRAM: u32 = 1 << 0;
    pub(crate) const USERPTR: u32 = 1 << 2;
    pub(crate) const DOORBELL: u32 = 1 << 3;
}

/// Types of queues and events that are told apart.
pub(crate) const QUEUE_AQL: u32 = 2;
pub(crate) const EVENT_SIGNAL: u32 = 0;
pub(crate) const EVENT_MEMORY: u32 = 8;

/// The offsets by which the thunk maps what it was given. No file is as large, so they tell these mappings from others.
pub(crate) const OFFSET_KIND: u64 = 0xfff << 48;
pub(crate) const OFFSET_MEMORY: u64 = 0x4b4 << 48;
pub(crate) const OFFSET_DOORBELLS: u64 = 0x4b5 << 48;

/// The page of doorbells: 1,024 of 8 bytes.
pub(crate) const DOORBELL_BYTES: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_sizes_of_linux() {
        assert_eq!(size_of::<CreateQueue>(), 88);
        assert_eq!(size_of::<CreateEvent>(), 32);
        assert_eq!(size_of::<EventData>(), 48);
        assert_eq!(size_of::<Apertures>(), 56);
        assert_eq!(size_of::<AllocMemory>(), 40);
        assert_eq!(size_of::<DrmVersion>(), 64);
        assert_eq!(size_of::<DrmInfo>(), 32);
    }

    #[test]
    fn the_folder_of_the_topology_names_the_same_gpu() {
        let text = include_str!("../sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id");
        assert_eq!(text.trim().parse(), Ok(GPU_ID));
    }
}
