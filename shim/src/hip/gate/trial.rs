//! A gate of HIP's that is being tried.

use xsched_protocol::arbiter_page::GATE_SIZE;
use xsched_xqueue::{GatePage, RuntimeId, Trial, Tried, TriedGate};

use crate::abi::{Event, Stream};
use crate::hip::gate::HipGate;
use crate::hip::marker::HipStream;
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;

/// A runtime copy's number, and one of its devices.
pub(crate) type GateOwner = (RuntimeId, i32);

/// The trial of a gate.
pub(crate) struct HipTrial {
    gate: HipGate,
    owner: GateOwner,
    /// Whether the arbiter writes its word, too.
    is_shared: bool,
    trial: Trial<TriedWord>,
}

/// The word that is opened and closed for it.
struct TriedWord {
    copy: &'static RuntimeCopy,
    device: i32,
    word: HipGate,
}

struct TrialStream {
    stream: Stream,
    event: Option<Event>,
}

// SAFETY: handles of the shim's own, which one thread at a time uses.
unsafe impl Send for TrialStream {}

impl HipTrial {
    /// A gate for a stream's device, in the page or in signal memory. On a thread of the shim's own: it sets the device.
    ///
    /// Runtimes before ROCm 5.5 say of most devices that their streams cannot wait for a word. Their streams still wait for a
    /// word in a page, by a kernel, so a page is tried whatever they say. For signal memory their word counts: it is unknown what
    /// a command processor does that cannot wait there.
    pub(crate) fn new(
        HipStream { copy, device, .. }: HipStream,
        page: Option<&'static GatePage>,
    ) -> Option<Self> {
        real::set_device(copy, device);
        let (gate, word) = if let Some(page) = page {
            let on_device = real::register(copy, page.start(), GATE_SIZE)?;
            let within = |word| HipGate::within(page, word, on_device);
            (within(page.word()), within(page.trial()))
        } else if real::has_wait_value(copy, device) {
            let host = real::signal_memory(copy)?;
            let gate = HipGate { host, device: host.cast() };
            (gate, gate)
        } else {
            return None;
        };
        Some(Self {
            gate,
            owner: (copy.runtime(), device),
            is_shared: page.is_some(),
            trial: Trial::new(TriedWord { copy, device, word }),
        })
    }

    /// Whose gate it is.
    pub(crate) fn owner(&self) -> GateOwner {
        self.owner
    }

    /// Whether the arbiter opens and closes the gate.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Goes on as far as that is possible without waiting. On a thread of the shim's own: it sets the device.
    pub(crate) fn look(&mut self) -> Tried<HipGate> {
        self.trial.look().of(self.gate)
    }

    /// Has its stream go on, and others behind it. A store to memory.
    pub(crate) fn release(&mut self) {
        self.trial.release();
    }
}

impl TriedGate for TriedWord {
    type Stream = TrialStream;

    fn set(&self, is_open: bool) {
        self.word.set(is_open);
    }

    fn is_open(&self) -> bool {
        self.word.is_open()
    }

    fn create_stream(&self) -> Option<TrialStream> {
        real::set_device(self.copy, self.device);
        let stream = real::create_stream(self.copy)?;
        Some(TrialStream { stream, event: real::create_event(self.copy) })
    }

    fn record(&self, stream: &TrialStream) -> bool {
        stream.event.is_some_and(|event| real::record_event(self.copy, event, stream.stream))
    }

    fn wait(&self, stream: &TrialStream) -> bool {
        self.word.put(self.copy, stream.stream)
    }

    fn is_pending(&self, stream: &TrialStream) -> bool {
        stream.event.is_some_and(|event| real::is_event_pending(self.copy, event))
    }

    fn is_done(&self, stream: &TrialStream) -> Option<bool> {
        real::is_stream_done(self.copy, stream.stream)
    }

