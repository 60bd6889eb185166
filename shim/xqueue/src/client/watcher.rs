//! The watcher: one thread of the process that talks to the controller, looks for completions, and wakes threads that may go on.
//!
//! It sleeps until something is expected: a completion at its predicted time, the end of a linger, a mask's change, or a call
//! of the application's (the *alarm*). For a process that runs short kernels and was preempted of late it
//! polls instead (`state/gates.rs`).

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{hint, thread};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use xsched_protocol::arbiter_page::{QUEUE_MAX, QueueWord, Report, Word};
use xsched_sched::Nanos;

use crate::client::host::Host;
use crate::client::inherited::Inherited;
use crate::client::link::{Link, page_time_ns};
use crate::client::local::LocalArbiter;
use crate::client::session::Client;
use crate::client::settings::{SchedulerChoice, Settings};
use crate::clock::now;
use crate::device::Device;
use crate::registration::{AdmissionState, Registration};
use crate::xqueues::XQueues;

use crate::threads;
use crate::trouble::Trouble;

/// How long it sleeps at most: while it has work beside others on the same devices, while there is a controller, and otherwise.
const BESIDE_OTHERS: Nanos = Nanos::from_millis(10);
const CONNECTED: Nanos = Nanos::from_millis(100);
const ALONE: Nanos = Nanos::from_secs(1);

/// How long it polls without looking at anything else.
const POLLED: Nanos = Nanos::from_micros(200);

/// It polls only where the process may use so many processors.
const POLL_FROM: usize = 4;

/// Starts the watcher of these queues.
pub(super) fn start<D: Device>(
    queues: &Arc<XQueues<D>>,
    settings: Settings,
    host: Box<dyn Host>,
) -> io::Result<()> {
    let scheduled = settings.scheduler;
    let Bells { alarm, is_wanted, of_queues, of_scheduler } = Bells::new(scheduled)?;
    queues.set_alarm(of_queues);
    if let SchedulerChoice::Itself(_) = scheduled {
        // The first command of a stream may preempt other streams of the process.
        queues.observe_all_calls();
    }
    let queues = Arc::clone(queues);
    let trouble = queues.setup().trouble;
    threads::start("xsched-watch", trouble, move || {
        host.enter();
        let link = Arc::new(Link::new(trouble));
        let client = Client::new(Arc::clone(&link), settings, host);
        let local = match scheduled {
            SchedulerChoice::Controller | SchedulerChoice::None => None,
            SchedulerChoice::Itself(policy) => of_scheduler.map(|ring| LocalArbiter::new(policy, ring)),
        };
        let may_poll = thread::available_parallelism().is_ok_and(|count| count.get() >= POLL_FROM);
        let mut watcher = Watcher { queues, link, client, local, alarm, is_wanted, may_poll };
        if catch_unwind(AssertUnwindSafe(|| watcher.run())).is_err() {
            trouble(Trouble::Panic);
        }
        // Whatever has happened, no thread may wait for notifications of a dead watcher.
        watcher.link.put_in_force(false);
        watcher.local.as_ref().inspect(|local| local.release());
        watcher.queues.tend(now());
    })
}

/// Wakes the watcher.
type Bell = Box<dyn Fn() + Send + Sync>;

/// What the watcher polls, and what may wake it.
struct Bells {
    alarm: Inherited,
    /// The same for a watcher that does not sleep.
    is_wanted: Arc<AtomicBool>,
    of_queues: Bell,
    /// Of a process that schedules itself.
    of_scheduler: Option<Bell>,
}

impl Bells {
    fn new(scheduled: SchedulerChoice) -> io::Result<Self> {
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let is_wanted = Arc::default();
        let of_queues = bell(&alarm, &is_wanted)?;
        let of_scheduler = match scheduled {
            SchedulerChoice::Itself(_) => Some(bell(&alarm, &is_wanted)?),
            SchedulerChoice::Controller | SchedulerChoice::None => None,
        };
        Ok(Self { alarm: Inherited::new(alarm), is_wanted, of_queues, of_scheduler })
    }
}

