//! Copies of memory.

use super::row::{bytes, copy_kind, dst, field, param, pointer, size, src, stream};
use crate::probe::Category::Copy;
use crate::probe::{Param, ParamKind, Probe};

pub(super) const PLAIN: &[Param] = &[dst(0), src(1), bytes(2)];
pub(super) const PLAIN_ASYNC: &[Param] = &[dst(0), src(1), bytes(2), stream(3)];
const KIND: &[Param] = &[dst(0), src(1), bytes(2), copy_kind(3)];
const KIND_ASYNC: &[Param] = &[dst(0), src(1), bytes(2), copy_kind(3), stream(4)];

/// dst, dpitch, src, spitch, width, height, kind.
const PITCHED: &[Param] = &[dst(0), src(2), size("width", 4), size("height", 5), copy_kind(6)];
const PITCHED_ASYNC: &[Param] =
    &[dst(0), src(2), size("width", 4), size("height", 5), copy_kind(6), stream(7)];

/// One side is an array with an offset of two dimensions: dst, dpitch, array, x, y, width, height, kind.
const FROM_ARRAY: &[Param] = &[dst(0), src(2), size("width", 5), size("height", 6), copy_kind(7)];
const FROM_ARRAY_ASYNC: &[Param] =
    &[dst(0), src(2), size("width", 5), size("height", 6), copy_kind(7), stream(8)];
/// Array, x, y, src, spitch, width, height, kind.
const TO_ARRAY: &[Param] = &[dst(0), src(3), size("width", 5), size("height", 6), copy_kind(7)];
const TO_ARRAY_ASYNC: &[Param] =
    &[dst(0), src(3), size("width", 5), size("height", 6), copy_kind(7), stream(8)];

/// symbol, src, bytes, offset, kind.
const TO_SYMBOL: &[Param] = &[pointer("symbol", 0), src(1), bytes(2), size("offset", 3), copy_kind(4)];
const TO_SYMBOL_ASYNC: &[Param] =
    &[pointer("symbol", 0), src(1), bytes(2), size("offset", 3), copy_kind(4), stream(5)];
/// dst, symbol, bytes, offset, kind.
const FROM_SYMBOL: &[Param] = &[dst(0), pointer("symbol", 1), bytes(2), size("offset", 3), copy_kind(4)];
const FROM_SYMBOL_ASYNC: &[Param] =
    &[dst(0), pointer("symbol", 1), bytes(2), size("offset", 3), copy_kind(4), stream(5)];

/// dst, its device, src, its device, bytes.
const PEER: &[Param] = &[
    dst(0),
    param("dst_device", ParamKind::I32, 1),
    src(2),
    param("src_device", ParamKind::I32, 3),
    bytes(4),
];
const PEER_ASYNC: &[Param] = &[
    dst(0),
    param("dst_device", ParamKind::I32, 1),
    src(2),
    param("src_device", ParamKind::I32, 3),
    bytes(4),
    stream(5),
];

// The last 40 bytes of structs, so that no byte beyond them is read.

/// Of the 160 bytes of `hipMemcpy3DParms`: extent at 128, kind at 152.
const BOX_TAIL: u16 = 120;
const BOX: &[Param] = &[
    field("width", ParamKind::Size, 8),
    field("height", ParamKind::Size, 16),
    field("depth", ParamKind::Size, 24),
    field("kind", ParamKind::CopyKind, 32),
];
const BOX_ASYNC: &[Param] = &[
    field("width", ParamKind::Size, 8),
    field("height", ParamKind::Size, 16),
    field("depth", ParamKind::Size, 24),
    field("kind", ParamKind::CopyKind, 32),
    stream(1),
];

/// Of the 128 bytes of `hip_Memcpy2D` and `CUDA_MEMCPY2D`: width in bytes at 112, height at 120.
pub(super) const DRIVER_2D_TAIL: u16 = 88;
pub(super) const DRIVER_2D: &[Param] =
    &[field("width", ParamKind::Size, 24), field("height", ParamKind::Size, 32)];
