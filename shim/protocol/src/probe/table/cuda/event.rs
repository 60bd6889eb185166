//! CUDA's events.

use super::super::event::RECORD;
use super::super::row::{flags, pointer, stream};
use crate::probe::Category::Event;
use crate::probe::{Param, Probe};

const RECORD_FLAGS: &[Param] = &[pointer("event", 0), stream(1), flags(2)];
const RECORD_CONTEXT: &[Param] = &[pointer("context", 0), pointer("event", 1)];
const ELAPSED: &[Param] = &[pointer("start", 1), pointer("stop", 2)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuEventCreate", Event, &[flags(1)]).out(0),
    Probe::new("cuEventDestroy_v2", Event, &[pointer("event", 0)]),
    Probe::new("cuEventRecord", Event, RECORD),
    Probe::new("cuEventRecord_ptsz", Event, RECORD),
    Probe::new("cuEventRecordWithFlags", Event, RECORD_FLAGS),
    Probe::new("cuEventRecordWithFlags_ptsz", Event, RECORD_FLAGS),
    Probe::new("cuCtxRecordEvent", Event, RECORD_CONTEXT),
    Probe::new("cuGreenCtxRecordEvent", Event, RECORD_CONTEXT),
    Probe::new("cuEventQuery", Event, &[pointer("event", 0)]),
    Probe::new("cuEventElapsedTime", Event, ELAPSED),
    Probe::new("cuEventElapsedTime_v2", Event, ELAPSED),
    Probe::new("cuIpcGetEventHandle", Event, &[pointer("event", 1)]),
    Probe::new("cuIpcOpenEventHandle", Event, &[]).out(0),
];
