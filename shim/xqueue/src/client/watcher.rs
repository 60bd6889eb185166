//! The watcher: one thread of the process that talks to the controller, looks for completions, and wakes threads that may go on.
//!
//! It sleeps until something is expected: a completion at its predicted time, the end of a linger, a mask's change, or a call of
//! the application's (the *alarm*). For a process with short kernels and recent preemptions it polls instead (`state/gates.rs`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{hint, thread};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use xsched_protocol::arbiter_page::{CLAIM_MAX, ClaimWord, Report, Word};
use xsched_sched::Nanos;

use crate::client::connection::Connection;
use crate::client::descriptor::Descriptor;
use crate::client::host::Host;
use crate::client::link::Link;
use crate::client::local::LocalArbiter;
use crate::client::session::{Client, RETRY};
use crate::client::settings::{SchedulerChoice, Settings};
use crate::clock::now;
use crate::clock::ticks::Comparison;
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
    let alarm = Arc::new(Alarm::default());
    queues.set_alarm(bell(&alarm));
    if let SchedulerChoice::Itself(_) = scheduled {
        // The first command of a stream may preempt other streams of the process.
        queues.observe_all_calls();
    }
    let local = match scheduled {
        SchedulerChoice::Controller | SchedulerChoice::None => None,
        SchedulerChoice::Itself(policy) => Some(LocalArbiter::new(policy, settings.tuning, bell(&alarm))),
    };
    if let Some(local) = local.clone() {
        queues.set_limit(settings.limit.unwrap_or_default());
        queues.set_tuner(Box::new(move |tuning| local.tune(tuning)));
    }
    let queues = Arc::clone(queues);
    let trouble = queues.setup().trouble;
    threads::start("xsched-watch", trouble, move || {
        host.enter();
        let link = Arc::new(Link::new(trouble));
        let arbiter = Arc::clone(&link);
        queues.set_arbiter(Box::new(move |name| arbiter.state_by_name(name)));
        let client = Client::new(Arc::clone(&link), settings, host);
        let may_poll = thread::available_parallelism().is_ok_and(|count| count.get() >= POLL_FROM);
        let (heartbeat, comparison) = (Heartbeat::default(), Comparison::new());
        let mut watcher = Watcher { queues, link, client, local, heartbeat, comparison, alarm, may_poll };
        if catch_unwind(AssertUnwindSafe(|| watcher.run())).is_err() {
            trouble(Trouble::Panic);
        }
        // Whatever has happened, no thread may wait for notifications of a dead watcher.
        watcher.link.put_in_force(false);
        watcher.local.as_ref().inspect(|local| local.release());
        watcher.queues.run_due(now());
    })
}

/// Wakes the watcher.
type Bell = Box<dyn Fn() + Send + Sync>;

fn bell(alarm: &Arc<Alarm>) -> Bell {
    let alarm = Arc::clone(alarm);
    Box::new(move || alarm.ring())
}

/// Rung by any thread to wake the watcher.
#[derive(Default)]
struct Alarm {
    /// It was rung. For a watcher that does not sleep.
    is_wanted: AtomicBool,
    /// For one that sleeps. None: it has not slept yet, or there is no descriptor.
    descriptor: Mutex<Option<Arc<Descriptor>>>,
    /// When there may be a descriptor again.
    retry_at: AtomicU64,
}

impl Alarm {
    fn ring(&self) {
        self.is_wanted.store(true, Ordering::Release);
        let descriptor = self.lock().clone();
        if let Some(alarm) = descriptor.as_deref().and_then(Descriptor::get) {
            // Full is as good as rung.
            let _ = rustix::io::write(alarm, &1_u64.to_ne_bytes());
        }
    }

    /// Silences it.
    fn reset(&self) {
        let descriptor = self.lock().clone();
        if let Some(alarm) = descriptor.as_deref().and_then(Descriptor::get) {
            let _ = rustix::io::read(alarm, &mut [0; 8]);
        }
    }

