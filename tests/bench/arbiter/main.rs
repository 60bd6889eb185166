//! The arbiter's delays: from a report to the mask that others read, to a waiter that runs; and the cost of a
//! controller's order.
//!
//! The programs change the page before the report function returns, so the first figures are the time of a
//! call: one that changes nothing; one that changes the mask of a device without other work; one that also
//! wakes; and one of many. For a wake-up, the kernel interrupts the reporting processor after the mask has
//! changed. A thread that only reads the mask shows when others see the change. Then come the gates of
//! processes that may launch now or no longer: the more there are, the longer the call takes. Everything is
//! measured with the machine at rest, and with as many busy threads as there are processors; the machine's
//! own timer noise is measured too.

mod waiters;

use std::error::Error;
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use xsched_arbiter::{Arbiter, ClaimName, Owner, PINS, Page, Times};
use xsched_protocol::arbiter_page::{Report, Word, device_key};
use xsched_tests::arbiter::xsched_arbiter_report;
use xsched_tests::bench::{Goal, Row, Samples, wake_in_time};

const BENCH: &str = "arbiter";

/// Claims on the device, each on a level of its own.
const CLAIMS: u8 = 64;
const ROUNDS: usize = 20_000;
const WAKES: usize = 2_000;
const OPENINGS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let pins = format!("{PINS}-bench-{}", std::process::id());
    let mut arbiter = Arbiter::programs_pinned_at(Path::new(&pins), &Times::default())?;
    let outcome = measure_all(&mut arbiter);
    arbiter.end();
    outcome
}

fn measure_all(arbiter: &mut Arbiter) -> Result<(), Box<dyn Error>> {
    let shim = arbiter.search(std::process::id())?.run()?.probe()?;
    let number = arbiter.expect(shim)?;
    xsched_arbiter_report(Report::Join as u64, 0, number);
    let owner = arbiter.joined(number).ok_or("the programs do not see this process")?;
    let key = device_key(0, 0xc1, 0, 0);
    let open = |level| arbiter.open(owner, key, level).map(|opened| opened.claim);
    let claims: Result<Vec<_>, _> = (0..CLAIMS).map(open).collect();
    let claims = claims?;
    let other = arbiter.open(owner, device_key(0, 0xc2, 0, 0), 0)?.claim;
    let pair: Result<Vec<_>, _> =
        (0..2).map(|level| arbiter.open(owner, device_key(0, 0xc3, 0, 0), level)).collect();
    let pair: Vec<_> = pair?.into_iter().map(|opened| opened.claim).collect();
    print("at rest: claim opened", &openings(arbiter, owner)?, None)?;
    let claims = Claims { many: claims, alone: other, pair };
    at(arbiter, &claims, "at rest")?;
    waiters::measure(arbiter, owner)?;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..processors {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let outcome = at(arbiter, &claims, "busy");
        is_done.store(true, Ordering::Relaxed);
        outcome
    })
}

/// The claims of one process.
struct Claims {
    /// On one device, each on a level of its own.
    many: Vec<ClaimName>,
    /// The only claim of its device.
    alone: ClaimName,
    /// The only two claims of their device.
    pair: Vec<ClaimName>,
}

