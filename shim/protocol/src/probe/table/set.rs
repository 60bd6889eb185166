//! Fills of memory.

use super::row::{bytes, dst, field, param, size, stream, value};
use crate::probe::Category::Set;
use crate::probe::{Param, ParamKind, Probe};

const PLAIN: &[Param] = &[dst(0), value(1), bytes(2)];
const PLAIN_ASYNC: &[Param] = &[dst(0), value(1), bytes(2), stream(3)];
pub(super) const COUNT: &[Param] = &[dst(0), value(1), size("count", 2)];
pub(super) const COUNT_ASYNC: &[Param] = &[dst(0), value(1), size("count", 2), stream(3)];

/// dst, pitch, value, width, height.
pub(super) const PITCHED: &[Param] = &[dst(0), value(2), size("width", 3), size("height", 4)];
pub(super) const PITCHED_ASYNC: &[Param] =
    &[dst(0), value(2), size("width", 3), size("height", 4), stream(5)];
/// As [`PITCHED`], with an unsigned value.
pub(super) const PITCHED_U32: &[Param] =
    &[dst(0), param("value", ParamKind::U32, 2), size("width", 3), size("height", 4)];
pub(super) const PITCHED_U32_ASYNC: &[Param] =
    &[dst(0), param("value", ParamKind::U32, 2), size("width", 3), size("height", 4), stream(5)];

/// The pitched pointer takes the first 32 bytes of the stack arguments; the extent follows.
const EXTENT: u16 = 32;
const BOX: &[Param] = &[
    value(0),
    field("width", ParamKind::Size, 0),
    field("height", ParamKind::Size, 8),
    field("depth", ParamKind::Size, 16),
];
const BOX_ASYNC: &[Param] = &[
    value(0),
    field("width", ParamKind::Size, 0),
    field("height", ParamKind::Size, 8),
    field("depth", ParamKind::Size, 16),
    stream(1),
];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipMemset", Set, PLAIN).vital(),
    Probe::new("hipMemset_spt", Set, PLAIN).vital(),
    Probe::new("hipMemsetAsync", Set, PLAIN_ASYNC).vital(),
    Probe::new("hipMemsetAsync_spt", Set, PLAIN_ASYNC).vital(),
    Probe::new("hipMemsetD8", Set, COUNT).vital(),
    Probe::new("hipMemsetD8Async", Set, COUNT_ASYNC).vital(),
    Probe::new("hipMemsetD16", Set, COUNT).vital(),
    Probe::new("hipMemsetD16Async", Set, COUNT_ASYNC).vital(),
    Probe::new("hipMemsetD32", Set, COUNT).vital(),
    Probe::new("hipMemsetD32Async", Set, COUNT_ASYNC).vital(),
    Probe::new("hipMemset2D", Set, PITCHED),
    Probe::new("hipMemset2D_spt", Set, PITCHED),
    Probe::new("hipMemset2DAsync", Set, PITCHED_ASYNC),
    Probe::new("hipMemset2DAsync_spt", Set, PITCHED_ASYNC),
    Probe::new("hipMemsetD2D8", Set, PITCHED),
    Probe::new("hipMemsetD2D8Async", Set, PITCHED_ASYNC),
    Probe::new("hipMemsetD2D16", Set, PITCHED),
    Probe::new("hipMemsetD2D16Async", Set, PITCHED_ASYNC),
    Probe::new("hipMemsetD2D32", Set, PITCHED_U32),
    Probe::new("hipMemsetD2D32Async", Set, PITCHED_U32_ASYNC),
    Probe::new("hipMemset3D", Set, BOX).stack(EXTENT),
    Probe::new("hipMemset3D_spt", Set, BOX).stack(EXTENT),
    Probe::new("hipMemset3DAsync", Set, BOX_ASYNC).stack(EXTENT),
    Probe::new("hipMemset3DAsync_spt", Set, BOX_ASYNC).stack(EXTENT),
];
