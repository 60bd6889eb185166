//! Launches of kernels and graphs.

use super::row::{field, kernel, param, pointer, stream};
use crate::probe::Category::Launch;
use crate::probe::{Param, ParamKind, Probe};

/// f, dim3 grid, dim3 block, args, shared memory, stream: the `dim3` take two words each.
const BY_HANDLE: &[Param] = &[
    kernel(0),
    param("grid", ParamKind::Dim3, 1),
    param("block", ParamKind::Dim3, 3),
    param("shared_bytes", ParamKind::Size, 6),
    stream(7),
];

/// As [`BY_HANDLE`], with `unsigned int` shared memory.
const COOPERATIVE: &[Param] = &[
    kernel(0),
    param("grid", ParamKind::Dim3, 1),
    param("block", ParamKind::Dim3, 3),
    param("shared_bytes", ParamKind::U32, 6),
    stream(7),
];

/// f, grid x y z, block x y z, shared memory, stream.
pub(super) const BY_FUNCTION: &[Param] = &[
    kernel(0),
    param("grid", ParamKind::Dims, 1),
    param("block", ParamKind::Dims, 4),
    param("shared_bytes", ParamKind::U32, 7),
    stream(8),
];

/// f, threads x y z, block x y z, shared memory, stream.
const BY_THREADS: &[Param] = &[
    kernel(0),
    param("grid", ParamKind::Threads, 1),
    param("block", ParamKind::Dims, 4),
    param("shared_bytes", ParamKind::Size, 7),
    stream(8),
];

/// `hipLaunchConfig_t`: grid 0, block 12, shared memory 24 (size_t), stream 32.
const BY_CONFIG: &[Param] = &[
    kernel(1),
    field("grid", ParamKind::Dim3, 0),
    field("block", ParamKind::Dim3, 12),
    field("shared_bytes", ParamKind::Size, 24),
    field("stream", ParamKind::Stream, 32),
];

/// `HIP_LAUNCH_CONFIG`, `CUlaunchConfig`: as above with `unsigned int` shared memory.
pub(super) const BY_DRIVER_CONFIG: &[Param] = &[
    kernel(1),
    field("grid", ParamKind::Dim3, 0),
    field("block", ParamKind::Dim3, 12),
    field("shared_bytes", ParamKind::U32, 24),
    field("stream", ParamKind::Stream, 32),
];

/// An executable graph and a stream.
pub(super) const GRAPH: &[Param] = &[pointer("graph", 0), stream(1)];

const MULTI_DEVICE: &[Param] = &[param("devices", ParamKind::U32, 1)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipLaunchKernel", Launch, BY_HANDLE).vital(),
    Probe::new("hipLaunchKernel_spt", Launch, BY_HANDLE).vital(),
    Probe::new("hipExtLaunchKernel", Launch, BY_HANDLE).vital(),
    Probe::new("hipLaunchCooperativeKernel", Launch, COOPERATIVE).vital(),
    Probe::new("hipLaunchCooperativeKernel_spt", Launch, COOPERATIVE).vital(),
    Probe::new("hipLaunchKernelExC", Launch, BY_CONFIG).pointee(0, 0).vital(),
    Probe::new("hipDrvLaunchKernelEx", Launch, BY_DRIVER_CONFIG).pointee(0, 0).vital(),
    Probe::new("hipModuleLaunchKernel", Launch, BY_FUNCTION).vital(),
    Probe::new("hipModuleLaunchCooperativeKernel", Launch, BY_FUNCTION).vital(),
    // Up to ROCm 6.0 the two below exist as C++ symbols only.
    Probe::new("hipExtModuleLaunchKernel", Launch, BY_THREADS)
        .also(&[
            "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
        ])
        .vital(),
    Probe::new("hipHccModuleLaunchKernel", Launch, BY_THREADS)
        .also(&[
            "_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
        ])
        .vital(),
    Probe::new("hipLaunchByPtr", Launch, &[kernel(0)]).vital(),
    Probe::new("hipLaunchCooperativeKernelMultiDevice", Launch, MULTI_DEVICE).vital(),
    Probe::new("hipExtLaunchMultiKernelMultiDevice", Launch, MULTI_DEVICE).vital(),
    Probe::new("hipModuleLaunchCooperativeKernelMultiDevice", Launch, MULTI_DEVICE).vital(),
    Probe::new("hipGraphLaunch", Launch, GRAPH).vital(),
    Probe::new("hipGraphLaunch_spt", Launch, GRAPH).vital(),
];
