//! When to look for completions: at markers, and whether streams are done.

use xsched_sched::Nanos;

use crate::clock::now;
use crate::device::Device;
use crate::flight::{Flight, QUIET, UNMARKED_MAX};
use crate::ids::{ClaimId, QueueId, Source};
use crate::queue::Queue;
use crate::state::State;

/// The longest time between two looks for completions while the process is recorded.
const CHECK_EVERY: Nanos = Nanos::from_millis(1);

/// With more busy queues than this, streams are asked later and have fewer markers, in proportion: a look at all of them takes
/// longer, too.
const FEW: u64 = 16;

/// How much later streams are asked, and commands get a marker, at most.
const ASKED_LATER_MAX: Nanos = Nanos::from_millis(5);
const MARKED_LATER_MAX: Nanos = Nanos::from_millis(30);

/// How late the return of a launch may be noticed, if no stream was asked meanwhile.
const LAUNCHED_WITHIN: Nanos = Nanos::from_millis(1);

impl<D: Device> State<D> {
    /// When the watcher must look at a source's first marker, or ask its stream.
    pub(crate) fn next_check(&self, source: Source) -> Option<Nanos> {
        let flight = self.flight(source)?;
        self.next_marker_check(source, flight, self.has_deferred())
            .into_iter()
            .chain(flight.ask_stream_at())
            .min()
    }

    /// When the watcher must look again, over all sources. None while completions are not followed: what ends that state wakes
    /// the watcher.
    pub(super) fn next_check_of_all(&self, now: Nanos) -> Option<Nanos> {
        if self.limits.is_paused {
            return None;
        }
        let has_deferred = self.have_deferred();
        let markers = self
            .flights()
            .filter_map(|(source, flight)| self.next_marker_check(source, flight, &has_deferred));
        let awaited = self.host_awaited_claim();
        let busy = self.queues.busy().map(|(_, queue)| queue);
        let unawaited = busy.filter(|queue| !is_end_seen_by_host(queue, awaited));
        let streams = unawaited.filter_map(|queue| self.ask_stream_at(queue, now));
        markers.chain(streams).min()
    }

    /// When to ask a queue's stream whether it is done. Never while a launch is pending: it may take long to return.
    fn ask_stream_at(&self, queue: &Queue<D>, now: Nanos) -> Option<Nanos> {
        let at = queue.flight().ask_stream_at()? + self.asked_later();
        Some(if self.is_claim_launching(queue) {
            at.max(now + (now - at).clamp(QUIET, LAUNCHED_WITHIN))
        } else {
            at
        })
    }

    /// How much later than usual streams are asked. A process that uses many streams in turn leaves each alone for a while.
    fn asked_later(&self) -> Nanos {
        QUIET.times(self.queues.busy_count() as u64 / FEW).min(ASKED_LATER_MAX)
    }

    /// How much later than usual commands that have no marker get one. A stream that is left alone is asked before.
    pub(super) fn marked_later(&self) -> Nanos {
        UNMARKED_MAX.times(self.queues.busy_count() as u64 / FEW).min(MARKED_LATER_MAX)
    }

    /// Whether a launch of the queue's claim is pending: its marker may follow.
    fn is_claim_launching(&self, queue: &Queue<D>) -> bool {
        queue.claim().is_some_and(|claim| self.claims.get(claim).is_launching())
    }

    /// The first marker of a source.
    pub(crate) fn first_marker(&self, source: Source) -> Option<D::Marker> {
        self.flight(source)?.first_marker()
    }

    /// The last complete marker of a source, just before its first incomplete one.
    pub(crate) fn marker_before(&self, source: Source) -> Option<D::Marker> {
        match source {
            Source::Queue(queue) => self.queues.get(queue)?.flight().marker_before(),
            Source::Unqueued(_) => None,
        }
    }

    /// Markers that are due to be looked at.
    pub(crate) fn due_markers(&self, now: Nanos) -> Vec<(Source, D::Marker)> {
        let has_deferred = self.have_deferred();
        let is_due = |source, flight| {
            self.next_marker_check(source, flight, &has_deferred).is_some_and(|at| at <= now)
        };
        let due = self.flights().filter(|&(source, flight)| is_due(source, flight));
        due.filter_map(|(source, flight)| Some((source, flight.first_marker()?))).collect()
    }

    fn next_marker_check(
        &self,
        source: Source,
        flight: &Flight<D::Marker>,
        has_deferred: impl FnOnce(ClaimId) -> bool,
    ) -> Option<Nanos> {
        flight.first_marker()?;
        let at = flight.next_check(self.is_flight_waited_for(source, flight, has_deferred))?;
        // A recorded process needs the time of each completion, not only of the last one.
        Some(if self.is_recorded() { at.min(flight.last_check() + CHECK_EVERY) } else { at })
    }