fn at(arbiter: &mut Arbiter, all: &Claims, when: &str) -> Result<(), Box<dyn Error>> {
    const GOALS: Option<(f64, f64)> = Some((1_000.0, 5_000.0));
    print(&format!("{when}: timer lateness"), &timer_lateness(), None)?;
    let claims = all.many.as_slice();
    settle(arbiter);
    print(&format!("{when}: renewal"), &renewals(claims[0]), GOALS)?;
    settle(arbiter);
    print(&format!("{when}: report, no waiter"), &alone(arbiter, all.alone)?, GOALS)?;
    settle(arbiter);
    print(&format!("{when}: report that switches the gate of 1 claim"), &gate_switches(all.pair[0]), None)?;
    settle(arbiter);
    print(&format!("{when}: report that switches the gates of 63 claims"), &gate_switches(claims[0]), None)?;
    settle(arbiter);
    print(&format!("{when}: report that wakes"), &wake_ups(&all.pair), GOALS)?;
    settle(arbiter);
    print(&format!("{when}: report among 32 ready claims"), &reports(arbiter, claims)?, GOALS)?;
    settle(arbiter);
    let (times, left_out_percent) = seen(arbiter, claims);
    print(&format!("{when}: report to mask seen by another thread"), &times, GOALS)?;
    let left_out = format!("{when}: the same, rounds left out because that thread had no processor");
    Row::single(BENCH, left_out, "%", &Samples::new(vec![left_out_percent])).print()?;
    settle(arbiter);
    print(&format!("{when}: report to waiter"), &wakes(arbiter, claims)?, None)?;
    settle(arbiter);
    print(&format!("{when}: level changed"), &levels(arbiter, claims), None)?;
    Ok(())
}

/// Drains the ring, as a controller does every 20 ms: a full ring wakes no process.
fn settle(arbiter: &mut Arbiter) {
    arbiter.heartbeat();
    arbiter.drain(&mut Vec::new());
}

fn print(metric: &str, ns: &Samples, goals: Option<(f64, f64)>) -> Result<(), Box<dyn Error>> {
    let goals = goals.map_or([None, None], |(median, tail)| [Some(median), Some(tail)]);
    for ((name, quantile), goal) in [("p50", 0.5), ("p99", 0.99)].into_iter().zip(goals) {
        let row =
            Row::single(BENCH, format!("{metric} {name}"), "ns", &Samples::new(vec![ns.quantile(quantile)]));
        goal.map_or(row.clone(), |bound| row.with_goal(Goal::ValueAtMost(bound))).print()?;
    }
    Ok(())
}

/// How late a sleeping thread runs that asks for precise timers, as threads that wait for the page do.
fn timer_lateness() -> Samples {
    const PERIOD: Duration = Duration::from_micros(500);
    let late = || {
        let began = Instant::now();
        thread::sleep(PERIOD);
        began.elapsed().saturating_sub(PERIOD).as_nanos() as f64
    };
    let all = || {
        wake_in_time();
        std::iter::repeat_with(late).take(1_000).collect()
    };
    // In a separate thread, since the other figures are of threads that do not ask for precision.
    Samples::new(thread::scope(|scope| scope.spawn(all).join()).expect("it only sleeps"))
}

/// A ready claim reports ready again.
fn renewals(claim: ClaimName) -> Samples {
    let renewed = || {
        let began = Instant::now();
        xsched_arbiter_report(Report::Ready as u64, claim.slot.into(), claim.generation.into());
        began.elapsed().as_nanos() as f64
    };
    renewed();
    let samples = Samples::new(std::iter::repeat_with(renewed).take(ROUNDS).collect());
    xsched_arbiter_report(Report::Idle as u64, claim.slot.into(), claim.generation.into());
    samples
}

/// The only claim of a device, the second device, becomes ready and idle.
fn alone(arbiter: &Arbiter, claim: ClaimName) -> Result<Samples, Box<dyn Error>> {
    let mut ns = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        let operation = if round % 2 == 0 { Report::Ready } else { Report::Idle };
        let began = Instant::now();
        xsched_arbiter_report(operation as u64, claim.slot.into(), claim.generation.into());
        let mask = arbiter.page().load(Word::ready(1));
        ns.push(began.elapsed().as_nanos() as f64);
        if mask != u64::from(round % 2 == 0) {
            return Err(format!("round {round}: the mask is {mask:#x}").into());
        }
    }
    Ok(Samples::new(ns))
}

