//! Fills of memory.

use super::super::row::{dst, param, size, stream};
use super::super::set::{COUNT, COUNT_ASYNC, PITCHED, PITCHED_ASYNC, PITCHED_U32, PITCHED_U32_ASYNC};
use crate::probe::Category::Set;
use crate::probe::{Param, ParamKind, Probe};

/// As `COUNT`, with an unsigned value.
const COUNT_U32: &[Param] = &[dst(0), param("value", ParamKind::U32, 1), size("count", 2)];
const COUNT_U32_ASYNC: &[Param] = &[dst(0), param("value", ParamKind::U32, 1), size("count", 2), stream(3)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuMemsetD8_v2", Set, COUNT).vital(),
    Probe::new("cuMemsetD8_v2_ptds", Set, COUNT).vital(),
    Probe::new("cuMemsetD8Async", Set, COUNT_ASYNC).vital(),
    Probe::new("cuMemsetD8Async_ptsz", Set, COUNT_ASYNC).vital(),
    Probe::new("cuMemsetD16_v2", Set, COUNT).vital(),
    Probe::new("cuMemsetD16_v2_ptds", Set, COUNT).vital(),
    Probe::new("cuMemsetD16Async", Set, COUNT_ASYNC).vital(),
    Probe::new("cuMemsetD16Async_ptsz", Set, COUNT_ASYNC).vital(),
    Probe::new("cuMemsetD32_v2", Set, COUNT_U32).vital(),
    Probe::new("cuMemsetD32_v2_ptds", Set, COUNT_U32).vital(),
    Probe::new("cuMemsetD32Async", Set, COUNT_U32_ASYNC).vital(),
    Probe::new("cuMemsetD32Async_ptsz", Set, COUNT_U32_ASYNC).vital(),
    Probe::new("cuMemsetD2D8_v2", Set, PITCHED),
    Probe::new("cuMemsetD2D8_v2_ptds", Set, PITCHED),
    Probe::new("cuMemsetD2D8Async", Set, PITCHED_ASYNC),
    Probe::new("cuMemsetD2D8Async_ptsz", Set, PITCHED_ASYNC),
    Probe::new("cuMemsetD2D16_v2", Set, PITCHED),
    Probe::new("cuMemsetD2D16_v2_ptds", Set, PITCHED),
    Probe::new("cuMemsetD2D16Async", Set, PITCHED_ASYNC),
    Probe::new("cuMemsetD2D16Async_ptsz", Set, PITCHED_ASYNC),
    Probe::new("cuMemsetD2D32_v2", Set, PITCHED_U32),
    Probe::new("cuMemsetD2D32_v2_ptds", Set, PITCHED_U32),
    Probe::new("cuMemsetD2D32Async", Set, PITCHED_U32_ASYNC),
    Probe::new("cuMemsetD2D32Async_ptsz", Set, PITCHED_U32_ASYNC),
];
