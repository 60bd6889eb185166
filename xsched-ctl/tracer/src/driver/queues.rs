//! Which hardware queue was created for which stream.
//!
//! HIP creates a hardware queue when a stream is created or first used, within the call and on its thread. So a
//! hardware queue that is created inside a call on a stream belongs to that stream. Others (for copy engines, or
//! created outside of HIP) belong to none. Streams beyond the number of hardware queues share existing ones. The driver
//! does not see that, so a stream without a recorded queue still uses one.
//!
//! A call is reported when it returns: the creation comes first, its stream is known later. So a creation is kept until
//! the call around it has returned.

use std::collections::{HashMap, HashSet};

use xsched_abi::{Category, Device, ParamKind};
use xsched_protocol::probe::Runtime;

use super::DriverCall;
use super::kfd::{COMPUTE_TYPES, CREATE_QUEUE, CREATE_QUEUE_ID, CREATE_QUEUE_TYPE, DESTROY_QUEUE};
use crate::call::RuntimeCall;

/// The hardware queues of a process, by stream.
pub(crate) type StreamQueues = HashMap<u64, u32>;

/// Creations of hardware queues whose streams are not known yet.
#[derive(Default)]
pub(crate) struct Queues {
    /// By thread: creations whose surrounding call has not returned.
    kept: HashMap<u32, Vec<DriverCall>>,
    /// Those of them whose thread was in no call when that was last looked at, by thread and time.
    left: HashSet<(u32, u64)>,
}

/// Whether a call creates a queue for kernels.
fn creates_queue(call: &DriverCall) -> bool {
    call.device == Device::Kfd
        && call.number() == CREATE_QUEUE
        && call.end_ns.is_some()
        && !call.has_failed()
        && call.passed_u32(CREATE_QUEUE_TYPE).is_some_and(|kind| COMPUTE_TYPES.contains(&kind))
}

impl Queues {
    /// Notes a call to the driver by a process with these queues, and returns it unless it must wait for the call around it.
    pub(crate) fn driver_returned(
        &mut self,
        call: DriverCall,
        known: &mut StreamQueues,
    ) -> Option<DriverCall> {
        if creates_queue(&call) {
            self.kept.entry(call.tid).or_default().push(call);
            return None;
        }
        if call.device == Device::Kfd
            && call.number() == DESTROY_QUEUE
            && !call.has_failed()
            && let Some(queue) = call.passed_u32(0)
        {
            known.retain(|_, of_stream| *of_stream != queue);
        }
        Some(call)
    }

    /// Notes a returned HIP call: sets its stream's queue in it, and returns the creations that waited for it.
    /// Other runtimes have no queues of AMD's driver.
    pub(crate) fn call_returned(
        &mut self,
        hip: &mut RuntimeCall,
        known: &mut StreamQueues,
    ) -> Vec<DriverCall> {
        if hip.probe.runtime != Runtime::Hip {
            return Vec::new();
        }
        let stream = stream(hip);
        let settled = self.settle(hip, stream);
        if let Some(stream) = stream {
            for queue in settled.iter().filter(|call| call.stream == Some(stream)) {
                if let Some(id) = queue.returned_u32(CREATE_QUEUE_ID) {
                    known.insert(stream, id);
                }
            }
            hip.queue = known.get(&stream).copied();
            if hip.probe.stem == "StreamDestroy" && hip.ret == 0 {
                known.remove(&stream);
            }
        }
        settled
    }

    fn settle(&mut self, hip: &RuntimeCall, stream: Option<u64>) -> Vec<DriverCall> {
        let Some(kept) = self.kept.get_mut(&hip.tid) else { return Vec::new() };
        let end_ns = hip.end_ns.or(hip.cut_ns).unwrap_or(u64::MAX);
        let mut settled = Vec::new();
        kept.retain_mut(|call| {
            let is_inside = hip.begin_ns <= call.begin_ns && call.end_ns.is_some_and(|end| end <= end_ns);
            if is_inside && stream.is_some() {
                call.stream = stream;
            } else if is_inside || call.begin_ns >= end_ns {
                // A call around this one may know the stream.
                return true;
            }
            settled.push(call.clone());
            false
        });
        if kept.is_empty() {
            self.kept.remove(&hip.tid);
        }
        settled
    }

