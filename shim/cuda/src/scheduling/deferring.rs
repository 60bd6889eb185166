//! Deferring: which calls are made later, what a call comes after of them, and what waits for them.
//!
//! | call | waits until these were launched |
//! | --- | --- |
//! | on a stream | what is deferred on that stream, and what the null stream's rules put before it |
//! | of a context, of memory, of code, or of whatever else a launch may use | everything |
//!
//! Launches, fills and copies within devices are deferred. A record of an event is not, so an event needs no rule of its own: what it waits for was launched before.

use xsched_preload::added_calls::announcing;
use xsched_preload::memory;
use xsched_xqueue::{AdmissionMode, Demand, Position, QueueId, Refused, launching_queue};

use super::Scheduling;
use super::streams::KnownStream;
use crate::api::{Named, Work};
use crate::command::{Command, CommandWork, OwnedLaunch, defers, is_any_unmade, made};
use crate::counters::{Counter, count};
use crate::driver::{self, Context};
use crate::green;
use crate::kernels::CallKind;

impl Scheduling {
    /// The kind of a call that could be made later, on a stream with a queue.
    fn kind_of(&self, known: &KnownStream, work: &Work) -> Option<CallKind> {
        self.likely_kind(known, work).filter(|_| may_be_later(known))
    }

    /// The same for a call that is made now, if the driver is not known to take calls of that kind.
    #[inline]
    pub(super) fn new_kind(&self, known: &KnownStream, work: &Work) -> Option<CallKind> {
        // Most are known, so what takes a call of the driver comes last.
        let kind = self.likely_kind(known, work).filter(|&kind| !self.kernels.are_taken(kind));
        kind.filter(|_| may_be_later(known))
    }

    fn likely_kind(&self, known: &KnownStream, work: &Work) -> Option<CallKind> {
        let context = known.stream.context;
        match work {
            // SAFETY: work is what a call puts on a stream that has not returned.
            Work::Kernel(launch) => unsafe { CallKind::of_kernel(context, launch) },
            &Work::Graph(executable) => {
                self.graphs.plain(executable).map(|number| CallKind::of_graph(context, number))
            }
            Work::AsyncFill(fill) => Some(CallKind::of_fill(context, fill, self.kernels.freed())),
            Work::DeviceCopy(copy) => Some(CallKind::of_copy(context, *copy, self.kernels.freed())),
            Work::Copy(_) | Work::AwaitedCopy(_) | Work::Fill(_) => None,
        }
    }

    /// Defers work if the driver takes its kind. False if it has to wait in place.
    pub(super) fn defer(
        &self,
        known: &KnownStream,
        demand: Demand,
        work: &Work,
        announce: &dyn Fn(),
    ) -> bool {
        // While memory is short, queues and their records must not grow.
        if demand.treatment.is_forced() || driver::is_newer_given() || memory::is_short() {
            return false;
        }
        if !self.kind_of(known, work).is_some_and(|kind| self.kernels.are_taken(kind)) {
            return false;
        }
        let Some(owned) = self.owned(work) else { return false };
        let command =
            Command { context: known.stream.context, stream: known.stream.name.address(), work: owned };
        announcing(announce, || self.put(known, work, demand, command)).is_some()
    }

    /// Puts a command into its queue, once that has space. None: it may go now.
    fn put(&self, known: &KnownStream, work: &Work, demand: Demand, mut command: Command) -> Option<()> {
        let queue = known.queue();
        // Before it is: no thread misses it.
        defers();
        loop {
            match self.queues.submit(queue, self.before_work(known, work), demand, command) {
                Ok(_) => {
                    count(Counter::Deferred);
                    return Some(());
                }
                Err((Refused::Full, refused)) => {
                    command = refused;
                    self.queues.wait_while_full(queue);
                }
                Err(_) => {
                    made();
                    return None;
                }
            }
        }
    }

    fn owned(&self, work: &Work) -> Option<CommandWork> {
        match work {
            Work::Kernel(launch) => {
                let layout = self.kernels.layout(launch.function)?;
                // SAFETY: the launch's call has not returned, and the driver has said this of its function.
                unsafe { OwnedLaunch::of(launch, &layout) }.map(CommandWork::Kernel)
            }
            &Work::Graph(executable) => Some(CommandWork::Graph(executable)),
            &Work::AsyncFill(fill) => Some(CommandWork::Fill(fill)),
            &Work::DeviceCopy(copy) => Some(CommandWork::Copy(copy)),
            Work::Copy(_) | Work::AwaitedCopy(_) | Work::Fill(_) => None,
        }
    }

