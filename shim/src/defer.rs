//! Deferring: which HIP calls are held back in XQueues, which wait in place, and which pass.
//!
//! ```text
//!   is anything suspended or held back? -- no ---> the real function, at once
//!            | yes
//!   must this call wait? ----------------- no ---> the real function, at once
//!            | yes
//!   can it be made later? ---------------- yes --> held back, success returned
//!            | no
//!   wait until it is its turn -------------------> the real function
//! ```
//!
//! Calls that observe or take away (`drains` in the list) wait until what they concern was launched; questions about
//! what is held back are answered here: not ready.
//!
//! While a stream captures, nothing is held back: what is before a capture is launched first, captured calls
//! reach no device, and all other calls wait in place.
//!
//! That is so for calls that are scheduled. Others go at once, behind what they come after, see [`crate::verdict`].
//!
//! Work on the per-thread stream waits in place, always: the stream has no name in the thread that would launch it.
//!
//! The first call that concerns a stream also begins what has to do with other processes: the device is claimed, and the
//! [watcher](crate::arbiter) started.

mod books;
mod claims;
mod device;
mod gate;
mod load;
mod marker;
mod own;
mod owned;
mod real;
mod stopped;
mod streams;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::abi::{HipError, Stream};
use crate::api::{Family, Id};
use crate::arbiter;
use crate::hooks::Reason;
use crate::instances::{INSTANCES, Instance};
use crate::planted::{Bug, is_planted};
use crate::process::{self, Renewable};
use crate::verdict;
use crate::xqueue::{
    Admission, Begun, ClaimId, Course, Demand, Position, QueueId, Refused, Treatment, Usage, XQueues,
};
use books::{Books, EventUse};
use claims::Devices;
use device::{Hip, HipCommand};
use load::load;
use marker::HipStream;
use streams::{Nulls, StreamEntry, StreamKey};

pub(crate) use stopped::{Stopped, StreamName};

/// How long an ending process waits for what it has held back.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// `hipStreamPerThread`
const PER_THREAD: usize = 2;

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is held back; this is its answer.
    Answer(HipError),
    /// The real function gets it now.
    Pass(Reason),
    /// The real function gets it now, and what it returns is wanted.
    Make(Followed),
}

/// A call whose end is wanted.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) reason: Reason,
    /// Its success is told as this failure of an earlier call.
    tells: Option<HipError>,
    /// It puts something on the device, beside others.
    begun: Option<Begun<Hip>>,
    /// It waits for what these queues had on the device.
    waits_for: Vec<(QueueId, u64)>,
    /// It waits for something on a device, which somebody records.
    is_watched_wait: bool,
}

impl Followed {
    /// The call is about to be made.
    pub(crate) fn prepare(&self) {
        if let Some(begun) = &self.begun {
            deferral().queues.prepare(begun);
        }
    }

    /// The call has returned; what its caller gets.
    pub(crate) fn finish(self, result: HipError) -> HipError {
        let is_success = result == HipError::SUCCESS;
        let queues = &deferral().queues;
        if let Some(begun) = self.begun {
            queues.finish(begun, is_success);
        }
        if !self.waits_for.is_empty() {
            queues.has_waited(&self.waits_for, is_success);
        }
        if self.is_watched_wait {
            queues.look_around();
        }
        self.tells.filter(|_| is_success).unwrap_or(result)
    }
}

/// Everything that deferring needs to know.
pub(crate) struct Deferral {
    queues: Arc<XQueues<Hip>>,
    books: Mutex<Books>,
    nulls: Nulls,
    /// Held while it is made known whether any stream captures. Whether any does, as it was made known last.
    captures: Mutex<()>,
    is_capturing: AtomicBool,
    devices: Devices,
    /// The process's first use of a device was noted.
    is_used: AtomicBool,
}