pub(super) const DRIVER_2D_ASYNC: &[Param] =
    &[field("width", ParamKind::Size, 24), field("height", ParamKind::Size, 32), stream(1)];

/// Of the 184 bytes of `HIP_MEMCPY3D`: width in bytes at 160, height at 168, depth at 176.
const DRIVER_3D_TAIL: u16 = 144;
const DRIVER_3D: &[Param] = &[
    field("width", ParamKind::Size, 16),
    field("height", ParamKind::Size, 24),
    field("depth", ParamKind::Size, 32),
];
const DRIVER_3D_ASYNC: &[Param] = &[
    field("width", ParamKind::Size, 16),
    field("height", ParamKind::Size, 24),
    field("depth", ParamKind::Size, 32),
    stream(1),
];

/// Of the 168 bytes of `hipMemcpy3DPeerParms`: destination device at 136, extent at 144.
const BOX_PEER_TAIL: u16 = 128;
const BOX_PEER: &[Param] = &[
    field("dst_device", ParamKind::I32, 8),
    field("width", ParamKind::Size, 16),
    field("height", ParamKind::Size, 24),
    field("depth", ParamKind::Size, 32),
];
const BOX_PEER_ASYNC: &[Param] = &[
    field("dst_device", ParamKind::I32, 8),
    field("width", ParamKind::Size, 16),
    field("height", ParamKind::Size, 24),
    field("depth", ParamKind::Size, 32),
    stream(1),
];