    /// The deferred work of other streams that a call on this stream must come after: the null stream orders what comes before
    /// and after it.
    pub(super) fn before(&self, KnownStream { stream, .. }: &KnownStream) -> Vec<Position> {
        match stream.name {
            Named::Legacy => {
                let is_other = |known: &KnownStream| {
                    known.stream.is_blocking
                        && known.stream.name != Named::Legacy
                        && known.stream.context == stream.context
                };
                self.last_of(is_other)
            }
            Named::PerThread | Named::Created(_) if stream.is_blocking => self.last_of_null(stream.context),
            Named::PerThread | Named::Created(_) => Vec::new(),
        }
    }

    /// The same for work. If its caller does not wait for it, it is enough that the driver has what comes before, even if the
    /// shim's marker behind that is still to come.
    pub(super) fn before_work(&self, known: &KnownStream, work: &Work) -> Vec<Position> {
        let is_awaited = matches!(work, Work::AwaitedCopy(_));
        if is_awaited || is_any_unmade() { self.before(known) } else { Vec::new() }
    }

    /// What is deferred on a context's null stream.
    pub(super) fn last_of_null(&self, context: Context) -> Vec<Position> {
        let null = self.streams.find(Some(context), Named::Legacy);
        let kept = null.filter(|null| !null.status.is_clear());
        kept.and_then(|null| self.queues.last(null.queue())).into_iter().collect()
    }

    fn last_of(&self, is_meant: impl Fn(&KnownStream) -> bool) -> Vec<Position> {
        let kept = self.streams.queues(|known| !known.status.is_clear() && is_meant(known));
        kept.into_iter().filter_map(|queue| self.queues.last(queue)).collect()
    }

    /// What a call for a stream comes after of all that is deferred, with the stream's queue.
    pub(crate) fn pending_on(&self, named: Named) -> (Option<QueueId>, Vec<Position>) {
        if !self.may_have_deferred() {
            return (None, Vec::new());
        }
        let current = driver::current_context();
        let known = match named {
            Named::PerThread => {
                return (None, current.map(|context| self.last_of_null(context)).unwrap_or_default());
            }
            Named::Legacy | Named::Created(_) => self.streams.find(current, named),
        };
        // Nothing was ever launched on a stream that is not known, but it may come after the null stream, or be a null stream.
        let Some(known) = known else { return (None, self.queues.all_last()) };
        let queue = known.queue();
        let mut pending = self.before(known);
        if !known.status.is_clear() {
            pending.extend(self.queues.last(queue));
        }
        (Some(queue), pending)
    }

    /// Waits until what a call for a stream comes after was launched.
    pub(crate) fn wait_before(&self, named: Named) {
        let (own, pending) = self.pending_on(named);
        if !pending.is_empty() {
            count(Counter::Drained);
            self.queues.wait_launched_by(own, &pending);
        }
    }

    /// The same for a call that will wait for the device anyway; None: for everything.
    pub(crate) fn wait_expecting(&self, named: Option<Named>) {
        if !self.may_have_deferred() {
            return;
        }
        let (own, pending) =
            named.map_or_else(|| (None, self.queues.all_last()), |named| self.pending_on(named));
        if !pending.is_empty() {
            count(Counter::Drained);
            self.queues.wait_launched_as_expected(own, &pending);
        }
    }

    /// Waits until everything that is deferred was launched.
    pub(crate) fn drain(&self) {
        let pending = if self.may_have_deferred() { self.queues.all_last() } else { Vec::new() };
        if !pending.is_empty() {
            count(Counter::Drained);
            self.queues.wait_launched(&pending);
        }
    }

    /// A thread that is launching what was deferred waits for nothing of that.
    fn may_have_deferred(&self) -> bool {
        self.queues.admission_mode() != AdmissionMode::Open && launching_queue().is_none()
    }
}

/// Whether a call on a stream means the same on another thread. The driver decides about another context's stream. A green context may be
/// current on one thread at a time.
fn may_be_later(known: &KnownStream) -> bool {
    let context = known.stream.context;
    let is_current = known.stream.name == Named::Legacy || driver::current_context() == Some(context);
    is_current && green::base(context) == context
}
