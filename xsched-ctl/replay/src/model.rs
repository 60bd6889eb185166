//! A recorded program as a claim of the simulation.

use std::collections::BTreeMap;

use xsched_control_api::parameters::Parameters;
use xsched_sched::simulation::{Gates, Model, Recorded};
use xsched_sched::{Attributes, DeviceId, PolicyKind, ProcessId};

use crate::ReplayError;
use crate::change::Change;
use crate::rebuild::{Program, Programs};
use crate::recording::Recording;

/// The parameters of each process.
pub(crate) type Parameterised = BTreeMap<u32, (Parameters, i8)>;

/// As recorded.
pub(crate) fn recorded_parameters(recording: &Recording) -> Parameterised {
    let of = |process: &crate::recording::Process| (process.parameters.unwrap_or_default(), 0);
    recording.processes.iter().map(|(pid, process)| (*pid, of(process))).collect()
}

/// With these changes.
pub(crate) fn changed_parameters(
    recording: &Recording,
    changes: &[Change],
) -> Result<Parameterised, ReplayError> {
    let mut parameters = recorded_parameters(recording);
    for change in changes {
        for pid in change.targets(recording)? {
            let (own, nice) = parameters.entry(pid).or_default();
            *own = change.wish.applied_to(*own);
            *nice = change.nice.unwrap_or(*nice);
        }
    }
    Ok(parameters)
}

/// The model of a recording under a policy, with these parameters.
pub(crate) fn model(
    recording: &Recording,
    programs: &Programs,
    policy: PolicyKind,
    parameters: &Parameterised,
) -> Model {
    let mut devices: Vec<_> = programs.all.iter().map(|program| &program.device).collect();
    devices.dedup();
    let gates = if recording.settings.preemption >= 2 { Gates::Close } else { Gates::None };
    let claim = |program: &Program| {
        let device = devices.iter().position(|device| **device == program.device).unwrap_or_default();
        let (own, nice) = parameters.get(&program.pid).copied().unwrap_or_default();
        let attributes = Attributes {
            priority: own.priority,
            ceiling: own.priority,
            weight: own.weight,
            share: own.share,
            nice,
            quota: own.quota,
            deadline: own.deadline,
            work: own.work,
            slo: own.slo,
            ..Attributes::new(DeviceId(device as u16), ProcessId(program.pid))
        };
        Recorded {
            attributes,
            opens: program.opens,
            gates,
            streams: program.streams.iter().map(|stream| stream.steps.clone()).collect(),
            goes_on: program.goes_on,
        }
    };
    Model {
        policy,
        settings: recording.settings.of_scheduler(),
        claims: programs.all.iter().map(claim).collect(),
        idle_after: programs.idle_after,
        until: programs.until,
    }
}
