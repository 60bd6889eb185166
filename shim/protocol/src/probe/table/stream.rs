//! Streams: created and destroyed; waits of streams for each other and for the host, and of the host for streams.

use super::row::{flags, param, pointer, size, stream};
use crate::probe::Category::{Stream, Synchronize};
use crate::probe::{Param, ParamKind, Probe};

pub(super) const WAIT_EVENT: &[Param] = &[stream(0), pointer("event", 1), flags(2)];
pub(super) const CALLBACK: &[Param] = &[stream(0), pointer("function", 1), pointer("argument", 2)];
pub(super) const WRITE_VALUE_32: &[Param] =
    &[stream(0), pointer("ptr", 1), param("value", ParamKind::U32, 2), flags(3)];
pub(super) const WRITE_VALUE_64: &[Param] = &[stream(0), pointer("ptr", 1), size("value", 2), flags(3)];
pub(super) const SEMAPHORES: &[Param] = &[param("count", ParamKind::U32, 2), stream(3)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipStreamCreate", Stream, &[]).out(0).vital(),
    Probe::new("hipStreamCreateWithFlags", Stream, &[flags(1)]).out(0).vital(),
    Probe::new("hipStreamCreateWithPriority", Stream, &[flags(1), param("priority", ParamKind::I32, 2)])
        .out(0)
        .vital(),
    Probe::new("hipExtStreamCreateWithCUMask", Stream, &[param("words", ParamKind::U32, 1)]).out(0).vital(),
    Probe::new("hipStreamDestroy", Stream, &[stream(0)]).vital(),
    Probe::new("hipStreamSetAttribute", Stream, &[stream(0)]),
    Probe::new("hipStreamCopyAttributes", Stream, &[stream(0), param("from", ParamKind::Stream, 1)]),
    Probe::new("hipStreamQuery", Stream, &[stream(0)]),
    Probe::new("hipStreamQuery_spt", Stream, &[stream(0)]),
    Probe::new("hipStreamWaitEvent", Stream, WAIT_EVENT),
    Probe::new("hipStreamWaitEvent_spt", Stream, WAIT_EVENT),
    Probe::new("hipStreamAddCallback", Stream, CALLBACK),
    Probe::new("hipStreamAddCallback_spt", Stream, CALLBACK),
    Probe::new("hipLaunchHostFunc", Stream, CALLBACK),
    Probe::new("hipLaunchHostFunc_spt", Stream, CALLBACK),
    Probe::new("hipStreamWaitValue32", Stream, WRITE_VALUE_32),
    Probe::new("hipStreamWaitValue64", Stream, WRITE_VALUE_64),
    Probe::new("hipStreamWriteValue32", Stream, WRITE_VALUE_32),
    Probe::new("hipStreamWriteValue64", Stream, WRITE_VALUE_64),
    Probe::new("hipStreamBatchMemOp", Stream, &[stream(0), param("count", ParamKind::U32, 1)]),
    Probe::new("hipSignalExternalSemaphoresAsync", Stream, SEMAPHORES),
    Probe::new("hipWaitExternalSemaphoresAsync", Stream, SEMAPHORES),
    Probe::new("hipStreamSynchronize", Synchronize, &[stream(0)]).vital(),
    Probe::new("hipStreamSynchronize_spt", Synchronize, &[stream(0)]).vital(),
    Probe::new("hipDeviceSynchronize", Synchronize, &[]).vital(),
    Probe::new("hipCtxSynchronize", Synchronize, &[]).vital(),
    Probe::new("hipEventSynchronize", Synchronize, &[pointer("event", 0)]).vital(),
];