/// The most urgent claim of a device becomes ready and idle. No other claim is ready, so none is woken, but
/// all others have gates that follow.
fn gate_switches(urgent: ClaimName) -> Samples {
    let report = |operation: Report| {
        let began = Instant::now();
        xsched_arbiter_report(operation as u64, urgent.slot.into(), urgent.generation.into());
        began.elapsed().as_nanos() as f64
    };
    Samples::new((0..ROUNDS / 2).flat_map(|_| [report(Report::Ready), report(Report::Idle)]).collect())
}

/// The same with one other claim, which has work and does not suppress wake-ups: its poller is woken each
/// time.
fn wake_ups(pair: &[ClaimName]) -> Samples {
    let of_other = |operation: Report| {
        xsched_arbiter_report(operation as u64, pair[1].slot.into(), pair[1].generation.into());
    };
    of_other(Report::Ready);
    let samples = gate_switches(pair[0]);
    of_other(Report::Idle);
    samples
}

/// Claims become ready and idle in sequence, while all others with an odd number are ready. Most of them are
/// less urgent than one of these, and the admission of none changes.
fn reports(arbiter: &Arbiter, claims: &[ClaimName]) -> Result<Samples, Box<dyn Error>> {
    for claim in claims.iter().skip(1).step_by(2) {
        xsched_arbiter_report(Report::Ready as u64, claim.slot.into(), claim.generation.into());
    }
    let mut ns = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        let level = (round / 2 * 2) % claims.len();
        let claim = claims[level];
        let operation = if round % 2 == 0 { Report::Ready } else { Report::Idle };
        let began = Instant::now();
        xsched_arbiter_report(operation as u64, claim.slot.into(), claim.generation.into());
        let mask = arbiter.page().load(Word::ready(0));
        ns.push(began.elapsed().as_nanos() as f64);
        if arbiter.page().is_obeyed() && (mask >> level & 1 == 1) != (round % 2 == 0) {
            return Err(format!("round {round}: the mask is {mask:#x}").into());
        }
    }
    Ok(Samples::new(ns))
}

/// Like [`reports`], until a thread that only reads the mask sees it change. Also returns the percentage of
/// rounds left out, in which the reader had no processor and could not see the change.
fn seen(arbiter: &Arbiter, claims: &[ClaimName]) -> (Samples, f64) {
    /// A running reader polls more often than this.
    const BLINK_NS: u64 = 2_000;
    const BLIND: u64 = u64::MAX;
    let page = arbiter.page();
    let began = Instant::now();
    let clock = || began.elapsed().as_nanos() as u64;
    let (seen_mask, seen_ns) = (AtomicU64::new(page.load(Word::ready(0))), AtomicU64::new(0));
    let is_done = AtomicBool::new(false);
    let (rounds, ns) = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut last, mut looked_ns) = (seen_mask.load(Ordering::Relaxed), clock());
            while !is_done.load(Ordering::Relaxed) {
                let looks_ns = clock();
                let mask = page.load(Word::ready(0));
                if mask != last {
                    last = mask;
                    let now_ns = clock();
                    let has_looked = now_ns - looked_ns < BLINK_NS;
                    seen_ns.store(if has_looked { now_ns } else { BLIND }, Ordering::Relaxed);
                    seen_mask.store(mask, Ordering::Release);
                }
                looked_ns = looks_ns;
            }
        });
        let (mut rounds, mut ns) = (0_usize, Vec::with_capacity(ROUNDS));
        for round in 0..ROUNDS {
            let claim = claims[(round / 2 * 2) % claims.len()];
            let operation = if round % 2 == 0 { Report::Ready } else { Report::Idle };
            let before = page.load(Word::ready(0));
            let reported_ns = clock();
            xsched_arbiter_report(operation as u64, claim.slot.into(), claim.generation.into());
            let after = page.load(Word::ready(0));
            if before == after {
                continue; // no process obeys the arbiter now: the last heartbeat is too old
            }
            while seen_mask.load(Ordering::Acquire) != after {
                std::hint::spin_loop();
            }
            rounds += 1;
            match seen_ns.load(Ordering::Relaxed) {
                BLIND => {}
                seen_ns => ns.push(seen_ns.saturating_sub(reported_ns) as f64),
            }
        }
        is_done.store(true, Ordering::Relaxed);
        (rounds, ns)
    });
    let left_out_percent = 100.0 * (rounds - ns.len()) as f64 / rounds.max(1) as f64;
    (Samples::new(ns), left_out_percent)
}

