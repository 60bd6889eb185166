//! Launches of kernels and graphs.

use super::super::launch::{BY_DRIVER_CONFIG, BY_FUNCTION, GRAPH};
use super::super::row::{kernel, param, stream};
use crate::probe::Category::Launch;
use crate::probe::{Param, ParamKind, Probe};

/// Of CUDA 3: the block is the function's. f, width, height.
const BY_WIDTH: &[Param] =
    &[kernel(0), param("width", ParamKind::I32, 1), param("height", ParamKind::I32, 2)];
const BY_WIDTH_ASYNC: &[Param] =
    &[kernel(0), param("width", ParamKind::I32, 1), param("height", ParamKind::I32, 2), stream(3)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuLaunchKernel", Launch, BY_FUNCTION).vital(),
    Probe::new("cuLaunchKernel_ptsz", Launch, BY_FUNCTION).vital(),
    Probe::new("cuLaunchKernelEx", Launch, BY_DRIVER_CONFIG).pointee(0, 0).vital(),
    Probe::new("cuLaunchKernelEx_ptsz", Launch, BY_DRIVER_CONFIG).pointee(0, 0).vital(),
    Probe::new("cuLaunchCooperativeKernel", Launch, BY_FUNCTION).vital(),
    Probe::new("cuLaunchCooperativeKernel_ptsz", Launch, BY_FUNCTION).vital(),
    Probe::new("cuLaunchCooperativeKernelMultiDevice", Launch, &[param("devices", ParamKind::U32, 1)])
        .vital(),
    Probe::new("cuLaunch", Launch, &[kernel(0)]).vital(),
    Probe::new("cuLaunchGrid", Launch, BY_WIDTH).vital(),
    Probe::new("cuLaunchGridAsync", Launch, BY_WIDTH_ASYNC).vital(),
    Probe::new("cuGraphLaunch", Launch, GRAPH).vital(),
    Probe::new("cuGraphLaunch_ptsz", Launch, GRAPH).vital(),
];