/// dst, array, offset, bytes; or array, offset, src, bytes.
pub(super) const FROM_LINE: &[Param] = &[dst(0), src(1), bytes(3)];
pub(super) const FROM_LINE_ASYNC: &[Param] = &[dst(0), src(1), bytes(3), stream(4)];
pub(super) const TO_LINE: &[Param] = &[dst(0), src(2), bytes(3)];
pub(super) const TO_LINE_ASYNC: &[Param] = &[dst(0), src(2), bytes(3), stream(4)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipMemcpy", Copy, KIND).vital(),
    Probe::new("hipMemcpy_spt", Copy, KIND).vital(),
    Probe::new("hipMemcpyAsync", Copy, KIND_ASYNC).vital(),
    Probe::new("hipMemcpyAsync_spt", Copy, KIND_ASYNC).vital(),
    Probe::new("hipMemcpyWithStream", Copy, KIND_ASYNC).vital(),
    Probe::new("hipMemcpyHtoD", Copy, PLAIN).vital(),
    Probe::new("hipMemcpyHtoDAsync", Copy, PLAIN_ASYNC).vital(),
    Probe::new("hipMemcpyDtoH", Copy, PLAIN).vital(),
    Probe::new("hipMemcpyDtoHAsync", Copy, PLAIN_ASYNC).vital(),
    Probe::new("hipMemcpyDtoD", Copy, PLAIN).vital(),
    Probe::new("hipMemcpyDtoDAsync", Copy, PLAIN_ASYNC).vital(),
    Probe::new("hipMemcpy2D", Copy, PITCHED),
    Probe::new("hipMemcpy2D_spt", Copy, PITCHED),
    Probe::new("hipMemcpy2DAsync", Copy, PITCHED_ASYNC),
    Probe::new("hipMemcpy2DAsync_spt", Copy, PITCHED_ASYNC),
    Probe::new("hipMemcpy2DFromArray", Copy, FROM_ARRAY),
    Probe::new("hipMemcpy2DFromArray_spt", Copy, FROM_ARRAY),
    Probe::new("hipMemcpy2DFromArrayAsync", Copy, FROM_ARRAY_ASYNC),
    Probe::new("hipMemcpy2DFromArrayAsync_spt", Copy, FROM_ARRAY_ASYNC),
    Probe::new("hipMemcpy2DToArray", Copy, TO_ARRAY),
    Probe::new("hipMemcpy2DToArray_spt", Copy, TO_ARRAY),
    Probe::new("hipMemcpy2DToArrayAsync", Copy, TO_ARRAY_ASYNC),
    Probe::new("hipMemcpy2DToArrayAsync_spt", Copy, TO_ARRAY_ASYNC),
    Probe::new(
        "hipMemcpy2DArrayToArray",
        Copy,
        &[dst(0), src(3), size("width", 6), size("height", 7), copy_kind(8)],
    ),
    Probe::new("hipMemcpy3D", Copy, BOX).pointee(0, BOX_TAIL),
    Probe::new("hipMemcpy3D_spt", Copy, BOX).pointee(0, BOX_TAIL),
    Probe::new("hipMemcpy3DAsync", Copy, BOX_ASYNC).pointee(0, BOX_TAIL),
    Probe::new("hipMemcpy3DAsync_spt", Copy, BOX_ASYNC).pointee(0, BOX_TAIL),
    Probe::new("hipMemcpy3DPeer", Copy, BOX_PEER).pointee(0, BOX_PEER_TAIL),
    Probe::new("hipMemcpy3DPeerAsync", Copy, BOX_PEER_ASYNC).pointee(0, BOX_PEER_TAIL),
    Probe::new("hipMemcpyParam2D", Copy, DRIVER_2D).pointee(0, DRIVER_2D_TAIL),
    Probe::new("hipMemcpyParam2DAsync", Copy, DRIVER_2D_ASYNC).pointee(0, DRIVER_2D_TAIL),
    Probe::new("hipDrvMemcpy2DUnaligned", Copy, DRIVER_2D).pointee(0, DRIVER_2D_TAIL),
    Probe::new("hipDrvMemcpy3D", Copy, DRIVER_3D).pointee(0, DRIVER_3D_TAIL),
    Probe::new("hipDrvMemcpy3DAsync", Copy, DRIVER_3D_ASYNC).pointee(0, DRIVER_3D_TAIL),
    Probe::new("hipMemcpyPeer", Copy, PEER),
    Probe::new("hipMemcpyPeerAsync", Copy, PEER_ASYNC),
    Probe::new("hipMemcpyToSymbol", Copy, TO_SYMBOL),
    Probe::new("hipMemcpyToSymbol_spt", Copy, TO_SYMBOL),
    Probe::new("hipMemcpyToSymbolAsync", Copy, TO_SYMBOL_ASYNC),
    Probe::new("hipMemcpyToSymbolAsync_spt", Copy, TO_SYMBOL_ASYNC),
    Probe::new("hipMemcpyFromSymbol", Copy, FROM_SYMBOL),
    Probe::new("hipMemcpyFromSymbol_spt", Copy, FROM_SYMBOL),
    Probe::new("hipMemcpyFromSymbolAsync", Copy, FROM_SYMBOL_ASYNC),
    Probe::new("hipMemcpyFromSymbolAsync_spt", Copy, FROM_SYMBOL_ASYNC),
    Probe::new("hipMemcpyFromArray", Copy, &[dst(0), src(1), bytes(4), copy_kind(5)]),
    Probe::new("hipMemcpyFromArray_spt", Copy, &[dst(0), src(1), bytes(4), copy_kind(5)]),
    Probe::new("hipMemcpyToArray", Copy, &[dst(0), src(3), bytes(4), copy_kind(5)]),
    Probe::new("hipMemcpyAtoH", Copy, FROM_LINE),
    Probe::new("hipMemcpyAtoHAsync", Copy, FROM_LINE_ASYNC),
    Probe::new("hipMemcpyAtoD", Copy, FROM_LINE),
    Probe::new("hipMemcpyHtoA", Copy, TO_LINE),
    Probe::new("hipMemcpyHtoAAsync", Copy, TO_LINE_ASYNC),
    Probe::new("hipMemcpyDtoA", Copy, TO_LINE),
    Probe::new("hipMemcpyAtoA", Copy, &[dst(0), src(2), bytes(4)]),
    Probe::new("hipMemcpyBatchAsync", Copy, &[size("copies", 3), stream(8)]),
    Probe::new("hipMemcpy3DBatchAsync", Copy, &[size("copies", 0), stream(4)]),
];
