//! Devices and contexts: selection, reset, peer access; and marks of profilers.

use super::super::device::CONTEXT;
use super::super::row::{device, flags, pointer};
use crate::probe::Category::Device;
use crate::probe::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuInit", Device, &[flags(0)]),
    Probe::new("cuDevicePrimaryCtxRetain", Device, &[device(1)]).out(0),
    Probe::new("cuDevicePrimaryCtxRelease_v2", Device, &[device(0)]),
    Probe::new("cuDevicePrimaryCtxReset_v2", Device, &[device(0)]),
    Probe::new("cuDevicePrimaryCtxSetFlags_v2", Device, &[device(0), flags(1)]),
    Probe::new("cuCtxCreate_v2", Device, &[flags(1), device(2)]).out(0),
    Probe::new("cuCtxCreate_v3", Device, &[flags(3), device(4)]).out(0),
    Probe::new("cuCtxCreate_v4", Device, &[flags(2), device(3)]).out(0),
    Probe::new("cuCtxDestroy_v2", Device, CONTEXT),
    Probe::new("cuCtxSetCurrent", Device, CONTEXT),
    Probe::new("cuCtxPushCurrent_v2", Device, CONTEXT),
    Probe::new("cuCtxPopCurrent_v2", Device, &[]).out(0),
    Probe::new("cuCtxEnablePeerAccess", Device, CONTEXT),
    Probe::new("cuCtxDisablePeerAccess", Device, CONTEXT),
    Probe::new("cuGreenCtxCreate", Device, &[device(2), flags(3)]).out(0),
    Probe::new("cuGreenCtxDestroy", Device, CONTEXT),
    Probe::new("cuCtxFromGreenCtx", Device, &[pointer("green", 1)]).out(0),
    Probe::new("cuProfilerStart", Device, &[]),
    Probe::new("cuProfilerStop", Device, &[]),
];
