//! Waiting in place: callers whose command is not held back, until it is their turn, and those that wait for launches.

use crate::queues::contention::Place;
use crate::queues::recording::Held;
use crate::queues::state::State;
use crate::queues::treatment::{Demand, Treatment};
use crate::queues::waking::Locked;
use crate::queues::{Begun, ClaimId, Device, Load, Position, QueueId, XQueues, now};

impl<D: Device> XQueues<D> {
    /// Waits while the queue is full.
    pub fn wait_for_room(&self, queue: QueueId) {
        drop(self.wait_in_place(self.lock(), |state| !state.is_full(queue) || state.closed));
    }

    /// Waits until all of these were launched.
    pub fn wait_launched(&self, positions: &[Position]) {
        drop(self.wait_launched_in_place(self.lock(), positions));
    }

    /// The same for a call that will wait for the device anyway. Limits stay: the program expects to wait.
    pub fn wait_launched_as_expected(&self, positions: &[Position]) {
        drop(self.wait_for_launches(self.lock(), positions));
    }

    /// Waits until everything that is held back now was launched.
    pub fn wait_all_launched(&self) {
        self.wait_launched(&self.all_last());
    }

    /// Waits as a command would that comes after these: until the queue is not suspended, they were launched, and there is
    /// room. Then it goes.
    pub fn wait_turn(
        &self,
        queue: QueueId,
        after: &[Position],
        demand: impl Into<Demand>,
    ) -> Option<Begun<D>> {
        let demand = demand.into();
        let since = now();
        let mut state = self.lock();
        state.note_wait(queue, 0, demand, since);
        let after: Vec<_> = after.iter().copied().chain(state.last(queue)).collect();
        self.force_if_asked(&mut state, demand, &after);
        let claim = state.claim_of(queue).filter(|_| demand.treatment.is_counted());
        let mut state = self.wait_until(state, claim, &after, |state| {
            let may_go = || !state.is_suspended(queue) && state.has_room(Place::Queue(queue), demand.load);
            demand.treatment.is_forced() || may_go()
        });
        let begun = state.begin(queue, demand, Held::InPlace(since));
        self.open_for(&mut state, begun.as_ref());
        begun
    }

    /// The same for a stream that has no queue.
    pub fn wait_loose_turn(
        &self,
        claim: Option<ClaimId>,
        stream: D::Stream,
        after: &[Position],
        demand: impl Into<Demand>,
    ) -> Option<Begun<D>> {
        let demand = demand.into();
        let since = now();
        let mut state = self.lock();
        self.force_if_asked(&mut state, demand, after);
        let waiting = claim.filter(|_| demand.treatment.is_counted());
        let mut state = self.wait_until(state, waiting, after, |state| {
            let has_room = |claim| state.has_room(Place::Loose(claim), demand.load);
            let may_go = || claim.is_none_or(|claim| !state.is_held(claim) && has_room(claim));
            demand.treatment.is_forced() || !state.all_suspended && may_go()
        });
        let begun = state.begin_at(Place::Loose(claim?), claim?, stream, demand, Held::InPlace(since));
        self.open_for(&mut state, begun.as_ref());
        begun
    }

    /// Waits as a command would that comes after everything.
    pub fn wait_turn_of_all(&self, treatment: Treatment) {
        let mut state = self.lock();
        let after = state.all_last();
        let demand = Demand { treatment, ..Load::Signal.into() };
        self.force_if_asked(&mut state, demand, &after);
        let may_go = |state: &State<D>| treatment.is_forced() || !state.is_any_suspended();
        let mut state = self.wait_until(state, None, &after, may_go);
        if treatment.is_forced() {
            state.pin_all();
            state.set_gates(&self.device);
        }
    }

    /// What a command comes after that must not wait goes at once, too.
    fn force_if_asked(&self, state: &mut State<D>, demand: Demand, after: &[Position]) {
        if demand.treatment.is_forced() && !state.are_launched(after) {
            state.force(after);
            self.publish(state);
        }
    }

    /// Waits until these were launched and a claim's next command may go.
    fn wait_until<'a>(
        &'a self,
        state: Locked<'a, D>,
        claim: Option<ClaimId>,
        after: &[Position],
        may_go: impl Fn(&State<D>) -> bool,
    ) -> Locked<'a, D> {
        // Until then it has no use for the device: as one that is ready it could hold back the very ones that it waits for.
        let mut state = self.wait_launched_in_place(state, after);
        if may_go(&state) {
            return state;
        }
        if let Some(claim) = claim {
            state.waits(claim, true);
            self.wake_watcher();
        }
        state = self.wait_in_place(state, may_go);
        if let Some(claim) = claim {
            state.waits(claim, false);
        }
        state
    }

    /// The same until all of these were launched.
    fn wait_launched_in_place<'a>(
        &'a self,
        mut state: Locked<'a, D>,
        positions: &[Position],
    ) -> Locked<'a, D> {
        state.in_place += 1;
        state = self.wait_for_launches(state, positions);
        state.in_place -= 1;
        state
    }

    /// Waits in a call that need not wait for the device. Nobody waits so for ever: the device may wait for what the caller would do
    /// next, so a stream that is stuck is not limited meanwhile, see [`State::has_room`].
    fn wait_in_place<'a>(
        &'a self,
        mut state: Locked<'a, D>,
        is_so: impl Fn(&State<D>) -> bool,
    ) -> Locked<'a, D> {
        state.in_place += 1;
        while !is_so(&state) {
            state = self.wait(state);
        }
        state.in_place -= 1;
        state
    }
}