    fn destroy(&self, stream: TrialStream) {
        real::destroy(self.copy, stream.event, stream.stream);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;
    use crate::api::Id;
    use crate::reentry::stay_inside;
    use crate::runtime::copies::ORIGINALS;
    use crate::runtime::stopped::StreamName;

    const NOT_READY: u32 = 600;

    /// A runtime with one stream, and what was put there.
    #[derive(Default)]
    struct Runtime {
        has_backlog: bool,
        denies_waits: bool,
        ignores_waits: bool,
        refuses_waits: bool,
        is_waiting: bool,
        /// How many objects there are, by the function that makes or destroys them.
        made: BTreeMap<&'static str, i32>,
    }

    thread_local! {
        static RUNTIME: RefCell<Runtime> = RefCell::default();
        /// The signal memory of this thread's runtime: tests run side by side.
        static WORD: &'static AtomicU64 = Box::leak(Box::default());
    }

    fn word() -> &'static AtomicU64 {
        WORD.with(|&word| word)
    }

    fn with<R>(act: impl FnOnce(&mut Runtime) -> R) -> R {
        RUNTIME.with(|runtime| act(&mut runtime.borrow_mut()))
    }

    fn count(what: &'static str, by: i32) -> u32 {
        with(|runtime| *runtime.made.entry(what).or_default() += by);
        0
    }

    extern "C" fn attribute(value: &mut i32, _: u32, _: i32) -> u32 {
        *value = i32::from(!with(|runtime| runtime.denies_waits));
        0
    }

    extern "C" fn register(_: usize, _: usize, _: u32) -> u32 {
        count("registrations", 1)
    }

    extern "C" fn on_device(there: &mut usize, here: usize, _: u32) -> u32 {
        *there = here;
        0
    }

    extern "C" fn signal_memory(there: &mut *const AtomicU64, _: usize, _: u32) -> u32 {
        *there = word();
        count("words", 1)
    }

    extern "C" fn set_device(_: i32) -> u32 {
        0
    }

    extern "C" fn create(_: *mut c_void, _: u32) -> u32 {
        count("streams", 1)
    }

    extern "C" fn create_event(_: *mut c_void, _: u32) -> u32 {
        count("events", 1)
    }

    extern "C" fn destroy(_: *mut c_void) -> u32 {
        assert_eq!(query(0), 0, "it would wait");
        count("streams", -1)
    }

    extern "C" fn destroy_event(_: *mut c_void) -> u32 {
        count("events", -1)
    }

    extern "C" fn record(_: usize, _: usize) -> u32 {
        0
    }

    extern "C" fn wait(_: usize) -> u32 {
        let code = with(|runtime| {
            runtime.is_waiting = !runtime.refuses_waits && !runtime.ignores_waits;
            u32::from(runtime.refuses_waits)
        });
        assert_eq!(word().load(Ordering::SeqCst), 0, "it is closed");
        code
    }

    extern "C" fn query_event(_: usize) -> u32 {
        if with(|runtime| runtime.has_backlog) { NOT_READY } else { 0 }
    }

    extern "C" fn query(_: usize) -> u32 {
        let is_busy = with(|runtime| {
            runtime.is_waiting &= word().load(Ordering::SeqCst) == 0;
            runtime.has_backlog || runtime.is_waiting
        });
        if is_busy { NOT_READY } else { 0 }
    }

    extern "C" fn no_error() -> u32 {
        0
    }

    /// Acts on a thread of the shim's own, on a stream of this runtime. No other test uses this copy.
    fn on_runtime(runtime: Runtime, test: impl FnOnce(HipStream) + Send + 'static) {
        const COPY: usize = 2;
        let functions = [
            (Id::hipHostRegister, register as *mut c_void),
            (Id::hipHostGetDevicePointer, on_device as *mut c_void),
            (Id::hipDeviceGetAttribute, attribute as *mut c_void),
            (Id::hipExtMallocWithFlags, signal_memory as *mut c_void),
            (Id::hipSetDevice, set_device as *mut c_void),
            (Id::hipStreamCreateWithFlags, create as *mut c_void),
            (Id::hipEventCreateWithFlags, create_event as *mut c_void),
            (Id::hipStreamDestroy, destroy as *mut c_void),
            (Id::hipEventDestroy, destroy_event as *mut c_void),
            (Id::hipEventRecord, record as *mut c_void),
            (Id::hipStreamWaitValue64, wait as *mut c_void),
            (Id::hipEventQuery, query_event as *mut c_void),
            (Id::hipStreamQuery, query as *mut c_void),
            (Id::hipPeekAtLastError, no_error as *mut c_void),
            (Id::hipGetLastError, no_error as *mut c_void),
        ];
        for (id, function) in functions {
            ORIGINALS[COPY][id as usize].store(function, Ordering::Release);
        }
        let tested = thread::spawn(move || {
            stay_inside();
            RUNTIME.set(runtime);
            test(HipStream { copy: RuntimeCopy::at(COPY), device: 0, name: StreamName::Created(1) });
        });
        tested.join().unwrap();
    }

