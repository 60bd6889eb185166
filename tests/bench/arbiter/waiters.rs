//! The cost of a report among processes that wait for changes, by their number and by the number of devices that they use.
//!
//! On one device, all waiters have work, and a claim that is more urgent than all of them has, too: the report of another claim
//! changes the turn of none. On eight devices, the report wakes the one waiter of its device, and the others wait for other
//! devices. The last figure is of a report that wakes all.

use std::error::Error;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use xsched_arbiter::{Arbiter, ArbiterError, ClaimName, Owner};
use xsched_protocol::arbiter_page::{Report, device_key};
use xsched_tests::arbiter::xsched_arbiter_report;
use xsched_tests::bench::{Goal, Row, Samples, alternate};

use crate::{BENCH, settle};

const COUNTS: [usize; 3] = [8, 64, 128];
const ROUNDS: usize = 12;
const REPORTS: usize = 50;

/// Gives woken threads the processors before the next report.
const PAUSE: Duration = Duration::from_micros(300);

pub(crate) fn measure(arbiter: &mut Arbiter, owner: Owner) -> Result<(), Box<dyn Error>> {
    for (scene, what, goal) in [
        (Scene::OneDevice, "on 1 device, none of which is concerned", Some(1.2)),
        (Scene::EightDevices, "on 8 devices, one of which is concerned", Some(1.2)),
        (Scene::AllConcerned, "on 1 device, all of which are concerned", None),
    ] {
        let one = Crowd::new(arbiter, owner, scene, 1)?;
        for count in COUNTS {
            let many = Crowd::new(arbiter, owner, scene, count)?;
            settle(arbiter);
            let arbiter = std::cell::RefCell::new(&mut *arbiter);
            let median = |crowd: &Crowd| {
                settle(&mut arbiter.borrow_mut());
                Ok::<_, ArbiterError>(crowd.report())
            };
            let pair = alternate(ROUNDS, || median(&one), || median(&many))
                .map(|rounds| xsched_tests::bench::Paired::new(&rounds))?;
            let row = Row::compared(BENCH, format!("report among {count} waiters {what}"), "ns", &pair);
            goal.map_or(row.clone(), |bound| row.with_goal(Goal::RatioAtMost(bound))).print()?;
            many.end(arbiter.into_inner());
        }
        one.end(arbiter);
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Scene {
    OneDevice,
    EightDevices,
    AllConcerned,
}

/// Waiting threads, and a claim whose reports are measured.
struct Crowd {
    reporter: ClaimName,
    claims: Vec<ClaimName>,
    threads: Vec<JoinHandle<()>>,
    is_done: Arc<AtomicBool>,
}

impl Crowd {
    fn new(arbiter: &mut Arbiter, owner: Owner, scene: Scene, count: usize) -> Result<Self, ArbiterError> {
        let is_done = Arc::new(AtomicBool::new(false));
        let key = |device: usize| device_key(count as u32, 0xd0 + device as u32, 0, 0);
        let reporter = arbiter.open(owner, key(0), 1)?.claim;
        let mut claims = vec![reporter];
        if scene == Scene::OneDevice {
            claims.push(arbiter.open(owner, key(0), 0)?.claim);
        }
        let mut threads = Vec::new();
        for index in 0..count {
            let device = if scene == Scene::EightDevices && index > 0 { 1 + index % 7 } else { 0 };
            let claim = arbiter.open(owner, key(device), 2 + (index % 60) as u8)?.claim;
            claims.push(claim);
            let wake = arbiter.wake_fd(&[claim])?;
            let is_done = Arc::clone(&is_done);
            threads.push(thread::spawn(move || wait(&wake, &is_done)));
        }
        claims.iter().skip(1).for_each(|&claim| report(claim, Report::Ready));
        Ok(Self { reporter, claims, threads, is_done })
    }

    /// The median time of a report, in nanoseconds.
    fn report(&self) -> f64 {
        let timed = |operation| {
            let began = Instant::now();
            report(self.reporter, operation);
            let ns = began.elapsed().as_nanos() as f64;
            thread::sleep(PAUSE);
            ns
        };
        let both = || [timed(Report::Ready), timed(Report::Idle)];
        Samples::new((0..REPORTS).flat_map(|_| both()).collect()).median()
    }

    fn end(self, arbiter: &mut Arbiter) {
        self.is_done.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("it only waits");
        }
        for claim in self.claims {
            arbiter.close(claim);
        }
    }
}

fn report(claim: ClaimName, operation: Report) {
    xsched_arbiter_report(operation as u64, claim.slot.into(), claim.generation.into());
}

fn wait(wake: &OwnedFd, is_done: &AtomicBool) {
    let at_most = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !is_done.load(Ordering::Relaxed) {
        let mut events = Vec::with_capacity(1);
        // An interrupted wait is repeated.
        let _ = epoll::wait(wake, rustix::buffer::spare_capacity(&mut events), Some(&at_most));
    }
}