impl Default for Deferral {
    fn default() -> Self {
        let queues = XQueues::new(Hip::default());
        queues.await_first_use(true);
        if verdict::is_verbose() {
            queues.look_at_all();
        }
        Self {
            queues,
            books: Mutex::default(),
            nulls: Nulls::default(),
            captures: Mutex::default(),
            is_capturing: AtomicBool::new(false),
            devices: Devices::default(),
            is_used: AtomicBool::new(false),
        }
    }
}

static DEFERRAL: Renewable<Deferral> = Renewable::new();

/// Whether any call may have to wait, or others want to know of it. So it is until the first use of a device; a process that
/// has its devices for itself pays two loads for it.
pub(crate) fn is_engaged() -> bool {
    DEFERRAL.existing().is_none_or(|deferral| deferral.queues.is_engaged() || device::has_untold_failures())
}

/// In a forked child: what is held back is its parent's.
pub(crate) fn begin_afresh() {
    DEFERRAL.renew();
    streams::renew();
    for set in &SET {
        set.store(0, Ordering::Relaxed);
    }
}

/// The process ends: lets everything go.
pub(crate) fn close() {
    if let Some(deferral) = DEFERRAL.existing() {
        deferral.queues.close(Instant::now() + EXIT_LIMIT);
    }
}

/// What the process has used beside others; nothing if it was always alone.
pub(crate) fn usage() -> Option<Usage> {
    DEFERRAL.existing()?.queues.total_usage().filter(|usage| *usage != Usage::default())
}

/// The process's queues.
pub(crate) fn deferral() -> &'static Deferral {
    DEFERRAL.get()
}

/// Whether a call that puts work on a stream goes at once, as far as that shows without a lock: others are suspended or held
/// back, and none of them concerns it.
pub(crate) fn goes_by(call: &Stopped<'_>) -> bool {
    let known = DEFERRAL.existing().zip(call.target.instance);
    known.is_some_and(|(deferral, copy)| deferral.goes_by(call, copy))
}

/// A call that puts work on a stream, while something is suspended or held back.
pub(crate) fn submit(call: &Stopped<'_>) -> Decision {
    let Some(copy) = call.target.instance else { return Decision::Pass(Reason::NotScheduled) };
    deferral().submit(call, copy)
}

/// A call that needs earlier work to have been launched, while something is suspended or held back.
pub(crate) fn order(call: &Stopped<'_>) -> Decision {
    let Some(copy) = call.target.instance else { return Decision::Pass(Reason::NothingHeldBack) };
    deferral().order(call, copy)
}

/// A call that nobody knows anything about.
pub(crate) fn drain() {
    deferral().queues.wait_all_launched();
}

/// A capture is about to begin on a stream. What is held back was submitted before, so it goes first.
///
/// False if the stream captures already.
pub(crate) fn capture_begins(copy: &Instance, stream: Stream) -> bool {
    let deferral = deferral();
    let is_first = deferral.books().capture_begins((copy.index(), stream.0.addr()));
    deferral.note_captures(false);
    deferral.queues.wait_all_launched();
    // A question about an event would end the capture.
    deferral.note_captures(true);
    is_first
}

/// A capture has ended on a stream, or did not begin.
pub(crate) fn capture_ended(copy: &Instance, stream: Stream) {
    let deferral = deferral();
    deferral.books().capture_ends((copy.index(), stream.0.addr()));
    deferral.note_captures(true);
}

/// Devices that were set and claimed, by copy: a bit for each of the first 64 ordinals.
static SET: [AtomicU64; INSTANCES] = [const { AtomicU64::new(0) }; INSTANCES];

/// The calling thread has this device from now on, or another one, and will use it.
pub(crate) fn device_set(copy: &Instance, ordinal: Option<u32>) {
    let bit = ordinal.and_then(|ordinal| 1_u64.checked_shl(ordinal)).unwrap_or(0);
    if SET[copy.index()].load(Ordering::Relaxed) & bit != 0 {
        return;
    }
    let is_used = |deferral: &&Deferral| deferral.is_used.load(Ordering::Acquire);
    if let Some(deferral) = DEFERRAL.existing().filter(is_used)
        && let Some(device) = real::current_device(copy)
    {
        deferral.claim(copy, device, 0);
        SET[copy.index()].fetch_or(bit, Ordering::Relaxed);
    }
}

