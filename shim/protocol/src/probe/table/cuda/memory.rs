//! Memory: allocated, freed, mapped, migrated, shared.

use super::super::memory::{ALLOCATE, ALLOCATE_FLAGS, FREE, FREE_ARRAY};
use super::super::row::{bytes, device, flags, param, pointer, size, stream};
use crate::probe::Category::Memory;
use crate::probe::{Param, ParamKind, Probe};

const ALLOCATE_ASYNC: &[Param] = &[bytes(1), stream(2)];
const FROM_POOL_ASYNC: &[Param] = &[bytes(1), pointer("pool", 2), stream(3)];
const FREE_ASYNC: &[Param] = &[pointer("ptr", 0), stream(1)];
const RANGE: &[Param] = &[pointer("ptr", 0), bytes(1)];
const PREFETCH: &[Param] = &[pointer("ptr", 0), bytes(1), device(2), stream(3)];
/// The location takes one word.
const PREFETCH_V2: &[Param] = &[pointer("ptr", 0), bytes(1), stream(4)];
const PREFETCH_BATCH: &[Param] = &[size("count", 2), stream(7)];
const DISCARD_BATCH: &[Param] = &[size("count", 2), stream(4)];
const RESOURCES: &[Param] = &[param("count", ParamKind::U32, 0), stream(2)];
const ATTACH: &[Param] = &[stream(0), pointer("ptr", 1), bytes(2), flags(3)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuMemAlloc_v2", Memory, ALLOCATE).out(0),
    Probe::new("cuMemAllocManaged", Memory, ALLOCATE_FLAGS).out(0),
    Probe::new("cuMemAllocPitch_v2", Memory, &[size("width", 2), size("height", 3)]).out(0),
    Probe::new("cuMemFree_v2", Memory, FREE),
    Probe::new("cuMemAllocAsync", Memory, ALLOCATE_ASYNC).out(0),
    Probe::new("cuMemAllocAsync_ptsz", Memory, ALLOCATE_ASYNC).out(0),
    Probe::new("cuMemAllocFromPoolAsync", Memory, FROM_POOL_ASYNC).out(0),
    Probe::new("cuMemAllocFromPoolAsync_ptsz", Memory, FROM_POOL_ASYNC).out(0),
    Probe::new("cuMemFreeAsync", Memory, FREE_ASYNC),
    Probe::new("cuMemFreeAsync_ptsz", Memory, FREE_ASYNC),
    // Host memory that the device can access.
    Probe::new("cuMemAllocHost_v2", Memory, ALLOCATE).out(0),
    Probe::new("cuMemHostAlloc", Memory, ALLOCATE_FLAGS).out(0),
    Probe::new("cuMemFreeHost", Memory, FREE),
    Probe::new("cuMemHostRegister_v2", Memory, &[pointer("ptr", 0), bytes(1), flags(2)]),
    Probe::new("cuMemHostUnregister", Memory, FREE),
    // Arrays.
    Probe::new("cuArrayCreate_v2", Memory, &[]).out(0),
    Probe::new("cuArray3DCreate_v2", Memory, &[]).out(0),
    Probe::new("cuArrayDestroy", Memory, FREE_ARRAY),
    Probe::new("cuMipmappedArrayCreate", Memory, &[]).out(0),
    Probe::new("cuMipmappedArrayDestroy", Memory, FREE_ARRAY),
    // Virtual addresses and the memory behind them.
    Probe::new("cuMemAddressReserve", Memory, ALLOCATE).out(0),
    Probe::new("cuMemAddressFree", Memory, RANGE),
    Probe::new("cuMemCreate", Memory, ALLOCATE).out(0),
    Probe::new("cuMemRelease", Memory, &[pointer("handle", 0)]),
    Probe::new("cuMemMap", Memory, &[pointer("ptr", 0), bytes(1), size("offset", 2), pointer("handle", 3)]),
    Probe::new("cuMemMapArrayAsync", Memory, &[param("count", ParamKind::U32, 1), stream(2)]),
    Probe::new("cuMemMapArrayAsync_ptsz", Memory, &[param("count", ParamKind::U32, 1), stream(2)]),
    Probe::new("cuMemUnmap", Memory, RANGE),
    Probe::new("cuMemSetAccess", Memory, RANGE),
    // Pools.
    Probe::new("cuMemPoolCreate", Memory, &[]).out(0),
    Probe::new("cuMemPoolDestroy", Memory, &[pointer("pool", 0)]),
    Probe::new("cuMemPoolTrimTo", Memory, &[pointer("pool", 0), size("keep_bytes", 1)]),
    Probe::new("cuDeviceGraphMemTrim", Memory, &[device(0)]),
    // Migration.
    Probe::new("cuMemPrefetchAsync", Memory, PREFETCH),
    Probe::new("cuMemPrefetchAsync_ptsz", Memory, PREFETCH),
    Probe::new("cuMemPrefetchAsync_v2", Memory, PREFETCH_V2),
    Probe::new("cuMemPrefetchAsync_v2_ptsz", Memory, PREFETCH_V2),
    Probe::new("cuMemPrefetchBatchAsync", Memory, PREFETCH_BATCH),
    Probe::new("cuMemPrefetchBatchAsync_ptsz", Memory, PREFETCH_BATCH),
    Probe::new("cuMemDiscardBatchAsync", Memory, DISCARD_BATCH),
    Probe::new("cuMemDiscardBatchAsync_ptsz", Memory, DISCARD_BATCH),
    Probe::new("cuMemDiscardAndPrefetchBatchAsync", Memory, PREFETCH_BATCH),
    Probe::new("cuMemDiscardAndPrefetchBatchAsync_ptsz", Memory, PREFETCH_BATCH),
    Probe::new("cuMemAdvise", Memory, &[pointer("ptr", 0), bytes(1), device(3)]),
    Probe::new("cuMemAdvise_v2", Memory, RANGE),
    Probe::new("cuStreamAttachMemAsync", Memory, ATTACH),
    Probe::new("cuStreamAttachMemAsync_ptsz", Memory, ATTACH),
    Probe::new("cuMemBatchDecompressAsync", Memory, &[size("count", 1), stream(4)]),
    Probe::new("cuMemBatchDecompressAsync_ptsz", Memory, &[size("count", 1), stream(4)]),
    // Shared between processes and with other APIs. The handle of 64 bytes is passed on the stack.
    Probe::new("cuIpcGetMemHandle", Memory, &[pointer("ptr", 1)]),
    Probe::new("cuIpcOpenMemHandle_v2", Memory, &[flags(1)]).out(0),
    Probe::new("cuIpcCloseMemHandle", Memory, FREE),
    Probe::new("cuImportExternalMemory", Memory, &[]).out(0),
    Probe::new("cuExternalMemoryGetMappedBuffer", Memory, &[pointer("memory", 1)]).out(0),
    Probe::new("cuDestroyExternalMemory", Memory, &[pointer("memory", 0)]),
    Probe::new("cuGraphicsMapResources", Memory, RESOURCES),
    Probe::new("cuGraphicsMapResources_ptsz", Memory, RESOURCES),
    Probe::new("cuGraphicsUnmapResources", Memory, RESOURCES),
    Probe::new("cuGraphicsUnmapResources_ptsz", Memory, RESOURCES),
];
