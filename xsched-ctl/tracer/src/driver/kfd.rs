//! The commands of `/dev/kfd`. Source:
//! [`linux/kfd_ioctl.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/kfd_ioctl.h) up to Linux 6.18
//! and what has been accepted since. Numbers from 0x80 on are those of AMD's own driver packages.

use super::command::Kind::{Flags, I32, Name, Pointer, U32, U64};
use super::command::{Command, named, passed, returned};

pub(super) const CREATE_QUEUE: u8 = 0x02;

pub(super) const DESTROY_QUEUE: u8 = 0x03;

/// Offset of `queue_id` in `struct kfd_ioctl_create_queue_args`.
pub(super) const CREATE_QUEUE_ID: u8 = 52;

/// Offset of `queue_type` in the same struct.
pub(super) const CREATE_QUEUE_TYPE: u8 = 40;

/// `KFD_IOC_QUEUE_TYPE_*` of queues for kernels; the others are for copies.
pub(super) const COMPUTE_TYPES: [u32; 2] = [0, 2];

const QUEUE_TYPES: &[(u32, &str)] =
    &[(0, "compute"), (1, "SDMA"), (2, "compute AQL"), (3, "SDMA XGMI"), (4, "SDMA by engine")];

const EVENT_TYPES: &[(u32, &str)] = &[
    (0, "signal"),
    (1, "node change"),
    (2, "device state change"),
    (3, "hardware exception"),
    (4, "system event"),
    (5, "debug event"),
    (6, "profile event"),
    (7, "queue event"),
    (8, "memory"),
];

const WAIT_RESULTS: &[(u32, &str)] = &[(0, "complete"), (1, "timeout"), (2, "fail")];

const MEMORY_FLAGS: &[(u32, &str)] = &[
    (1 << 0, "VRAM"),
    (1 << 1, "GTT"),
    (1 << 2, "userptr"),
    (1 << 3, "doorbell"),
    (1 << 4, "MMIO remap"),
    (1 << 23, "contiguous"),
    (1 << 24, "extended coherent"),
    (1 << 25, "uncached"),
    (1 << 26, "coherent"),
    (1 << 27, "AQL queue"),
    (1 << 28, "no substitute"),
    (1 << 29, "public"),
    (1 << 30, "executable"),
    (1 << 31, "writable"),
];

const SVM_OPERATIONS: &[(u32, &str)] = &[(0, "set attributes"), (1, "get attributes")];

const CRIU_OPERATIONS: &[(u32, &str)] =
    &[(0, "process info"), (1, "checkpoint"), (2, "unpause"), (3, "restore"), (4, "resume")];

const DEBUG_OPERATIONS: &[(u32, &str)] = &[
    (0, "enable"),
    (1, "disable"),
    (2, "send runtime event"),
    (3, "set exceptions enabled"),
    (4, "set wave launch override"),
    (5, "set wave launch mode"),
    (6, "suspend queues"),
    (7, "resume queues"),
    (8, "set node address watch"),
    (9, "clear node address watch"),
    (10, "set flags"),
    (11, "query debug event"),
    (12, "query exception info"),
    (13, "get queue snapshot"),
    (14, "get device snapshot"),
];