fn bell(alarm: &OwnedFd, is_wanted: &Arc<AtomicBool>) -> io::Result<Bell> {
    let ringer = Inherited::new(alarm.try_clone()?);
    let is_wanted = Arc::clone(is_wanted);
    Ok(Box::new(move || {
        is_wanted.store(true, Ordering::Release);
        // Full is as good as rung.
        let _ = rustix::io::write(&ringer, &1_u64.to_ne_bytes());
    }))
}

struct Watcher<D: Device> {
    queues: Arc<XQueues<D>>,
    link: Arc<Link>,
    client: Client,
    /// Instead of a controller.
    local: Option<Arc<LocalArbiter>>,
    alarm: Inherited,
    /// It was rung.
    is_wanted: Arc<AtomicBool>,
    /// There are processors enough.
    may_poll: bool,
}

impl<D: Device> Watcher<D> {
    fn run(&mut self) {
        threads::be_prompt();
        while !self.queues.is_closed() {
            self.client.step(&self.queues, now());
            self.local.as_ref().inspect(|local| local.step(&self.queues, now()));
            self.check_heartbeat();
            self.expire_others();
            self.queues.make_gates();
            let latest = now() + self.patience();
            let again = self.local.as_ref().and_then(|local| local.again());
            let latest = self.client.come_again_at().into_iter().chain(again).fold(latest, Nanos::min);
            let until = self.queues.tend(latest);
            self.sleep(until);
        }
    }

    fn patience(&self) -> Nanos {
        match self.client.descriptors() {
            _ if self.queues.is_contended() && !self.is_at_rest() => BESIDE_OTHERS,
            (Some(_), _) => CONNECTED,
            (None, _) => ALONE,
        }
    }

    /// Whether the process has no work, and the controller has the usage of the work before: sent with the next work, it would count
    /// as usage of that.
    fn is_at_rest(&self) -> bool {
        self.queues.is_unconcerned() && self.client.has_sent_usage(&self.queues)
    }

    /// Takes the page out of force while the controller's heartbeat is missing.
    fn check_heartbeat(&self) {
        let Some(keeper) = self.client.keeper() else { return };
        let limit_ns = self.link.page.load(Word::SILENCE);
        let silence_ns = page_time_ns().saturating_sub(self.link.page.load(Word::HEARTBEAT));
        let is_silent = limit_ns != 0 && silence_ns > limit_ns;
        if is_silent && self.link.page.load(Word::OBEY) != 0 {
            self.link.report(Report::Check, 0, 0, keeper);
        }
        self.link.judge_heartbeat(is_silent);
    }

    /// Looks for queues that preempt this process's although their leases are over.
    fn expire_others(&self) {
        let page = &self.link.page;
        for slot in self.client.slots().filter(|&slot| self.link.state_of(slot).is_preempted()) {
            let (Some(own), now_ns) = (self.link.word(slot), page_time_ns()) else { continue };
            for other in 0..page.load(Word::SLOTS).min(QUEUE_MAX as u64) {
                let word = QueueWord(page.load(Word::queue(other)));
                let holds = word.is_open() && word.is_ready() && word.device() == own.device();
                if holds && word.level() < own.level() && page.load(Word::lease_until(other)) < now_ns {
                    self.link.report(Report::Expire, other as u32, word.generation().into(), slot.keeper);
                }
            }
        }
    }

    /// Where a wake-up would come too late, looks at the page instead of sleeping: until then, or until something changes there or the
    /// alarm rings, but not for so long that other duties are neglected. Returns whether it has.
    fn poll_page(&self, until: Nanos) -> bool {
        if !self.may_poll {
            return false;
        }
        let polled = self.queues.polled();
        if polled.is_empty() {
            return false;
        }
        poll_states(&polled, until.min(now() + POLLED), &self.is_wanted);
        true
    }