    /// What the watcher polls. On the watcher's thread. A program that closes all descriptors often opens its own right
    /// afterwards, and relies on the lowest free number. So what it has closed is made again only a second later.
    fn polled(&self, now: Nanos) -> Option<Arc<Descriptor>> {
        let mut descriptor = self.lock();
        if descriptor.as_deref().is_some_and(|alarm| alarm.get().is_none()) {
            *descriptor = None;
            self.retry_at.store((now + RETRY).0, Ordering::Relaxed);
        }
        if descriptor.is_none() && self.retry_at.load(Ordering::Relaxed) <= now.0 {
            let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            *descriptor = alarm.and_then(Descriptor::new).ok().map(Arc::new);
            self.retry_at.store((now + RETRY).0, Ordering::Relaxed);
        }
        descriptor.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Descriptor>>> {
        self.descriptor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The controller's last heartbeat. Its time is in the page's clock. The process does not compare that clock with its own, which
/// differs in a time namespace, and changes when a checkpoint is restored.
#[derive(Clone, Copy, Default)]
struct Heartbeat {
    written_ns: u64,
    /// When it was first seen, by the process's clock.
    seen_at: Nanos,
}

impl Heartbeat {
    /// Takes note of what the page says, and returns for how long it has said so.
    fn look(&mut self, written_ns: u64, now: Nanos) -> Nanos {
        if self.written_ns != written_ns {
            *self = Self { written_ns, seen_at: now };
        }
        now - self.seen_at
    }

    /// What the page's clock says by now, at least.
    fn page_ns(self, now: Nanos) -> u64 {
        self.written_ns.saturating_add((now - self.seen_at).0)
    }
}

struct Watcher<D: Device> {
    queues: Arc<XQueues<D>>,
    link: Arc<Link>,
    client: Client,
    /// Instead of a controller.
    local: Option<Arc<LocalArbiter>>,
    heartbeat: Heartbeat,
    comparison: Comparison,
    alarm: Arc<Alarm>,
    /// There are processors enough.
    may_poll: bool,
}

impl<D: Device> Watcher<D> {
    fn run(&mut self) {
        threads::be_prompt();
        self.queues.watcher_sleeps(false);
        while !self.queues.is_closed() {
            self.comparison.renew(now);
            self.client.step(&self.queues, now());
            self.local.as_ref().inspect(|local| local.step(&self.queues, now()));
            self.check_heartbeat();
            self.expire_others();
            let gates = self.queues.make_gates();
            let latest = now() + self.patience();
            let again = self.local.as_ref().and_then(|local| local.again());
            let latest =
                self.client.come_again_at().into_iter().chain(again).chain(gates).fold(latest, Nanos::min);
            let until = self.queues.run_due(latest);
            self.queues.watcher_sleeps(true);
            self.sleep(until);
            self.queues.watcher_sleeps(false);
        }
    }

    fn patience(&self) -> Nanos {
        match self.client.descriptors() {
            _ if self.queues.is_contended() && !self.is_at_rest() => BESIDE_OTHERS,
            (Some(_), _) => CONNECTED,
            (None, _) => ALONE,
        }
    }

    /// Whether the process has no work, and the controller has the usage of its last work. If it were sent with the next work, it
    /// would count as usage of that.
    fn is_at_rest(&self) -> bool {
        self.queues.is_unconcerned() && self.client.has_sent_usage(&self.queues)
    }

    /// Takes the page out of force while the controller's heartbeat is missing.
    fn check_heartbeat(&mut self) {
        let Some(keeper) = self.client.keeper() else { return };
        let limit_ns = self.link.page.load(Word::SILENCE);
        let silence = self.heartbeat.look(self.link.page.load(Word::HEARTBEAT), now());
        let is_silent = limit_ns != 0 && silence.0 > limit_ns;
        if is_silent && self.link.page.load(Word::OBEY) != 0 {
            self.link.report(Report::Check, 0, 0, keeper);
        }
        self.link.judge_heartbeat(is_silent);
    }

    /// Looks for queues that preempt this process's although their leases are over.
    fn expire_others(&self) {
        let page = &self.link.page;
        for slot in self.client.slots().filter(|&slot| self.link.state_of(slot).is_preempted()) {
            let (Some(own), now_ns) = (self.link.word(slot), self.heartbeat.page_ns(now())) else { continue };
            for other in 0..page.load(Word::SLOTS).min(CLAIM_MAX as u64) {
                let word = ClaimWord(page.load(Word::claim(other)));
                let holds = word.is_open() && word.is_ready() && word.device() == own.device();
                if holds && word.level() < own.level() && page.load(Word::lease_until(other)) < now_ns {
                    self.link.report(Report::Expire, other as u32, word.generation().into(), slot.keeper);
                }
            }
        }
    }

    /// Looks at the page instead of sleeping, where a wake-up would come too late. Ends at `until`, at a change of the page, or
    /// when the alarm rings, and soon enough for other duties. Returns whether it looked.
    fn poll_page(&self, until: Nanos) -> bool {
        if !self.may_poll {
            return false;
        }
        let polled = self.queues.polled();
        if polled.is_empty() {
            return false;
        }
        poll_states(&polled, until.min(now() + POLLED), &self.alarm.is_wanted);
        true
    }

    /// Sleeps until then, or until something happens.
    fn sleep(&self, until: Nanos) {
        let left = if self.poll_page(until) { Nanos::ZERO } else { until - now() };
        if left.is_zero() {
            return;
        }
        // Rung since the watcher last looked, or before there was a descriptor: there may be more to do.
        let alarm = self.alarm.polled(now());
        if self.alarm.is_wanted.swap(false, Ordering::Acquire) {
            return self.alarm.reset();
        }
        let (socket, wake) = self.client.descriptors();
        // A change of masks wakes every process that polls this, before the launch that makes it.
        let wake = wake.filter(|_| !self.queues.ignores_masks());
        let alarm = alarm.as_deref().and_then(Descriptor::get);
        // What a full socket has not taken is sent when it takes data again.
        let is_owed = socket.is_some_and(Connection::has_posted);
        let at_socket = if is_owed { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let polled = [
            (alarm, PollFlags::IN),
            (wake.and_then(Descriptor::get), PollFlags::IN),
            (socket.and_then(Connection::get), at_socket),
        ];
        let polled = polled.into_iter().filter_map(|(fd, what)| Some((fd?, what)));
        let mut polled: Vec<_> = polled.map(|(fd, what)| PollFd::from_borrowed_fd(fd, what)).collect();
        // Without the alarm it must look by itself.
        let left = if alarm.is_some() { left } else { left.min(BESIDE_OTHERS) };
        let timeout =
            Timespec { tv_sec: (left.0 / 1_000_000_000) as i64, tv_nsec: (left.0 % 1_000_000_000) as i64 };
        if poll(&mut polled, Some(&timeout)).is_err() {
            return;
        }
        self.alarm.is_wanted.store(false, Ordering::Release);
        self.alarm.reset();
        // It is edge-triggered: to ask is to empty it.
        let mut events = Vec::with_capacity(1);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if let Some(wake) = wake.and_then(Descriptor::get) {
            let _ = epoll::wait(wake, spare_capacity(&mut events), Some(&at_once));
        }
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
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_alarm_is_heard_before_during_and_after_the_application_closes_its_number() {
        let alarm = Alarm::default();
        let take = || alarm.is_wanted.swap(false, Ordering::SeqCst);
        alarm.ring();
        assert!(take(), "it was rung before there was a descriptor");
        let first = alarm.polled(now()).unwrap();
        alarm.ring();
        let mut polled = [PollFd::from_borrowed_fd(first.get().unwrap(), PollFlags::IN)];
        assert_eq!(poll(&mut polled, None).unwrap(), 1);
        alarm.reset();
        assert!(take() && Arc::ptr_eq(&first, &alarm.polled(now()).unwrap()));
        // As a program does that closes what it does not know.
        let mut file = tempfile::tempfile().unwrap();
        first.replace_with(&file);
        alarm.ring();
        alarm.reset();
        assert!(take() && file.metadata().unwrap().len() == 0, "nothing was written to the program's file");
        let lost_at = now();
        assert!(alarm.polled(lost_at).is_none() && alarm.polled(now()).is_none());
        let second = alarm.polled(lost_at + RETRY).unwrap();
        assert!(!Arc::ptr_eq(&first, &second) && second.get().is_some());
        file.write_all(b"still open").unwrap();
    }

    #[test]
    fn a_heartbeat_is_fresh_while_it_changes_whatever_its_clock_says() {
        let at = Nanos::from_millis;
        let mut heartbeat = Heartbeat::default();
        // A day behind, a day ahead, and again behind, as after a restart of the machine.
        for (written_ns, now) in [(7, at(1_000_000)), (86_400_000_000_000, at(1_000_300)), (5, at(1_000_900))]
        {
            assert_eq!(heartbeat.look(written_ns, now), Nanos::ZERO, "it was not looked at for some time");
            assert_eq!(heartbeat.look(written_ns, now + at(101)), at(101));
            assert_eq!(heartbeat.page_ns(now + at(3)), written_ns + at(3).0);
        }
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