/// By number.
pub(super) const COMMANDS: &[Command] = &[
    named(0x01, "AMDKFD_IOC_GET_VERSION")
        .with(&[returned("major_version", 0, U32), returned("minor_version", 4, U32)]),
    named(CREATE_QUEUE, "AMDKFD_IOC_CREATE_QUEUE").with(&[
        passed("ring_base_address", 0, Pointer),
        returned("write_pointer_address", 8, Pointer),
        returned("read_pointer_address", 16, Pointer),
        returned("doorbell_offset", 24, Pointer),
        passed("ring_size", 32, U32),
        passed("gpu_id", 36, U32),
        passed("queue_type", CREATE_QUEUE_TYPE, Name(QUEUE_TYPES)),
        passed("queue_percentage", 44, U32),
        passed("queue_priority", 48, U32),
        returned("queue_id", CREATE_QUEUE_ID, U32),
        passed("ctx_save_restore_size", 80, U32),
    ]),
    named(DESTROY_QUEUE, "AMDKFD_IOC_DESTROY_QUEUE").with(&[passed("queue_id", 0, U32)]),
    named(0x04, "AMDKFD_IOC_SET_MEMORY_POLICY")
        .with(&[passed("gpu_id", 16, U32), passed("default_policy", 20, U32)]),
    named(0x05, "AMDKFD_IOC_GET_CLOCK_COUNTERS").with(&[
        returned("gpu_clock_counter", 0, U64),
        returned("system_clock_counter", 16, U64),
        passed("gpu_id", 32, U32),
    ]),
    named(0x06, "AMDKFD_IOC_GET_PROCESS_APERTURES"),
    named(0x07, "AMDKFD_IOC_UPDATE_QUEUE").with(&[
        passed("ring_base_address", 0, Pointer),
        passed("queue_id", 8, U32),
        passed("ring_size", 12, U32),
        passed("queue_percentage", 16, U32),
        passed("queue_priority", 20, U32),
    ]),
    named(0x08, "AMDKFD_IOC_CREATE_EVENT").with(&[
        passed("event_type", 12, Name(EVENT_TYPES)),
        passed("auto_reset", 16, U32),
        returned("event_id", 24, U32),
    ]),
    named(0x09, "AMDKFD_IOC_DESTROY_EVENT").with(&[passed("event_id", 0, U32)]),
    named(0x0a, "AMDKFD_IOC_SET_EVENT").with(&[passed("event_id", 0, U32)]),
    named(0x0b, "AMDKFD_IOC_RESET_EVENT").with(&[passed("event_id", 0, U32)]),
    named(0x0c, "AMDKFD_IOC_WAIT_EVENTS").with(&[
        passed("num_events", 8, U32),
        passed("wait_for_all", 12, U32),
        // Milliseconds; all bits set: forever.
        passed("timeout", 16, U32),
        returned("wait_result", 20, Name(WAIT_RESULTS)),
    ]),
    named(0x0d, "AMDKFD_IOC_DBG_REGISTER_DEPRECATED").with(&[passed("gpu_id", 0, U32)]),
    named(0x0e, "AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED").with(&[passed("gpu_id", 0, U32)]),
    named(0x0f, "AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED").with(&[passed("gpu_id", 8, U32)]),
    named(0x10, "AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED").with(&[passed("gpu_id", 8, U32)]),
    named(0x11, "AMDKFD_IOC_SET_SCRATCH_BACKING_VA")
        .with(&[passed("va_addr", 0, Pointer), passed("gpu_id", 8, U32)]),
    named(0x12, "AMDKFD_IOC_GET_TILE_CONFIG").with(&[passed("gpu_id", 24, U32)]),
    named(0x13, "AMDKFD_IOC_SET_TRAP_HANDLER").with(&[
        passed("tba_addr", 0, Pointer),
        passed("tma_addr", 8, Pointer),
        passed("gpu_id", 16, U32),
    ]),
    named(0x14, "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW").with(&[returned("num_of_nodes", 8, U32)]),
    named(0x15, "AMDKFD_IOC_ACQUIRE_VM").with(&[passed("drm_fd", 0, U32), passed("gpu_id", 4, U32)]),
    named(0x16, "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU").with(&[
        passed("va_addr", 0, Pointer),
        passed("size", 8, U64),
        returned("handle", 16, Pointer),
        passed("gpu_id", 32, U32),
        passed("flags", 36, Flags(MEMORY_FLAGS)),
    ]),
    named(0x17, "AMDKFD_IOC_FREE_MEMORY_OF_GPU").with(&[passed("handle", 0, Pointer)]),
    named(0x18, "AMDKFD_IOC_MAP_MEMORY_TO_GPU").with(&[
        passed("handle", 0, Pointer),
        passed("n_devices", 16, U32),
        returned("n_success", 20, U32),
    ]),
    named(0x19, "AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU").with(&[
        passed("handle", 0, Pointer),
        passed("n_devices", 16, U32),
        returned("n_success", 20, U32),
    ]),
    named(0x1a, "AMDKFD_IOC_SET_CU_MASK").with(&[
        passed("queue_id", 0, U32),
        passed("num_cu_mask", 4, U32),
        passed("cu_mask_ptr", 8, Pointer),
    ]),
    named(0x1b, "AMDKFD_IOC_GET_QUEUE_WAVE_STATE").with(&[
        returned("ctl_stack_used_size", 8, U32),
        returned("save_area_used_size", 12, U32),
        passed("queue_id", 16, U32),
    ]),
    named(0x1c, "AMDKFD_IOC_GET_DMABUF_INFO").with(&[
        returned("size", 0, U64),
        returned("gpu_id", 20, U32),
        returned("flags", 24, Flags(MEMORY_FLAGS)),
        passed("dmabuf_fd", 28, U32),
    ]),
    named(0x1d, "AMDKFD_IOC_IMPORT_DMABUF").with(&[
        passed("va_addr", 0, Pointer),
        returned("handle", 8, Pointer),
        passed("gpu_id", 16, U32),
        passed("dmabuf_fd", 20, U32),
    ]),
    named(0x1e, "AMDKFD_IOC_ALLOC_QUEUE_GWS").with(&[
        passed("queue_id", 0, U32),
        passed("num_gws", 4, U32),
        returned("first_gws", 8, U32),
    ]),
    named(0x1f, "AMDKFD_IOC_SMI_EVENTS").with(&[passed("gpuid", 0, U32), returned("anon_fd", 4, U32)]),
    named(0x20, "AMDKFD_IOC_SVM").with(&[
        passed("start_addr", 0, Pointer),
        passed("size", 8, U64),
        passed("op", 16, Name(SVM_OPERATIONS)),
        passed("nattr", 20, U32),
    ]),
    named(0x21, "AMDKFD_IOC_SET_XNACK_MODE").with(&[passed("xnack_enabled", 0, I32)]),
    named(0x22, "AMDKFD_IOC_CRIU_OP")
        .with(&[passed("pid", 44, U32), passed("op", 48, Name(CRIU_OPERATIONS))]),
    named(0x23, "AMDKFD_IOC_AVAILABLE_MEMORY")
        .with(&[returned("available", 0, U64), passed("gpu_id", 8, U32)]),
    named(0x24, "AMDKFD_IOC_EXPORT_DMABUF")
        .with(&[passed("handle", 0, Pointer), returned("dmabuf_fd", 12, U32)]),
    named(0x25, "AMDKFD_IOC_RUNTIME_ENABLE")
        .with(&[passed("r_debug", 0, Pointer), passed("mode_mask", 8, U32)]),
    named(0x26, "AMDKFD_IOC_DBG_TRAP")
        .with(&[passed("pid", 0, U32), passed("op", 4, Name(DEBUG_OPERATIONS))]),
    named(0x27, "AMDKFD_IOC_CREATE_PROCESS"),
    named(0x28, "AMDKFD_IOC_PROFILER"),
    named(0x80, "AMDKFD_IOC_IPC_IMPORT_HANDLE"),
    named(0x81, "AMDKFD_IOC_IPC_EXPORT_HANDLE"),
    // Every ROCm 5 tries it when it starts; distributions' drivers do not have it.
    named(0x82, "AMDKFD_IOC_DBG_TRAP_DEPRECATED"),
    named(0x83, "AMDKFD_IOC_CROSS_MEMORY_COPY"),
    named(0x84, "AMDKFD_IOC_RLC_SPM"),
    named(0x85, "AMDKFD_IOC_PC_SAMPLE"),
    // Before it had number 0x28.
    named(0x86, "AMDKFD_IOC_PROFILER (0x86)"),
    named(0x87, "AMDKFD_IOC_AIS_OP"),
];