    /// Sleeps until then, or until something happens.
    fn sleep(&self, until: Nanos) {
        let (socket, wake) = self.client.descriptors();
        // A change of masks wakes every process that polls this, before the launch that makes it.
        let wake = wake.filter(|_| !self.queues.ignores_masks());
        let mut polled = vec![PollFd::new(&self.alarm, PollFlags::IN)];
        polled.extend(wake.map(|wake| PollFd::new(wake, PollFlags::IN)));
        polled.extend(socket.map(|socket| PollFd::new(socket, PollFlags::IN)));
        let left = if self.poll_page(until) { Nanos::ZERO } else { until - now() };
        let timeout =
            Timespec { tv_sec: (left.0 / 1_000_000_000) as i64, tv_nsec: (left.0 % 1_000_000_000) as i64 };
        if left.is_zero() || poll(&mut polled, Some(&timeout)).is_err() {
            return;
        }
        let mut number = [0; 8];
        let _ = rustix::io::read(&self.alarm, &mut number);
        // It is edge-triggered: to ask is to empty it.
        let mut events = Vec::with_capacity(1);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = wake.map(|wake| epoll::wait(wake, spare_capacity(&mut events), Some(&at_once)));
    }
}

/// Looks until one of the admission states changes, until then, or until the watcher is wanted.
fn poll_states(polled: &[(Arc<dyn Registration>, AdmissionState)], until: Nanos, is_wanted: &AtomicBool) {
    let is_any_new = || polled.iter().any(|(registration, state)| registration.state() != *state);
    while !is_any_new() && !is_wanted.swap(false, Ordering::Acquire) && now() < until {
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// No other test has any.
    #[test]
    fn a_forked_child_knows_all_descriptors_of_the_watcher() {
        let bells = Bells::new(SchedulerChoice::Controller).unwrap();
        // The connection, and what comes with it.
        let later = [(); 2].map(|()| Inherited::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap()));
        assert!(later.iter().chain([&bells.alarm]).all(Inherited::is_known));
        assert!(bells.of_scheduler.is_none());
    }

    /// Preempted when the test says so.
    #[derive(Debug, Default)]
    struct Switch(AtomicBool);

    impl Registration for Switch {
        fn state(&self) -> AdmissionState {
            AdmissionState::Below { preempted: self.0.load(Ordering::SeqCst) }
        }

        fn report_ready(&self) {}

        fn report_idle(&self) {}

        fn levels(&self) -> (u8, u64) {
            (2, 0)
        }

        fn is_ready(&self) -> bool {
            true
        }

        fn lease(&self) -> Nanos {
            Nanos::ZERO
        }

        fn linger(&self) -> Nanos {
            Nanos::ZERO
        }
    }

    #[test]
    fn polling_ends_with_what_it_looks_for_and_with_its_time() {
        const NEVER: Nanos = Nanos(u64::MAX);
        let (switch, is_wanted) = (Arc::new(Switch::default()), AtomicBool::new(false));
        let polled = [Arc::new(Switch::default()), Arc::clone(&switch)]
            .map(|switch| (switch as Arc<dyn Registration>, AdmissionState::Below { preempted: false }));
        let until = now() + Nanos::from_millis(2);
        poll_states(&polled, until, &is_wanted);
        assert!(now() >= until);
        thread::scope(|scope| {
            let polling = scope.spawn(|| poll_states(&polled, NEVER, &is_wanted));
            thread::sleep(Duration::from_millis(2));
            assert!(!polling.is_finished());
            is_wanted.store(true, Ordering::SeqCst);
            polling.join().unwrap();
            assert!(!is_wanted.load(Ordering::SeqCst), "the next time it is wanted again");
            let polling = scope.spawn(|| poll_states(&polled, NEVER, &is_wanted));
            switch.0.store(true, Ordering::SeqCst);
            polling.join().unwrap();
        });
    }
}
