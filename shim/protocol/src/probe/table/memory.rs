//! Memory: allocated, freed, mapped, migrated and shared. Freeing waits for the device.

use super::row::{bytes, device, flags, param, pointer, size, stream};
use crate::probe::Category::Memory;
use crate::probe::{Param, ParamKind, Probe};

pub(super) const ALLOCATE: &[Param] = &[bytes(1)];
pub(super) const ALLOCATE_FLAGS: &[Param] = &[bytes(1), flags(2)];
pub(super) const FREE: &[Param] = &[pointer("ptr", 0)];
pub(super) const FREE_ARRAY: &[Param] = &[pointer("array", 0)];
const PITCHED: &[Param] = &[size("width", 2), size("height", 3)];
/// A `hipExtent` by value lies on the stack.
const BOX: &[Param] = &[size("width", 6), size("height", 7), size("depth", 8)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipMalloc", Memory, ALLOCATE).out(0),
    Probe::new("hipExtMallocWithFlags", Memory, ALLOCATE_FLAGS).out(0),
    Probe::new("hipMallocManaged", Memory, ALLOCATE_FLAGS).out(0),
    Probe::new("hipMallocPitch", Memory, PITCHED).out(0),
    Probe::new("hipMemAllocPitch", Memory, PITCHED).out(0),
    Probe::new("hipMalloc3D", Memory, BOX).out(0),
    Probe::new("hipFree", Memory, FREE),
    Probe::new("hipMallocAsync", Memory, &[bytes(1), stream(2)]).out(0),
    Probe::new("hipMallocFromPoolAsync", Memory, &[bytes(1), pointer("pool", 2), stream(3)]).out(0),
    Probe::new("hipFreeAsync", Memory, &[pointer("ptr", 0), stream(1)]),
    // Host memory that the device can access.
    Probe::new("hipHostMalloc", Memory, ALLOCATE_FLAGS).out(0),
    Probe::new("hipHostAlloc", Memory, ALLOCATE_FLAGS).out(0),
    Probe::new("hipExtHostAlloc", Memory, ALLOCATE_FLAGS).out(0),
    Probe::new("hipMallocHost", Memory, ALLOCATE).out(0),
    Probe::new("hipMemAllocHost", Memory, ALLOCATE).out(0),
    Probe::new("hipHostFree", Memory, FREE),
    Probe::new("hipFreeHost", Memory, FREE),
    Probe::new("hipHostRegister", Memory, &[pointer("ptr", 0), bytes(1), flags(2)]),
    Probe::new("hipHostUnregister", Memory, FREE),
    // Arrays.
    Probe::new("hipMallocArray", Memory, PITCHED).out(0),
    Probe::new("hipMalloc3DArray", Memory, BOX).out(0),
    Probe::new("hipArrayCreate", Memory, &[]).out(0),
    Probe::new("hipArray3DCreate", Memory, &[]).out(0),
    Probe::new("hipFreeArray", Memory, FREE_ARRAY),
    Probe::new("hipArrayDestroy", Memory, FREE_ARRAY),
    Probe::new("hipMallocMipmappedArray", Memory, BOX).out(0),
    Probe::new("hipMipmappedArrayCreate", Memory, &[]).out(0),
    Probe::new("hipFreeMipmappedArray", Memory, FREE_ARRAY),
    Probe::new("hipMipmappedArrayDestroy", Memory, FREE_ARRAY),
    // Virtual addresses and the memory behind them.
    Probe::new("hipMemAddressReserve", Memory, ALLOCATE).out(0),
    Probe::new("hipMemAddressFree", Memory, &[pointer("ptr", 0), bytes(1)]),
    Probe::new("hipMemCreate", Memory, ALLOCATE).out(0),
    Probe::new("hipMemRelease", Memory, &[pointer("handle", 0)]),
    Probe::new("hipMemMap", Memory, &[pointer("ptr", 0), bytes(1), size("offset", 2), pointer("handle", 3)]),
    Probe::new("hipMemMapArrayAsync", Memory, &[param("count", ParamKind::U32, 1), stream(2)]),
    Probe::new("hipMemUnmap", Memory, &[pointer("ptr", 0), bytes(1)]),
    Probe::new("hipMemSetAccess", Memory, &[pointer("ptr", 0), bytes(1)]),
    // Pools.
    Probe::new("hipMemPoolCreate", Memory, &[]).out(0),
    Probe::new("hipMemPoolDestroy", Memory, &[pointer("pool", 0)]),
    Probe::new("hipMemPoolTrimTo", Memory, &[pointer("pool", 0), size("keep_bytes", 1)]),
    Probe::new("hipDeviceGraphMemTrim", Memory, &[device(0)]),
    // Migration.
    Probe::new("hipMemPrefetchAsync", Memory, &[pointer("ptr", 0), bytes(1), device(2), stream(3)]),
    Probe::new("hipMemPrefetchAsync_v2", Memory, &[pointer("ptr", 0), bytes(1), stream(4)]),
    Probe::new("hipMemAdvise", Memory, &[pointer("ptr", 0), bytes(1), device(3)]),
    Probe::new("hipMemAdvise_v2", Memory, &[pointer("ptr", 0), bytes(1)]),
    Probe::new(
        "hipStreamAttachMemAsync",
        Memory,
        &[stream(0), pointer("ptr", 1), bytes(2), param("flags", ParamKind::U32, 3)],
    ),
    // Shared between processes and with other APIs.
    Probe::new("hipIpcGetMemHandle", Memory, &[pointer("ptr", 1)]),
    // The handle of 64 bytes is passed on the stack.
    Probe::new("hipIpcOpenMemHandle", Memory, &[flags(1)]).out(0),
    Probe::new("hipIpcCloseMemHandle", Memory, FREE),
    Probe::new("hipImportExternalMemory", Memory, &[]).out(0),
    Probe::new("hipExternalMemoryGetMappedBuffer", Memory, &[pointer("memory", 1)]).out(0),
    Probe::new("hipDestroyExternalMemory", Memory, &[pointer("memory", 0)]),
    Probe::new("hipGraphicsMapResources", Memory, &[param("count", ParamKind::I32, 0), stream(2)]),
    Probe::new("hipGraphicsUnmapResources", Memory, &[param("count", ParamKind::I32, 0), stream(2)]),
];
