//! Streams: created and destroyed; waits of streams for each other and for the host, and of the host for streams.

use super::super::row::{flags, param, pointer, stream};
use super::super::stream::{CALLBACK, SEMAPHORES, WAIT_EVENT, WRITE_VALUE_32, WRITE_VALUE_64};
use crate::probe::Category::{Stream, Synchronize};
use crate::probe::{Param, ParamKind, Probe};

const BATCH: &[Param] = &[stream(0), param("count", ParamKind::U32, 1)];
const COPY: &[Param] = &[stream(0), param("from", ParamKind::Stream, 1)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuStreamCreate", Stream, &[flags(1)]).out(0).vital(),
    Probe::new("cuStreamCreateWithPriority", Stream, &[flags(1), param("priority", ParamKind::I32, 2)])
        .out(0)
        .vital(),
    Probe::new(
        "cuGreenCtxStreamCreate",
        Stream,
        &[pointer("context", 1), flags(2), param("priority", ParamKind::I32, 3)],
    )
    .out(0)
    .vital(),
    Probe::new("cuStreamDestroy_v2", Stream, &[stream(0)]).vital(),
    Probe::new("cuStreamSetAttribute", Stream, &[stream(0)]),
    Probe::new("cuStreamSetAttribute_ptsz", Stream, &[stream(0)]),
    Probe::new("cuStreamCopyAttributes", Stream, COPY),
    Probe::new("cuStreamCopyAttributes_ptsz", Stream, COPY),
    Probe::new("cuStreamQuery", Stream, &[stream(0)]),
    Probe::new("cuStreamQuery_ptsz", Stream, &[stream(0)]),
    Probe::new("cuStreamWaitEvent", Stream, WAIT_EVENT),
    Probe::new("cuStreamWaitEvent_ptsz", Stream, WAIT_EVENT),
    Probe::new("cuStreamAddCallback", Stream, CALLBACK),
    Probe::new("cuStreamAddCallback_ptsz", Stream, CALLBACK),
    Probe::new("cuLaunchHostFunc", Stream, CALLBACK),
    Probe::new("cuLaunchHostFunc_ptsz", Stream, CALLBACK),
    Probe::new("cuStreamWaitValue32", Stream, WRITE_VALUE_32),
    Probe::new("cuStreamWaitValue32_ptsz", Stream, WRITE_VALUE_32),
    Probe::new("cuStreamWaitValue32_v2", Stream, WRITE_VALUE_32),
    Probe::new("cuStreamWaitValue32_v2_ptsz", Stream, WRITE_VALUE_32),
    Probe::new("cuStreamWaitValue64", Stream, WRITE_VALUE_64),
    Probe::new("cuStreamWaitValue64_ptsz", Stream, WRITE_VALUE_64),
    Probe::new("cuStreamWaitValue64_v2", Stream, WRITE_VALUE_64),
    Probe::new("cuStreamWaitValue64_v2_ptsz", Stream, WRITE_VALUE_64),
    Probe::new("cuStreamWriteValue32", Stream, WRITE_VALUE_32),
    Probe::new("cuStreamWriteValue32_ptsz", Stream, WRITE_VALUE_32),
    Probe::new("cuStreamWriteValue32_v2", Stream, WRITE_VALUE_32),
    Probe::new("cuStreamWriteValue32_v2_ptsz", Stream, WRITE_VALUE_32),
    Probe::new("cuStreamWriteValue64", Stream, WRITE_VALUE_64),
    Probe::new("cuStreamWriteValue64_ptsz", Stream, WRITE_VALUE_64),
    Probe::new("cuStreamWriteValue64_v2", Stream, WRITE_VALUE_64),
    Probe::new("cuStreamWriteValue64_v2_ptsz", Stream, WRITE_VALUE_64),
    Probe::new("cuStreamBatchMemOp", Stream, BATCH),
    Probe::new("cuStreamBatchMemOp_ptsz", Stream, BATCH),
    Probe::new("cuStreamBatchMemOp_v2", Stream, BATCH),
    Probe::new("cuStreamBatchMemOp_v2_ptsz", Stream, BATCH),
    Probe::new("cuSignalExternalSemaphoresAsync", Stream, SEMAPHORES),
    Probe::new("cuSignalExternalSemaphoresAsync_ptsz", Stream, SEMAPHORES),
    Probe::new("cuWaitExternalSemaphoresAsync", Stream, SEMAPHORES),
    Probe::new("cuWaitExternalSemaphoresAsync_ptsz", Stream, SEMAPHORES),
    Probe::new("cuStreamSynchronize", Synchronize, &[stream(0)]).vital(),
    Probe::new("cuStreamSynchronize_ptsz", Synchronize, &[stream(0)]).vital(),
    Probe::new("cuCtxSynchronize", Synchronize, &[]).vital(),
    Probe::new("cuCtxSynchronize_v2", Synchronize, &[pointer("context", 0)]).vital(),
    Probe::new("cuEventSynchronize", Synchronize, &[pointer("event", 0)]).vital(),
    Probe::new("cuCtxWaitEvent", Stream, &[pointer("context", 0), pointer("event", 1)]),
    Probe::new("cuGreenCtxWaitEvent", Stream, &[pointer("context", 0), pointer("event", 1)]),
];
