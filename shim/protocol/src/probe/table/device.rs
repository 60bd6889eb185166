//! Devices and contexts: selection, reset, peer access; and markers of profilers.

use super::row::{device, flags, param, pointer};
use crate::probe::Category::Device;
use crate::probe::{Param, ParamKind, Probe};

pub(super) const CONTEXT: &[Param] = &[pointer("context", 0)];
const PEER: &[Param] = &[param("peer", ParamKind::I32, 0)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipInit", Device, &[flags(0)]),
    Probe::new("hipSetDevice", Device, &[device(0)]),
    Probe::new("hipSetDeviceFlags", Device, &[flags(0)]),
    Probe::new("hipSetValidDevices", Device, &[param("count", ParamKind::I32, 1)]),
    Probe::new("hipDeviceReset", Device, &[]),
    Probe::new("hipDevicePrimaryCtxRetain", Device, &[device(1)]).out(0),
    Probe::new("hipDevicePrimaryCtxRelease", Device, &[device(0)]),
    Probe::new("hipDevicePrimaryCtxReset", Device, &[device(0)]),
    Probe::new("hipDeviceEnablePeerAccess", Device, PEER),
    Probe::new("hipDeviceDisablePeerAccess", Device, PEER),
    Probe::new("hipCtxCreate", Device, &[flags(1), device(2)]).out(0),
    Probe::new("hipCtxDestroy", Device, CONTEXT),
    Probe::new("hipCtxSetCurrent", Device, CONTEXT),
    Probe::new("hipCtxPushCurrent", Device, CONTEXT),
    Probe::new("hipCtxPopCurrent", Device, &[]).out(0),
    Probe::new("hipCtxEnablePeerAccess", Device, CONTEXT),
    Probe::new("hipCtxDisablePeerAccess", Device, CONTEXT),
    Probe::new("hipProfilerStart", Device, &[]),
    Probe::new("hipProfilerStop", Device, &[]),
];