/// A stream was created. It is known from now on, since what it has on the device matters as soon as others come.
pub(crate) fn stream_created(copy: &'static Instance, stream: Stream) {
    let deferral = deferral();
    deferral.note_first_use(copy);
    let device = real::device_of(copy, stream).or_else(|| real::current_device(copy));
    if let (Some(device), Some(is_blocking)) = (device, real::is_blocking(copy, stream)) {
        let key = StreamKey::Created { copy: copy.index(), handle: stream.0.addr() };
        // A handle of before whose end nobody has told.
        let former = deferral.books().remove_stream(key);
        if let Some(entry) = former {
            deferral.forget(entry);
        }
        deferral.add_stream(copy, key, device, is_blocking);
    }
}

/// A stream is about to go.
pub(crate) fn stream_destroyed(copy: &Instance, stream: Stream) {
    let Some(deferral) = DEFERRAL.existing() else { return };
    let key = StreamKey::Created { copy: copy.index(), handle: stream.0.addr() };
    let mut books = deferral.books();
    books.capture_ends((copy.index(), stream.0.addr()));
    let entry = books.remove_stream(key);
    drop(books);
    deferral.note_captures(true);
    if let Some(entry) = entry {
        deferral.forget(entry);
    }
}

/// All streams of a copy may be about to go.
pub(crate) fn device_reset(copy: &Instance) {
    let Some(deferral) = DEFERRAL.existing() else { return };
    deferral.queues.forget_gates();
    let mut books = deferral.books();
    deferral.nulls.forget(copy.index());
    let entries = books.remove_streams(copy.index());
    drop(books);
    deferral.note_captures(true);
    for entry in entries {
        deferral.forget(entry);
    }
    deferral.queues.device().forget(copy);
}

impl Deferral {
    /// Holds everything back from now on; false lets it go again.
    pub(crate) fn suspend_process(&self, suspended: bool) {
        self.queues.suspend_all(suspended);
    }

    /// Holds one of the queues back, whichever this number means; `suspended` false lets it go again.
    ///
    /// False if there is no queue yet.
    pub(crate) fn suspend_one(&self, number: usize, suspended: bool) -> bool {
        let queue = self.books().nth_queue(number);
        if let Some(queue) = queue {
            self.queues.suspend(queue, suspended);
        }
        queue.is_some()
    }

    /// Lets everything go.
    pub(crate) fn resume(&self) {
        let queues = self.books().queues();
        for queue in queues {
            self.queues.suspend(queue, false);
        }
        self.queues.suspend_all(false);
    }

    /// Forgets a stream's queue, and a failure that nobody will ask for.
    fn forget(&self, entry: &'static StreamEntry) {
        device::take_failure(&entry.failure);
        if self.queues.destroy(entry.queue()) {
            self.books().reuse(entry);
        }
    }

    /// Never held while waiting, or while calling the runtime.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the device that the process uses first, and has somebody see to it from now on.
    fn note_first_use(&self, copy: &'static Instance) {
        if self.is_used.load(Ordering::Acquire) || self.is_used.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(device) = real::current_device(copy) {
            self.claim(copy, device, 0);
        }
        arbiter::start(&self.queues);
        self.queues.await_first_use(false);
    }

    fn claim(&self, copy: &Instance, device: i32, priority: i32) -> Option<ClaimId> {
        self.devices.claim(&self.queues, copy, device, priority)
    }

    /// Captures have begun or ended: nothing is held back while any goes on. With `with_markers`, markers pause as well.
    fn note_captures(&self, with_markers: bool) {
        // What another thread finds out meanwhile comes after this.
        let _turn = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        let is_any = self.books().is_any_capturing();
        if self.is_capturing.swap(is_any, Ordering::AcqRel) != is_any {
            self.queues.hold_nothing(is_any);
        }
        if with_markers {
            self.queues.pause_markers(is_any);
        }
    }