    /// Whether commands wait, or soon will, until some of a source's commands complete.
    pub(super) fn is_completion_waited_for(&self, source: Source) -> bool {
        self.flight(source)
            .is_some_and(|flight| self.is_flight_waited_for(source, flight, self.has_deferred()))
    }

    /// The same for a flight. A command that a worker is about to launch does not count while far more may be launched. Waking
    /// the watcher for each launch takes longer than the launch.
    fn is_flight_waited_for(
        &self,
        source: Source,
        flight: &Flight<D::Marker>,
        has_deferred: impl FnOnce(ClaimId) -> bool,
    ) -> bool {
        let Some(claim) = self.claim_of_source(source) else { return false };
        self.claims.get(claim).has_waiting_callers() || has_deferred(claim) && flight.is_half_full(now())
    }

    /// Whether callers or deferred commands of a claim wait.
    pub(super) fn is_waited_for(&self, claim: ClaimId) -> bool {
        self.claims.get(claim).has_waiting_callers() || self.has_deferred()(claim)
    }

    /// Whether a claim has deferred commands that only its admission keeps.
    fn has_deferred(&self) -> impl Fn(ClaimId) -> bool {
        let is_of = |queue: &Queue<D>, claim| queue.claim() == Some(claim) && self.has_use(queue);
        // Usually nothing is deferred, and a launch need not look at all queues to find that out.
        move |claim| self.is_any_buffered() && self.queues.deferring().any(|(_, queue)| is_of(queue, claim))
    }

    /// The same for many claims: each queue is looked at once.
    fn have_deferred(&self) -> impl Fn(ClaimId) -> bool + use<D> {
        let mut deferred = vec![false; self.claims.len()];
        for (_, queue) in self.queues.deferring() {
            if let Some(ClaimId(index)) = queue.claim() {
                deferred[index] = deferred[index] || self.has_use(queue);
            }
        }
        move |ClaimId(index)| deferred[index]
    }

    /// Streams that have commands in flight, no marker behind them and none coming soon. With each: the stream, if it may be
    /// asked whether it is done, and how many commands it was given.
    ///
    /// No marker is recorded late: it would complete only after what the program has put into the stream since. By the rules of
    /// null streams, it may even wait for other streams' work. A program that has seen its stream done would find it busy again,
    /// or would wait for work that it holds up itself. A stream without a marker that may not be asked is given up, such as a
    /// null stream that is not the only stream any more.
    pub(crate) fn quiet_streams(&self, now: Nanos) -> Vec<(QueueId, Option<D::Stream>, u64)> {
        let (awaited, later) = (self.host_awaited_claim(), self.asked_later());
        let quiet = self.queues.busy().filter(|(_, queue)| {
            !self.is_claim_launching(queue)
                && !is_end_seen_by_host(queue, awaited)
                && queue.flight().ask_stream_at().is_some_and(|at| at + later <= now)
        });
        let asked = |queue: &Queue<D>| queue.stream().filter(|_| self.may_be_asked(queue));
        quiet.map(|(id, queue)| (id, asked(queue), queue.flight().launched_so_far())).collect()
    }

    /// Whether a queue's stream may be asked whether it is done. A stream that orders others is done only when they are. Asking
    /// it may make them wait without need.
    pub(super) fn may_be_asked(&self, queue: &Queue<D>) -> bool {
        !queue.orders_others() || self.queues.ordered(queue.runtime()) == 1
    }

    /// Whether the watcher will ask a queue's stream if nothing else shows that it is done.
    pub(crate) fn may_be_asked_later(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_some_and(|queue| self.may_be_asked(queue))
    }

    /// A queue's stream, and how many commands it was given, if other processes should know of what it has in flight.
    pub(crate) fn stream_in_use(&self, queue: QueueId) -> Option<(D::Stream, u64)> {
        let queue = self.queues.get(queue)?;
        let is_alone = self.claims.get(queue.claim()?).is_alone();
        let flight = queue.flight();
        let is_in_use = !flight.is_empty() || flight.is_any_unfollowed() && !is_alone;
        queue.stream().filter(|_| is_in_use).map(|stream| (stream, flight.launched_so_far()))
    }

    /// The claim whose callers see the ends of its streams, because they wait for them. None if callers also wait for another
    /// claim's streams, as a wait for a whole device does: those streams may be busy for much longer.
    fn host_awaited_claim(&self) -> Option<ClaimId> {
        let mut awaited = self.queues.busy().map(|(_, queue)| queue).filter(|queue| queue.is_host_waiting());
        let claim = awaited.next()?.claim();
        claim.filter(|_| awaited.all(|other| other.claim() == claim))
    }
}

/// Whether a caller that waits for the queue's stream sees its end. `awaited` is the claim of [`State::host_awaited_claim`].
fn is_end_seen_by_host<D: Device>(queue: &Queue<D>, awaited: Option<ClaimId>) -> bool {
    queue.is_host_waiting() && queue.claim().is_some() && queue.claim() == awaited
}