    /// Returns the creations of threads that are in no HIP call, and were in none when this was last asked: their streams will not
    /// become known. A call that has just returned may not have been read yet.
    pub(crate) fn give_up(&mut self, mut is_in_call: impl FnMut(u32) -> bool) -> Vec<DriverCall> {
        let before = std::mem::take(&mut self.left);
        let mut settled = Vec::new();
        for (tid, calls) in &mut self.kept {
            if is_in_call(*tid) {
                continue;
            }
            settled.extend(calls.extract_if(.., |call| before.contains(&(*tid, call.begin_ns))));
            self.left.extend(calls.iter().map(|call| (*tid, call.begin_ns)));
        }
        self.kept.retain(|_, calls| !calls.is_empty());
        settled
    }

    /// Returns all creations that still wait: no further call comes.
    pub(crate) fn give_up_all(&mut self) -> Vec<DriverCall> {
        std::mem::take(&mut self.kept).into_values().flatten().collect()
    }

    pub(crate) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// A process has ended or executed another program. Returns the creations that still wait.
    pub(crate) fn forget(&mut self, pid: u32) -> Vec<DriverCall> {
        let mut settled = Vec::new();
        self.kept.retain(|_, calls| {
            settled.extend(calls.extract_if(.., |call| call.pid == pid));
            !calls.is_empty()
        });
        settled
    }
}