    /// A trial in signal memory.
    fn with_trial(runtime: Runtime, test: impl FnOnce(&mut HipTrial) + Send + 'static) {
        on_runtime(runtime, |stream| {
            test(&mut HipTrial::new(stream, None).unwrap());
            let made = RUNTIME.take().made;
            assert_eq!(
                made,
                BTreeMap::from([("events", 0), ("streams", 0), ("words", 1)]),
                "nothing is lost"
            );
        });
    }

    /// Looks until it is decided.
    fn decided(trial: &mut HipTrial) -> Tried<HipGate> {
        loop {
            match trial.look() {
                Tried::Pending { again } => thread::sleep(again.into()),
                tried => return tried,
            }
        }
    }

    #[test]
    fn a_gate_is_judged_once_what_was_before_it_is_done_and_nothing_is_lost() {
        with_trial(Runtime { has_backlog: true, ..Runtime::default() }, |trial| {
            for _ in 0..100 {
                assert!(matches!(trial.look(), Tried::Pending { .. }));
            }
            with(|runtime| runtime.has_backlog = false);
            assert!(matches!(decided(trial), Tried::Works(_)));
            assert_eq!(word().load(Ordering::SeqCst), super::super::OPEN);
        });
    }

    #[test]
    fn a_runtime_that_refuses_a_wait_or_does_not_wait_has_no_gate_and_nothing_is_lost() {
        for (refuses_waits, ignores_waits) in [(true, false), (false, true)] {
            with_trial(Runtime { ignores_waits, refuses_waits, ..Runtime::default() }, |trial| {
                assert!(matches!(decided(trial), Tried::Refused));
            });
        }
    }

    /// As runtimes before ROCm 5.5 do for most devices.
    #[test]
    fn a_device_that_is_said_not_to_wait_is_tried_in_a_page_and_never_in_signal_memory() {
        let file = memfd_create("gate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, GATE_SIZE as u64).unwrap();
        let page = Box::leak(Box::new(GatePage::map(file, 1).unwrap()));
        on_runtime(Runtime { denies_waits: true, ..Runtime::default() }, |stream| {
            assert!(HipTrial::new(stream, Some(page)).is_some_and(|trial| trial.is_shared()));
            assert!(HipTrial::new(stream, None).is_none());
            assert_eq!(RUNTIME.take().made, BTreeMap::from([("registrations", 1)]));
        });
    }

    /// As the guard does while the watcher is stuck.
    #[test]
    fn a_trial_whose_gate_another_thread_opens_is_undecided() {
        with_trial(Runtime::default(), |trial| {
            assert!(matches!(trial.look(), Tried::Pending { .. }));
            assert!(matches!(trial.look(), Tried::Pending { .. }), "it is watched from now on");
            word().store(1, Ordering::SeqCst);
            assert!(matches!(decided(trial), Tried::Undecided));
            assert!(matches!(decided(trial), Tried::Works(_)));
        });
    }

    #[test]
    fn a_released_trial_holds_up_nothing_and_begins_again() {
        with_trial(Runtime { has_backlog: true, ..Runtime::default() }, |trial| {
            assert!(matches!(trial.look(), Tried::Pending { .. }));
            trial.release();
            assert!(matches!(trial.look(), Tried::Pending { .. }), "a stream is destroyed when it is done");
            with(|runtime| runtime.has_backlog = false);
            assert_eq!(query(0), 0);
            assert!(matches!(trial.look(), Tried::Undecided));
            assert!(matches!(decided(trial), Tried::Works(_)));
        });
    }
}