    fn goes_by(&self, call: &Stopped<'_>, copy: &Instance) -> bool {
        let StreamName::Created(stream) = call.stream_name() else { return false };
        let key = StreamKey::Created { copy: copy.index(), handle: stream.0.addr() };
        let is_open = matches!(self.queues.course(), Course::Open | Course::ByFace);
        is_open
            && streams::remembered(key).is_some_and(|entry| {
                let has_failed = entry.failure.load(Ordering::Acquire) != 0;
                entry.face.is_clear() && !has_failed && self.is_apart(key, entry)
            })
            && own::events(call, copy).is_empty()
    }

    /// Whether what is held back of other streams is none of a stream's business, but for events.
    fn is_apart(&self, key: StreamKey, entry: &StreamEntry) -> bool {
        matches!(key, StreamKey::Created { .. })
            && (!entry.is_blocking() || self.nulls.is_clear(key.copy(), entry.device()))
    }

    fn submit(&self, call: &Stopped<'_>, copy: &'static Instance) -> Decision {
        self.note_first_use(copy);
        let uses = own::events(call, copy);
        if self.is_capturing.load(Ordering::Acquire) {
            return self.beside_a_capture(call, copy, &uses);
        }
        let Some((key, entry, device)) = self.stream_of(call, copy) else {
            return self.without_a_queue(call, copy, &uses);
        };
        let demand = demand(call);
        if self.must_wait(entry, demand) {
            return self.later(call, copy, (key, entry, device), demand, &uses);
        }
        let admission = {
            let books = self.books();
            self.queues.admit(entry.queue(), &self.before(&books, key, &uses), demand)
        };
        match admission {
            Admission::Free => goes(None, entry, reason(demand.treatment, Reason::NotScheduled)),
            Admission::Now(begun) => goes(Some(begun), entry, reason(demand.treatment, Reason::Scheduled)),
            Admission::Wait => self.later(call, copy, (key, entry, device), demand, &uses),
        }
    }

    /// Whether a call must wait, as far as that shows without a lock.
    fn must_wait(&self, entry: &StreamEntry, demand: Demand) -> bool {
        let is_kept = match self.queues.course() {
            Course::Shut => true,
            Course::ByFace => !entry.face.is_clear(),
            Course::Open | Course::Asks => false,
        };
        is_kept && !demand.treatment.is_forced() && !is_planted(Bug::Overtaking)
    }