/// The stream that a call uses or creates.
fn stream(hip: &RuntimeCall) -> Option<u64> {
    if hip.probe.stem.starts_with("StreamCreate") {
        return (hip.out != 0).then_some(hip.out);
    }
    if let Some(param) = hip.probe.params.iter().find(|param| param.kind == ParamKind::Stream) {
        return Some(hip.words[usize::from(param.offset / 8)]);
    }
    // Calls without a stream use the null stream.
    matches!(hip.probe.category, Category::Launch | Category::Copy | Category::Set).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::super::call::tests::call as driver_call;
    use super::*;
    use crate::call::tests::call as hip_call;

    /// A creation of queue `id` from `begin_ns` to `begin_ns + 10`.
    fn create(begin_ns: u64, kind: u32, id: u32) -> DriverCall {
        let mut call = driver_call(Device::Kfd, 0xc058_4b02, 0, &[(40, kind)], &[(52, id)]);
        (call.begin_ns, call.end_ns) = (begin_ns, Some(begin_ns + 10));
        call
    }

    fn hip(name: &str, begin_ns: u64, end_ns: u64, stream_word: Option<(usize, u64)>) -> RuntimeCall {
        let mut call = hip_call(name);
        (call.begin_ns, call.end_ns) = (begin_ns, Some(end_ns));
        if let Some((word, stream)) = stream_word {
            call.words[word] = stream;
        }
        call
    }

    fn streams(settled: &[DriverCall]) -> Vec<Option<u64>> {
        settled.iter().map(|call| call.stream).collect()
    }

    #[test]
    fn a_queue_created_with_a_stream_belongs_to_it() {
        let (mut queues, mut known) = (Queues::default(), StreamQueues::default());
        assert!(queues.driver_returned(create(110, 2, 4), &mut known).is_none());
        let mut created = hip("hipStreamCreate", 100, 200, None);
        created.out = 0x5000;
        assert_eq!(streams(&queues.call_returned(&mut created, &mut known)), [Some(0x5000)]);
        assert_eq!(created.queue, Some(4));
        let mut launch = hip("hipModuleLaunchKernel", 300, 400, Some((8, 0x5000)));
        assert!(queues.call_returned(&mut launch, &mut known).is_empty());
        assert_eq!(launch.queue, Some(4));
        // Other streams, runtimes and processes do not get it.
        let mut cuda = hip("cuLaunchKernel", 300, 400, Some((8, 0x5000)));
        queues.call_returned(&mut cuda, &mut known);
        assert_eq!(cuda.queue, None);
        let mut other = hip("hipModuleLaunchKernel", 300, 400, Some((8, 0x6000)));
        queues.call_returned(&mut other, &mut known);
        assert_eq!(other.queue, None);
        let mut other = hip("hipModuleLaunchKernel", 300, 400, Some((8, 0x5000)));
        queues.call_returned(&mut other, &mut StreamQueues::default());
        assert_eq!(other.queue, None);
    }

    #[test]
    fn the_first_copy_without_a_stream_makes_the_null_streams_queue() {
        let (mut queues, mut known) = (Queues::default(), StreamQueues::default());
        queues.driver_returned(create(110, 2, 0), &mut known);
        let mut copy = hip("hipMemcpy", 100, 200, None);
        assert_eq!(streams(&queues.call_returned(&mut copy, &mut known)), [Some(0)]);
        assert_eq!(copy.queue, Some(0));
    }

    #[test]
    fn an_inner_call_without_a_stream_leaves_it_to_the_outer_one() {
        let (mut queues, mut known) = (Queues::default(), StreamQueues::default());
        queues.driver_returned(create(120, 2, 1), &mut known);
        let mut inner = hip("hipModuleGetFunction", 110, 150, None);
        assert!(queues.call_returned(&mut inner, &mut known).is_empty());
        let mut outer = hip("hipModuleLaunchKernel", 100, 200, Some((8, 0x7000)));
        assert_eq!(streams(&queues.call_returned(&mut outer, &mut known)), [Some(0x7000)]);
    }

    #[test]
    fn a_queue_created_before_a_call_does_not_belong_to_it() {
        let (mut queues, mut known) = (Queues::default(), StreamQueues::default());
        queues.driver_returned(create(50, 2, 1), &mut known);
        let mut later = hip("hipStreamCreate", 100, 200, None);
        later.out = 0x5000;
        assert_eq!(streams(&queues.call_returned(&mut later, &mut known)), [None]);
        assert_eq!(later.queue, None);
    }

    #[test]
    fn queues_of_copy_engines_and_failed_ones_belong_to_no_stream() {
        let (mut queues, mut known) = (Queues::default(), StreamQueues::default());
        assert!(queues.driver_returned(create(110, 1, 4), &mut known).is_some());
        let mut failed = create(110, 2, 4);
        failed.ret = -12;
        assert!(queues.driver_returned(failed, &mut known).is_some());
    }

    #[test]
    fn a_destroyed_queue_or_stream_is_forgotten() {
        let (mut queues, mut known) = (Queues::default(), StreamQueues::default());
        for stream in [0x5000, 0x6000] {
            queues.driver_returned(create(110, 2, stream as u32 >> 12), &mut known);
            let mut launch = hip("hipModuleLaunchKernel", 100, 200, Some((8, stream)));
            queues.call_returned(&mut launch, &mut known);
        }
        let destroy = driver_call(Device::Kfd, 0xc008_4b03, 0, &[(0, 5)], &[]);
        assert!(queues.driver_returned(destroy, &mut known).is_some());
        let mut destroyed = hip("hipStreamDestroy", 300, 400, Some((0, 0x6000)));
        queues.call_returned(&mut destroyed, &mut known);
        assert_eq!(destroyed.queue, Some(6));
        for stream in [0x5000, 0x6000] {
            let mut launch = hip("hipModuleLaunchKernel", 500, 600, Some((8, stream)));
            queues.call_returned(&mut launch, &mut known);
            assert_eq!(launch.queue, None);
        }
    }

    #[test]
    fn nothing_is_kept_of_threads_without_a_call_and_of_ended_processes() {
        let (mut queues, mut known) = (Queues::default(), StreamQueues::default());
        queues.driver_returned(create(110, 2, 1), &mut known);
        assert!(queues.give_up(|_| true).is_empty() && queues.has_kept());
        assert!(queues.give_up(|_| false).is_empty(), "the call around it may not have been read yet");
        assert_eq!(streams(&queues.give_up(|_| false)), [None]);
        assert!(!queues.has_kept());
        queues.driver_returned(create(110, 2, 1), &mut known);
        assert_eq!(streams(&queues.give_up_all()), [None]);
        queues.driver_returned(create(110, 2, 1), &mut known);
        assert!(queues.forget(2).is_empty());
        assert_eq!(queues.forget(1).len(), 1);
    }

    #[test]
    fn a_thread_that_returns_between_two_looks_keeps_its_next_creation() {
        let (mut queues, mut known) = (Queues::default(), StreamQueues::default());
        queues.driver_returned(create(110, 2, 1), &mut known);
        assert!(queues.give_up(|_| false).is_empty());
        let mut created = hip("hipStreamCreate", 100, 200, None);
        created.out = 0x5000;
        queues.call_returned(&mut created, &mut known);
        queues.driver_returned(create(310, 2, 2), &mut known);
        assert!(queues.give_up(|_| false).is_empty(), "it is another one");
        let mut created = hip("hipStreamCreate", 300, 400, None);
        created.out = 0x6000;
        assert_eq!(streams(&queues.call_returned(&mut created, &mut known)), [Some(0x6000)]);
    }
}
