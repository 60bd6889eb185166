//! Copies of memory.

use super::super::copy::{
    DRIVER_2D, DRIVER_2D_ASYNC, DRIVER_2D_TAIL, FROM_LINE, FROM_LINE_ASYNC, PLAIN, PLAIN_ASYNC, TO_LINE,
    TO_LINE_ASYNC,
};
use super::super::row::{bytes, dst, field, size, src, stream};
use crate::probe::Category::Copy;
use crate::probe::{Param, ParamKind, Probe};

/// dst, its context, src, its context, bytes.
const PEER: &[Param] = &[dst(0), src(2), bytes(4)];
const PEER_ASYNC: &[Param] = &[dst(0), src(2), bytes(4), stream(5)];

/// Of the 200 bytes of `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`: width in bytes at 176, height at 184, depth at 192.
const BOX_TAIL: u16 = 160;
const BOX: &[Param] = &[
    field("width", ParamKind::Size, 16),
    field("height", ParamKind::Size, 24),
    field("depth", ParamKind::Size, 32),
];
const BOX_ASYNC: &[Param] = &[
    field("width", ParamKind::Size, 16),
    field("height", ParamKind::Size, 24),
    field("depth", ParamKind::Size, 32),
    stream(1),
];

const BATCH: &[Param] = &[size("copies", 3), stream(8)];
const BATCH_V2: &[Param] = &[size("copies", 3), stream(7)];
const BATCH_3D: &[Param] = &[size("copies", 0), stream(4)];
const BATCH_3D_V2: &[Param] = &[size("copies", 0), stream(3)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuMemcpy", Copy, PLAIN).vital(),
    Probe::new("cuMemcpy_ptds", Copy, PLAIN).vital(),
    Probe::new("cuMemcpyAsync", Copy, PLAIN_ASYNC).vital(),
    Probe::new("cuMemcpyAsync_ptsz", Copy, PLAIN_ASYNC).vital(),
    Probe::new("cuMemcpyHtoD_v2", Copy, PLAIN).vital(),
    Probe::new("cuMemcpyHtoD_v2_ptds", Copy, PLAIN).vital(),
    Probe::new("cuMemcpyHtoDAsync_v2", Copy, PLAIN_ASYNC).vital(),
    Probe::new("cuMemcpyHtoDAsync_v2_ptsz", Copy, PLAIN_ASYNC).vital(),
    Probe::new("cuMemcpyDtoH_v2", Copy, PLAIN).vital(),
    Probe::new("cuMemcpyDtoH_v2_ptds", Copy, PLAIN).vital(),
    Probe::new("cuMemcpyDtoHAsync_v2", Copy, PLAIN_ASYNC).vital(),
    Probe::new("cuMemcpyDtoHAsync_v2_ptsz", Copy, PLAIN_ASYNC).vital(),
    Probe::new("cuMemcpyDtoD_v2", Copy, PLAIN).vital(),
    Probe::new("cuMemcpyDtoD_v2_ptds", Copy, PLAIN).vital(),
    Probe::new("cuMemcpyDtoDAsync_v2", Copy, PLAIN_ASYNC).vital(),
    Probe::new("cuMemcpyDtoDAsync_v2_ptsz", Copy, PLAIN_ASYNC).vital(),
    Probe::new("cuMemcpyPeer", Copy, PEER),
    Probe::new("cuMemcpyPeer_ptds", Copy, PEER),
    Probe::new("cuMemcpyPeerAsync", Copy, PEER_ASYNC),
    Probe::new("cuMemcpyPeerAsync_ptsz", Copy, PEER_ASYNC),
    Probe::new("cuMemcpy2D_v2", Copy, DRIVER_2D).pointee(0, DRIVER_2D_TAIL),
    Probe::new("cuMemcpy2D_v2_ptds", Copy, DRIVER_2D).pointee(0, DRIVER_2D_TAIL),
    Probe::new("cuMemcpy2DUnaligned_v2", Copy, DRIVER_2D).pointee(0, DRIVER_2D_TAIL),
    Probe::new("cuMemcpy2DUnaligned_v2_ptds", Copy, DRIVER_2D).pointee(0, DRIVER_2D_TAIL),
    Probe::new("cuMemcpy2DAsync_v2", Copy, DRIVER_2D_ASYNC).pointee(0, DRIVER_2D_TAIL),
    Probe::new("cuMemcpy2DAsync_v2_ptsz", Copy, DRIVER_2D_ASYNC).pointee(0, DRIVER_2D_TAIL),
    Probe::new("cuMemcpy3D_v2", Copy, BOX).pointee(0, BOX_TAIL),
    Probe::new("cuMemcpy3D_v2_ptds", Copy, BOX).pointee(0, BOX_TAIL),
    Probe::new("cuMemcpy3DAsync_v2", Copy, BOX_ASYNC).pointee(0, BOX_TAIL),
    Probe::new("cuMemcpy3DAsync_v2_ptsz", Copy, BOX_ASYNC).pointee(0, BOX_TAIL),
    Probe::new("cuMemcpy3DPeer", Copy, BOX).pointee(0, BOX_TAIL),
    Probe::new("cuMemcpy3DPeer_ptds", Copy, BOX).pointee(0, BOX_TAIL),
    Probe::new("cuMemcpy3DPeerAsync", Copy, BOX_ASYNC).pointee(0, BOX_TAIL),
    Probe::new("cuMemcpy3DPeerAsync_ptsz", Copy, BOX_ASYNC).pointee(0, BOX_TAIL),
    Probe::new("cuMemcpyAtoH_v2", Copy, FROM_LINE),
    Probe::new("cuMemcpyAtoH_v2_ptds", Copy, FROM_LINE),
    Probe::new("cuMemcpyAtoHAsync_v2", Copy, FROM_LINE_ASYNC),
    Probe::new("cuMemcpyAtoHAsync_v2_ptsz", Copy, FROM_LINE_ASYNC),
    Probe::new("cuMemcpyAtoD_v2", Copy, FROM_LINE),
    Probe::new("cuMemcpyAtoD_v2_ptds", Copy, FROM_LINE),
    Probe::new("cuMemcpyHtoA_v2", Copy, TO_LINE),
    Probe::new("cuMemcpyHtoA_v2_ptds", Copy, TO_LINE),
    Probe::new("cuMemcpyHtoAAsync_v2", Copy, TO_LINE_ASYNC),
    Probe::new("cuMemcpyHtoAAsync_v2_ptsz", Copy, TO_LINE_ASYNC),
    Probe::new("cuMemcpyDtoA_v2", Copy, TO_LINE),
    Probe::new("cuMemcpyDtoA_v2_ptds", Copy, TO_LINE),
    Probe::new("cuMemcpyAtoA_v2", Copy, PEER),
    Probe::new("cuMemcpyAtoA_v2_ptds", Copy, PEER),
    Probe::new("cuMemcpyBatchAsync", Copy, BATCH),
    Probe::new("cuMemcpyBatchAsync_ptsz", Copy, BATCH),
    Probe::new("cuMemcpyBatchAsync_v2", Copy, BATCH_V2),
    Probe::new("cuMemcpyBatchAsync_v2_ptsz", Copy, BATCH_V2),
    Probe::new("cuMemcpy3DBatchAsync", Copy, BATCH_3D),
    Probe::new("cuMemcpy3DBatchAsync_ptsz", Copy, BATCH_3D),
    Probe::new("cuMemcpy3DBatchAsync_v2", Copy, BATCH_3D_V2),
    Probe::new("cuMemcpy3DBatchAsync_v2_ptsz", Copy, BATCH_3D_V2),
];