/// The most urgent claim becomes idle, and a thread that waits for that runs.
fn wakes(arbiter: &mut Arbiter, claims: &[ClaimName]) -> Result<Samples, Box<dyn Error>> {
    let wake = arbiter.wake_fd(&claims[1..2])?;
    let mut ns = Vec::with_capacity(WAKES);
    while ns.len() < WAKES {
        // A slow machine takes longer for all rounds than a heartbeat lasts, and no process is woken after that.
        settle(arbiter);
        some_wakes(arbiter.page(), claims[0], &wake, &mut ns)?;
    }
    Ok(Samples::new(ns))
}

fn some_wakes(
    page: &Page,
    urgent: ClaimName,
    wake: &OwnedFd,
    ns: &mut Vec<f64>,
) -> Result<(), Box<dyn Error>> {
    const AT_ONCE: usize = 50;
    let report = |operation: Report| {
        xsched_arbiter_report(operation as u64, urgent.slot.into(), urgent.generation.into());
    };
    let began = Instant::now();
    let clock = || began.elapsed().as_nanos() as u64;
    let (seen_ns, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    report(Report::Ready);
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let waiter = scope.spawn(|| -> rustix::io::Result<()> {
            while !is_done.load(Ordering::Relaxed) {
                wait(wake)?;
                if page.load(Word::ready(0)) & 1 == 0 {
                    seen_ns.store(clock(), Ordering::Release);
                }
            }
            Ok(())
        });
        for _ in 0..AT_ONCE {
            // By then the waiter sleeps.
            thread::sleep(Duration::from_micros(200));
            seen_ns.store(0, Ordering::Release);
            let reported_ns = clock();
            report(Report::Idle);
            while seen_ns.load(Ordering::Acquire) == 0 {
                // The waiter may need this processor.
                thread::yield_now();
            }
            ns.push(seen_ns.load(Ordering::Acquire).saturating_sub(reported_ns) as f64);
            report(Report::Ready);
        }
        is_done.store(true, Ordering::Relaxed);
        report(Report::Idle);
        waiter.join().expect("it only waits")?;
        Ok(())
    })
}

fn wait(on: &OwnedFd) -> rustix::io::Result<()> {
    let mut events = Vec::with_capacity(1);
    epoll::wait(on, rustix::buffer::spare_capacity(&mut events), None)?;
    black_box(&events);
    Ok(())
}

/// The controller opens a claim, for which it creates a gate page. Consecutive rounds use different slots,
/// because the kernel would not be done with the previous page of the same slot.
fn openings(arbiter: &mut Arbiter, owner: Owner) -> Result<Samples, Box<dyn Error>> {
    let mut ns = Vec::with_capacity(OPENINGS);
    for _ in 0..OPENINGS {
        let began = Instant::now();
        let opened = arbiter.open(owner, device_key(0, 0xc1, 0, 0), 63)?;
        ns.push(began.elapsed().as_nanos() as f64);
        arbiter.close(opened.claim);
        arbiter.heartbeat();
        thread::sleep(Duration::from_millis(20));
    }
    Ok(Samples::new(ns))
}

/// The controller moves a ready claim to another level and back.
fn levels(arbiter: &mut Arbiter, claims: &[ClaimName]) -> Samples {
    let moved = |round: usize| {
        let began = Instant::now();
        // The claim exists as long as this process.
        let _ = arbiter.set_level(claims[1], 2 - (round % 2) as u8);
        began.elapsed().as_nanos() as f64
    };
    Samples::new((0..ROUNDS / 4).map(moved).collect())
}
