//! HIP events.

use super::row::{flags, pointer, stream};
use crate::probe::Category::Event;
use crate::probe::{Param, Probe};

pub(super) const RECORD: &[Param] = &[pointer("event", 0), stream(1)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipEventCreate", Event, &[]).out(0),
    Probe::new("hipEventCreateWithFlags", Event, &[flags(1)]).out(0),
    Probe::new("hipEventDestroy", Event, &[pointer("event", 0)]),
    Probe::new("hipEventRecord", Event, RECORD),
    Probe::new("hipEventRecord_spt", Event, RECORD),
    Probe::new("hipEventRecordWithFlags", Event, &[pointer("event", 0), stream(1), flags(2)]),
    Probe::new("hipEventQuery", Event, &[pointer("event", 0)]),
    Probe::new("hipEventElapsedTime", Event, &[pointer("start", 1), pointer("stop", 2)]),
    Probe::new("hipIpcGetEventHandle", Event, &[pointer("event", 1)]),
    Probe::new("hipIpcOpenEventHandle", Event, &[]).out(0),
];
