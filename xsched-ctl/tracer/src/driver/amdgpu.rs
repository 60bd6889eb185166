//! amdgpu's own commands of `/dev/dri/*`. Source:
//! [`drm/amdgpu_drm.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/drm/amdgpu_drm.h) up to Linux 6.18.
//! Numbers are relative to `DRM_COMMAND_BASE`.

use super::command::Kind::{Flags, I32, Name, Pointer, U32, U64};
use super::command::{Command, named, passed, returned};

const DOMAINS: &[(u32, &str)] = &[
    (1 << 0, "CPU"),
    (1 << 1, "GTT"),
    (1 << 2, "VRAM"),
    (1 << 3, "GDS"),
    (1 << 4, "GWS"),
    (1 << 5, "OA"),
    (1 << 6, "doorbell"),
    (1 << 7, "MMIO remap"),
];

const CONTEXT_OPERATIONS: &[(u32, &str)] = &[
    (1, "allocate"),
    (2, "free"),
    (3, "query state"),
    (4, "query state 2"),
    (5, "get stable pstate"),
    (6, "set stable pstate"),
];

const LIST_OPERATIONS: &[(u32, &str)] = &[(0, "create"), (1, "destroy"), (2, "update")];

const VA_OPERATIONS: &[(u32, &str)] = &[(1, "map"), (2, "unmap"), (3, "clear"), (4, "replace")];

const ENGINES: &[(u32, &str)] = &[
    (0, "GFX"),
    (1, "compute"),
    (2, "DMA"),
    (3, "UVD"),
    (4, "VCE"),
    (5, "UVD encode"),
    (6, "VCN decode"),
    (7, "VCN encode"),
    (8, "VCN JPEG"),
    (9, "VPE"),
];

const QUEUE_OPERATIONS: &[(u32, &str)] = &[(1, "create"), (2, "free")];

/// By number.
pub(super) const COMMANDS: &[Command] = &[
    named(0x00, "DRM_AMDGPU_GEM_CREATE").with(&[
        passed("bo_size", 0, U64),
        passed("alignment", 8, U64),
        // A field of 64 bits, of which the lower half is used.
        passed("domains", 16, Flags(DOMAINS)),
        passed("domain_flags", 24, Pointer),
        returned("handle", 0, U32),
    ]),
    named(0x01, "DRM_AMDGPU_GEM_MMAP").with(&[passed("handle", 0, U32)]),
    named(0x02, "DRM_AMDGPU_CTX").with(&[
        passed("op", 0, Name(CONTEXT_OPERATIONS)),
        passed("flags", 4, U32),
        passed("ctx_id", 8, U32),
        passed("priority", 12, I32),
    ]),
    named(0x03, "DRM_AMDGPU_BO_LIST")
        .with(&[passed("operation", 0, Name(LIST_OPERATIONS)), passed("bo_number", 8, U32)]),
    named(0x04, "DRM_AMDGPU_CS").with(&[
        passed("ctx_id", 0, U32),
        passed("bo_list_handle", 4, U32),
        passed("num_chunks", 8, U32),
        returned("handle", 0, U64),
    ]),
    named(0x05, "DRM_AMDGPU_INFO").with(&[passed("return_size", 8, U32), passed("query", 12, U32)]),
    named(0x06, "DRM_AMDGPU_GEM_METADATA").with(&[passed("handle", 0, U32), passed("op", 4, U32)]),
    named(0x07, "DRM_AMDGPU_GEM_WAIT_IDLE").with(&[
        passed("handle", 0, U32),
        passed("timeout", 8, U64),
        returned("status", 0, U32),
        returned("domain", 4, Flags(DOMAINS)),
    ]),
    named(0x08, "DRM_AMDGPU_GEM_VA").with(&[
        passed("handle", 0, U32),
        passed("operation", 8, Name(VA_OPERATIONS)),
        passed("flags", 12, U32),
        passed("va_address", 16, Pointer),
        passed("offset_in_bo", 24, U64),
        passed("map_size", 32, U64),
    ]),
    named(0x09, "DRM_AMDGPU_WAIT_CS").with(&[
        passed("handle", 0, U64),
        passed("timeout", 8, U64),
        passed("ip_type", 16, Name(ENGINES)),
        passed("ring", 24, U32),
        passed("ctx_id", 28, U32),
        returned("status", 0, U64),
    ]),
    named(0x10, "DRM_AMDGPU_GEM_OP").with(&[passed("handle", 0, U32), passed("op", 4, U32)]),
    named(0x11, "DRM_AMDGPU_GEM_USERPTR").with(&[
        passed("addr", 0, Pointer),
        passed("size", 8, U64),
        passed("flags", 16, U32),
        returned("handle", 20, U32),
    ]),
    named(0x12, "DRM_AMDGPU_WAIT_FENCES").with(&[
        passed("fence_count", 8, U32),
        passed("wait_all", 12, U32),
        passed("timeout_ns", 16, U64),
        returned("status", 0, U32),
    ]),
    named(0x13, "DRM_AMDGPU_VM").with(&[passed("op", 0, U32), passed("flags", 4, U32)]),
    named(0x14, "DRM_AMDGPU_FENCE_TO_HANDLE"),
    named(0x15, "DRM_AMDGPU_SCHED").with(&[
        passed("op", 0, U32),
        passed("fd", 4, U32),
        passed("priority", 8, I32),
        passed("ctx_id", 12, U32),
    ]),
    named(0x16, "DRM_AMDGPU_USERQ").with(&[
        passed("op", 0, Name(QUEUE_OPERATIONS)),
        passed("queue_id", 4, U32),
        passed("ip_type", 8, Name(ENGINES)),
        passed("flags", 20, U32),
        passed("queue_va", 24, Pointer),
        passed("queue_size", 32, U64),
    ]),
    named(0x17, "DRM_AMDGPU_USERQ_SIGNAL"),
    named(0x18, "DRM_AMDGPU_USERQ_WAIT"),
    named(0x19, "DRM_AMDGPU_GEM_LIST_HANDLES"),
];