    /// A call that must wait.
    fn later(
        &self,
        call: &Stopped<'_>,
        copy: &'static Instance,
        (key, entry, device): (StreamKey, &'static StreamEntry, i32),
        demand: Demand,
        uses: &[EventUse],
    ) -> Decision {
        let Some(owned) = own::own(call, copy, device, uses) else {
            return self.in_place(key, entry, demand, uses);
        };
        let queue = entry.queue();
        if demand.treatment.is_forced() {
            // What fills the queue may be suspended.
            self.queues.urge(self.queues.last(queue).as_slice());
        }
        process::let_go_first();
        let mut command = HipCommand { call: owned, copy, device, stream: entry };
        loop {
            let is_alone = uses.is_empty() && self.is_apart(key, entry);
            let mut books = (!is_alone).then(|| self.books());
            let before = books.as_ref().map(|books| self.before(books, key, uses)).unwrap_or_default();
            match self.queues.submit(queue, before, demand, command) {
                Ok(position) => {
                    if let Some(books) = &mut books {
                        books.used(uses, position, &self.queues);
                    }
                    break;
                }
                Err((Refused::Full, refused)) => {
                    drop(books);
                    command = refused;
                    self.queues.wait_for_room(queue);
                }
                Err(_) => {
                    drop(books);
                    return self.in_place(key, entry, demand, uses);
                }
            }
        }
        Decision::Answer(HipError(device::take_failure(&entry.failure).unwrap_or(0)))
    }

    fn before(&self, books: &Books, key: StreamKey, uses: &[EventUse]) -> Vec<Position> {
        let mut before = books.before_on(key, &self.queues);
        before.extend(books.before_uses(uses));
        before
    }

    /// Waits for the call's turn.
    fn in_place(&self, key: StreamKey, entry: &StreamEntry, demand: Demand, uses: &[EventUse]) -> Decision {
        let before = self.before(&self.books(), key, uses);
        let begun = self.queues.wait_turn(entry.queue(), &before, demand);
        goes(begun, entry, Reason::WaitedInPlace)
    }

    /// A call on a stream that has no queue: the per-thread stream, or what is no stream.
    fn without_a_queue(&self, call: &Stopped<'_>, copy: &'static Instance, uses: &[EventUse]) -> Decision {
        if call.stream_name() == StreamName::PerThread
            && let Some(device) = real::current_device(copy)
        {
            let claim = self.claim(copy, device, 0);
            let before = {
                let books = self.books();
                let mut before = books.before_uses(uses);
                before.extend(books.last_of_null(copy.index(), device, &self.queues));
                before
            };
            let stream = HipStream { copy, device, handle: PER_THREAD };
            if let Some(begun) = self.queues.wait_loose_turn(claim, stream, &before, demand(call)) {
                return Decision::Make(Followed::of(begun, Reason::WaitedInPlace));
            }
        }
        Decision::Pass(Reason::WaitedInPlace)
    }

    fn beside_a_capture(&self, call: &Stopped<'_>, copy: &'static Instance, uses: &[EventUse]) -> Decision {
        // Who begins a capture waits for what is held back. Until that is over this call would overtake it.
        self.queues.wait_all_launched();
        let StreamName::Created(stream) = call.stream_name() else {
            return Decision::Pass(Reason::StreamCapture);
        };
        // A wait for an event may make a stream join the capture.
        let joins = uses.iter().any(|used| matches!(used, EventUse::Wait(_)));
        if joins || real::is_capturing(copy, stream) {
            return Decision::Pass(Reason::StreamCapture);
        }
        match self.stream_of(call, copy) {
            Some((key, entry, _)) => self.in_place(key, entry, demand(call), uses),
            None => Decision::Pass(Reason::StreamCapture),
        }
    }

    /// The stream of a call, and the calling thread's device. None for the per-thread stream, and for what is no
    /// stream.
    fn stream_of(
        &self,
        call: &Stopped<'_>,
        copy: &'static Instance,
    ) -> Option<(StreamKey, &'static StreamEntry, i32)> {
        let device = real::current_device(copy)?;
        let key = key(copy, call.stream_name(), device)?;
        let entry = streams::remembered(key).or_else(|| {
            let generation = streams::generation();
            let entry = self.find_stream(call, copy, key, device)?;
            streams::remember(key, generation, entry);
            Some(entry)
        })?;
        Some((key, entry, device))
    }

    fn find_stream(
        &self,
        call: &Stopped<'_>,
        copy: &'static Instance,
        key: StreamKey,
        device: i32,
    ) -> Option<&'static StreamEntry> {
        let known = self.books().stream(key);
        known.or_else(|| {
            let (device, is_blocking) = match call.stream_name() {
                StreamName::Created(stream) => {
                    let is_blocking = real::is_blocking(copy, stream)?;
                    (real::device_of(copy, stream).unwrap_or(device), is_blocking)
                }
                StreamName::Legacy | StreamName::PerThread => (device, true),
            };
            Some(self.add_stream(copy, key, device, is_blocking))
        })
    }

