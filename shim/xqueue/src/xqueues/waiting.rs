//! Waiting in place: callers whose command is not deferred wait for its admission; others wait for launches of deferred commands.

use crate::clock::now;
use crate::command::{Delay, Demand, Load, PendingLaunch, Treatment};
use crate::device::Device;
use crate::ids::{ClaimId, Position, QueueId, Source};
use crate::state::State;
use crate::xqueues::XQueues;
use crate::xqueues::locked::Locked;

impl<D: Device> XQueues<D> {
    /// Waits while the queue is full. If the calling thread itself suspended the queue, its oldest command is released.
    pub fn wait_while_full(&self, queue: QueueId) {
        let mut state = self.lock();
        if state.is_full(queue) && state.release_oldest(queue) {
            self.publish(&mut state);
        }
        drop(self.wait_in_place(state, |state| !state.is_full(queue) || state.mode.closed));
    }

    /// Waits until all of these were launched.
    pub fn wait_launched(&self, positions: &[Position]) {
        self.wait_launched_by(None, positions);
    }

    /// The same in a call for the stream of `own`: the caller waits for that queue even while the program holds it.
    pub fn wait_launched_by(&self, own: Option<QueueId>, positions: &[Position]) {
        drop(self.wait_launched_in_place(self.lock(), own, positions));
    }

    /// The same for a call that will wait for the device anyway. Limits still apply: the program expects to wait.
    pub fn wait_launched_as_expected(&self, own: Option<QueueId>, positions: &[Position]) {
        drop(self.wait_for_launches(self.lock(), own, positions));
    }

    /// Waits until everything that is deferred now has been launched.
    pub fn wait_all_launched(&self) {
        self.wait_launched(&self.all_last());
    }

    /// Waits like a command that comes after these: until they were launched, the queue is not suspended, and more may be
    /// launched ahead. Then notes that the command is being launched.
    pub fn wait_for_admission(
        &self,
        queue: QueueId,
        after: &[Position],
        demand: impl Into<Demand>,
    ) -> Option<PendingLaunch<D>> {
        let demand = demand.into();
        let since = now();
        let mut state = self.lock();
        state.note_wait(queue, 0, demand, since);
        let after: Vec<_> = after.iter().copied().chain(state.last(queue)).collect();
        self.force_if_asked(&mut state, demand, &after);
        let waiting = Some(Source::Queue(queue)).filter(|_| demand.treatment.is_counted());
        let mut state = self.wait_until(state, waiting, (Some(queue), &after), |state| {
            let may_launch = || {
                !state.is_suspended_for_caller(queue)
                    && state.may_launch_ahead(Source::Queue(queue), demand.load)
            };
            demand.treatment.is_forced() || may_launch()
        });
        let launch = state.begin(queue, demand, Delay::InPlace(since));
        self.open_gates_for(&mut state, launch.as_ref());
        launch
    }

    /// The same for a stream that has no queue.
    pub fn wait_for_unqueued_admission(
        &self,
        claim: Option<ClaimId>,
        stream: D::Stream,
        after: &[Position],
        demand: impl Into<Demand>,
    ) -> Option<PendingLaunch<D>> {
        let demand = demand.into();
        let since = now();
        let mut state = self.lock();
        self.force_if_asked(&mut state, demand, after);
        let waiting = claim.filter(|_| demand.treatment.is_counted()).map(Source::Unqueued);
        let mut state = self.wait_until(state, waiting, (None, after), |state| {
            let may_launch_ahead = |claim| state.may_launch_ahead(Source::Unqueued(claim), demand.load);
            let may_launch =
                || claim.is_none_or(|claim| !state.is_preempted(claim) && may_launch_ahead(claim));
            demand.treatment.is_forced() || !state.mode.all_suspended && may_launch()
        });
        let source = Source::Unqueued(claim?);
        let stream = (stream, self.device.runtime(stream));
        let launch = state.begin_from(source, claim?, stream, demand, Delay::InPlace(since));
        self.open_gates_for(&mut state, launch.as_ref());
        launch
    }

    /// Waits like a command that comes after everything deferred.
    pub fn wait_behind_all(&self, treatment: Treatment) {
        let mut state = self.lock();
        let after = state.all_last();
        let demand = Demand { treatment, ..Load::Signal.into() };
        self.force_if_asked(&mut state, demand, &after);
        let may_launch = |state: &State<D>| treatment.is_forced() || !state.is_any_suspended();
        let mut state = self.wait_until(state, None, (None, &after), may_launch);
        if treatment.is_forced() {
            state.pin_all();
            state.update_gates(&self.device);
        }
    }

    /// Forces what a forced command comes after.
    fn force_if_asked(&self, state: &mut State<D>, demand: Demand, after: &[Position]) {
        if demand.treatment.is_forced() && !state.are_launched(after) {
            state.force(after);
            self.publish(state);
        }
    }

    /// Waits until these were launched, and then until `may_launch`, for the admission of `waiting`. The caller is in a call for the
    /// stream of `own`.
    fn wait_until<'a>(
        &'a self,
        state: Locked<'a, D>,
        waiting: Option<Source>,
        (own, after): (Option<QueueId>, &[Position]),
        may_launch: impl Fn(&State<D>) -> bool,
    ) -> Locked<'a, D> {
        // Until those launches, the claim cannot use the device: if it were ready, it could hold back the very commands that it
        // waits for.
        let mut state = self.wait_launched_in_place(state, own, after);
        if may_launch(&state) {
            return state;
        }
        if let Some(source) = waiting {
            state.caller_waits(source);
            // If the states have changed since the watcher's last look, the watcher must find that change.
            state.update_admission_states();
            self.wake_watcher();
        }
        state = self.wait_in_place(state, may_launch);
        if let Some(source) = waiting {
            state.caller_waits_no_more(source);
        }
        state
    }

    /// Waits in place until all of these were launched.
    fn wait_launched_in_place<'a>(
        &'a self,
        mut state: Locked<'a, D>,
        own: Option<QueueId>,
        positions: &[Position],
    ) -> Locked<'a, D> {
        state.waiters.in_place += 1;
        state = self.wait_for_launches(state, own, positions);
        state.waiters.in_place -= 1;
        state
    }

    /// Waits in a call that need not wait for the device. The device may wait for what the caller would do next, so a stalled
    /// stream is not limited meanwhile ([`State::may_launch_ahead`]), and the wait ends.
    fn wait_in_place<'a>(
        &'a self,
        mut state: Locked<'a, D>,
        is_over: impl Fn(&State<D>) -> bool,
    ) -> Locked<'a, D> {
        state.waiters.in_place += 1;
        while !is_over(&state) {
            state = self.wait(state);
        }
        state.waiters.in_place -= 1;
        state
    }
}