    fn add_stream(
        &self,
        copy: &'static Instance,
        key: StreamKey,
        device: i32,
        is_blocking: bool,
    ) -> &'static StreamEntry {
        let handle = match key {
            StreamKey::Legacy { .. } => 0,
            StreamKey::Created { handle, .. } => handle,
        };
        let stream = HipStream { copy, device, handle };
        let priority = if handle == 0 { 0 } else { real::priority(copy, stream.name()) };
        let claim = self.claim(copy, device, priority);
        let mut books = self.books();
        let entry = books.add_stream(key, device, is_blocking, |face| {
            self.queues.create(stream, claim, face);
        });
        if matches!(key, StreamKey::Legacy { .. }) {
            self.nulls.set(copy.index(), device, entry);
        }
        entry
    }

    fn order(&self, call: &Stopped<'_>, copy: &'static Instance) -> Decision {
        if puts_work(call) || is_on_many_streams(call) {
            self.note_first_use(copy);
        }
        if !self.queues.has_reason() && !device::has_untold_failures() {
            return Decision::Pass(Reason::NothingHeldBack);
        }
        let treatment = Treatment::from(verdict::judge(call));
        let wait = |positions: &[Position]| {
            if treatment.is_forced() {
                self.queues.urge(positions);
            }
            self.queues.wait_launched(positions);
        };
        let event = |argument: usize| (copy.index(), call.size(argument));
        let pending = |argument| {
            let record = self.books().record_of(event(argument));
            record.filter(|&record| !self.queues.are_launched(&[record]))
        };
        match call.id() {
            Id::hipEventQuery if pending(0).is_some() => return Decision::Answer(HipError::NOT_READY),
            Id::hipEventElapsedTime
                if call.size(0) != 0 && (pending(1).is_some() || pending(2).is_some()) =>
            {
                return Decision::Answer(HipError::NOT_READY);
            }
            Id::hipEventSynchronize => wait(pending(0).as_slice()),
            Id::hipEventDestroy => {
                let before = self.books().before_uses(&[EventUse::Record(event(0))]);
                wait(&before);
                self.books().remove_event(event(0));
            }
            Id::hipStreamQuery | Id::hipStreamQuery_spt
                if !self.pending_on(call, copy).is_empty() && !is_planted(Bug::EarlyAnswer) =>
            {
                return Decision::Answer(HipError::NOT_READY);
            }
            Id::hipEventQuery | Id::hipEventElapsedTime | Id::hipStreamQuery | Id::hipStreamQuery_spt => {}
            Id::hipStreamSynchronize if is_planted(Bug::MissedDrain) => {}
            Id::hipFree if is_planted(Bug::FreeWithoutDrain) => {}
            Id::hipStreamSynchronize | Id::hipStreamSynchronize_spt | Id::hipStreamDestroy => {
                wait(&self.pending_on(call, copy));
            }
            _ if is_on_many_streams(call) => self.queues.wait_turn_of_all(treatment),
            _ if puts_work(call) => return self.submit_in_place(call, copy),
            _ => wait(&self.queues.all_last()),
        }
        let known = self.known_stream(call, copy);
        let tells = known.as_ref().and_then(|(_, entry)| device::take_failure(&entry.failure)).map(HipError);
        let waits_for = self.waited_for(call, copy, known.map(|(_, entry)| entry.queue()));
        let is_watched_wait = call.id() == Id::hipEventSynchronize && self.queues.is_recorded();
        Followed { reason: Reason::Drained, tells, begun: None, waits_for, is_watched_wait }.decision()
    }

    /// What a call that waits for the device will have seen complete.
    fn waited_for(&self, call: &Stopped<'_>, copy: &Instance, queue: Option<QueueId>) -> Vec<(QueueId, u64)> {
        let queues = match call.id() {
            Id::hipStreamSynchronize | Id::hipStreamSynchronize_spt => queue.into_iter().collect(),
            // It frees what the device may still use, so it waits for all of that first.
            Id::hipFree if call.size(0) == 0 => Vec::new(),
            Id::hipDeviceSynchronize | Id::hipCtxSynchronize | Id::hipFree => {
                let device = real::current_device(copy);
                device.map(|device| self.books().queues_of(copy.index(), device)).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        self.queues.waits_for(&queues)
    }

    /// A call that both puts work on a stream and waits for it, or returns what cannot wait.
    fn submit_in_place(&self, call: &Stopped<'_>, copy: &'static Instance) -> Decision {
        if self.books().is_any_capturing() {
            return self.beside_a_capture(call, copy, &[]);
        }
        match self.stream_of(call, copy) {
            Some((key, entry, _)) => self.in_place(key, entry, demand(call), &[]),
            None => self.without_a_queue(call, copy, &[]),
        }
    }

    /// What is held back of what a question about a stream concerns, or a wait for it.
    fn pending_on(&self, call: &Stopped<'_>, copy: &'static Instance) -> Vec<Position> {
        let Some((key, entry)) = self.known_stream(call, copy) else { return Vec::new() };
        let mut pending: Vec<_> = self.queues.last(entry.queue()).into_iter().collect();
        if matches!(key, StreamKey::Legacy { .. }) {
            pending.extend(self.books().blocking(copy.index(), entry.device(), &self.queues));
        }
        pending
    }

    /// The stream of a call, if anything was ever held back on it.
    ///
    /// The null stream counts as known as soon as the device has a stream.
    fn known_stream(
        &self,
        call: &Stopped<'_>,
        copy: &'static Instance,
    ) -> Option<(StreamKey, &'static StreamEntry)> {
        let name = call.stream.map(|_| call.stream_name())?;
        let device = if name == StreamName::Legacy { real::current_device(copy)? } else { 0 };
        let key = key(copy, name, device)?;
        let known = self.books().stream(key);
        let entry = match name {
            StreamName::Legacy => Some(known.unwrap_or_else(|| self.add_stream(copy, key, device, true))),
            _ => known,
        };
        Some((key, entry?))
    }
}

/// Why a call goes at once that is treated so.
fn reason(treatment: Treatment, scheduled: Reason) -> Reason {
    match treatment {
        Treatment::NeverSuspend => Reason::NeverSuspended,
        Treatment::PassThrough => Reason::PassedThrough,
        Treatment::Schedule | Treatment::Pinned => scheduled,
    }
}

/// What a call asks for: what it means for its device, and how whoever makes it is to be treated.
fn demand(call: &Stopped<'_>) -> Demand {
    Demand::judged(load(call), verdict::judge(call))
}

fn key(copy: &Instance, name: StreamName, device: i32) -> Option<StreamKey> {
    match name {
        StreamName::Legacy => Some(StreamKey::Legacy { copy: copy.index(), device }),
        StreamName::PerThread => None,
        StreamName::Created(stream) => {
            Some(StreamKey::Created { copy: copy.index(), handle: stream.0.addr() })
        }
    }
}

/// Whether a call puts work on several streams, or on one that it does not name.
fn is_on_many_streams(call: &Stopped<'_>) -> bool {
    call.function.family == Family::launch
}

/// Whether a call that must not be made later puts work on a device.
fn puts_work(call: &Stopped<'_>) -> bool {
    matches!(call.function.family, Family::copy | Family::set)
        || matches!(call.id(), Id::hipMallocAsync | Id::hipMallocFromPoolAsync)
}

impl Followed {
    fn of(begun: Begun<Hip>, reason: Reason) -> Self {
        Self { reason, tells: None, begun: Some(begun), waits_for: Vec::new(), is_watched_wait: false }
    }

    /// A call that nobody needs to follow just passes.
    fn decision(self) -> Decision {
        if self.tells.is_none() && self.begun.is_none() && self.waits_for.is_empty() && !self.is_watched_wait
        {
            Decision::Pass(self.reason)
        } else {
            Decision::Make(self)
        }
    }
}

/// A call that may go now, or what tells of its end.
fn goes(begun: Option<Begun<Hip>>, entry: &StreamEntry, reason: Reason) -> Decision {
    let tells = device::take_failure(&entry.failure).map(HipError);
    Followed { reason, tells, begun, waits_for: Vec::new(), is_watched_wait: false }.decision()
}
