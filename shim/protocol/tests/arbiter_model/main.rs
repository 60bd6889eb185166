//! Model checker of the arbiter's protocol, over every order of its steps: no bit is lost or stuck, and no process sleeps that may
//! launch.
//!
//! It runs the code of the programs. A program runs to its end once it has begun. So the death of a process comes between two
//! of its reports, but anywhere between the steps of all others.

mod explorer;

use explorer::{Explored, Machine, Memory, Operations, explore, gate_word, is_woken, lives, word};
use xsched_protocol::arbiter_page::{
    ClaimWord, Control, GATE_ALLOWED, Host as _, LEVEL_COUNT, Report, Word, Words as _, device_key, dispatch,
    more_urgent, protocol,
};

/// Two processes. Each has a claim in the slot of the same number.
const A: u64 = 0;
const B: u64 = 1;

/// Maximum number of claims in a scenario.
const SLOTS: u64 = 3;

fn open(slot: u64, owner: u64, level: u64) -> impl Fn(&Machine<'_>) {
    move |machine| {
        let word = ClaimWord::new(1, 0, level);
        dispatch::control(machine, 0, Control::Open, slot, word.0, owner);
    }
}

fn report(owner: u64, report: Report, slot: u64) -> Box<dyn Fn(&Machine<'_>)> {
    Box::new(move |machine| dispatch::report(machine, owner, report, slot, 1))
}

fn control(control: Control, slot: u64, first: u64, second: u64) -> Box<dyn Fn(&Machine<'_>)> {
    Box::new(move |machine| dispatch::control(machine, 0, control, slot, first, second))
}

/// The controller ends a lease that has long been over.
fn expire(slot: u64) -> Box<dyn Fn(&Machine<'_>)> {
    Box::new(move |machine| dispatch::control(machine.at(5000), 0, Control::Expire, slot, 1, 0))
}

/// The programs' operations at the end of a process.
fn death(owner: u64) -> Box<dyn Fn(&Machine<'_>)> {
    Box::new(move |machine| {
        machine.set_lives(owner, false);
        dispatch::close_all(machine, owner);
    })
}

/// The programs' operations at the end of the controller.
fn controllers_death() -> Box<dyn Fn(&Machine<'_>)> {
    Box::new(|machine| {
        if protocol::release(machine) {
            dispatch::released(machine, 0);
        }
    })
}

/// Waits until the claim in a slot may launch, and no longer.
fn wait_to_launch(slot: u64) -> Box<dyn Fn(&Machine<'_>)> {
    Box::new(move |machine| {
        loop {
            let level = ClaimWord(machine.load(Word::claim(slot))).level();
            if machine.load(Word::ready(0)) & more_urgent(level) == 0 {
                return;
            }
            machine.wait();
        }
    })
}

/// A page with one device, a living controller, and claims of living processes: owner, level and whether it is ready. They have
/// no gates, on which nothing else depends.
fn page(claims: &[(u64, u64, bool)]) -> Memory {
    page_with(claims, false)
}

/// The same with gates.
fn gated(claims: &[(u64, u64, bool)]) -> Memory {
    page_with(claims, true)
}

fn page_with(claims: &[(u64, u64, bool)], gates: bool) -> Memory {
    let mut memory = Memory::new();
    Machine::alone(&mut memory, |machine| {
        machine.store(Word::key(0), device_key(0, 1, 0, 0));
        machine.store(Word::LEASE, 50);
        machine.store(Word::SILENCE, 100);
        machine.set_lives(A, true);
        machine.set_lives(B, true);
        dispatch::control(machine.at(1000), 0, Control::Heartbeat, 0, 0, 0);
        (0..SLOTS).for_each(|slot| machine.make_gate(slot, gates));
        for (slot, &(owner, level, is_ready)) in claims.iter().enumerate() {
            open(slot as u64, owner, level)(machine);
            if is_ready {
                report(owner, Report::Ready, slot as u64)(machine);
            }
        }
        machine.wait_is_over();
    });
    memory
}

/// Checks what must hold while no change is under way.
fn is_consistent(memory: &Memory) -> Result<(), String> {
    let is_obeyed = word(memory, Word::OBEY) == 1;
    for level in 0..LEVEL_COUNT as u64 {
        let claims = || {
            (0..SLOTS)
                .map(|slot| ClaimWord(word(memory, Word::claim(slot))))
                .filter(|claim| claim.is_open() && claim.level() == level)
        };
        let counts = [
            ("ready", Word::ready_count(0, level), claims().filter(|claim| claim.is_ready()).count()),
            ("existing", Word::exist_count(0, level), claims().count()),
        ];
        for (what, count, expected) in counts {
            if word(memory, count) != expected as u64 {
                return Err(format!("level {level}: {} {what}, counted {}", expected, word(memory, count)));
            }
        }
        let bit = |mask| word(memory, mask) >> level & 1 == 1;
        if bit(Word::ready(0)) != (is_obeyed && counts[0].2 > 0) {
            return Err(format!("level {level}: the ready bit is {}", bit(Word::ready(0))));
        }
        if bit(Word::exists(0)) != (counts[1].2 > 0) {
            return Err(format!("level {level}: the bit of existence is {}", bit(Word::exists(0))));
        }
    }
    for slot in 0..SLOTS {
        let owner = word(memory, Word::owner(slot));
        if ClaimWord(word(memory, Word::claim(slot))).is_open() && !lives(memory, owner) {
            return Err(format!("slot {slot} is open for a process that is gone"));
        }
    }
    for slot in 0..SLOTS {
        let claim = ClaimWord(word(memory, Word::claim(slot)));
        let may_launch = !claim.is_open() || word(memory, Word::ready(0)) & more_urgent(claim.level()) == 0;
        let expected = if may_launch { GATE_ALLOWED } else { 0 };
        if let Some(other) = gate_word(memory, slot).filter(|&found| found & GATE_ALLOWED != expected) {
            return Err(format!("the gate of slot {slot} is {other:#x}"));
        }
    }
    match word(memory, Word::EXHAUSTED) {
        0 => Ok(()),
        times => Err(format!("{times} changes gave up")),
    }
}

/// Explores a scenario at whose end everything must be consistent and no waiting thread may launch. A thread that waits does so
/// for the claim with its own number.
fn run(begin: &Memory, threads: &[Operations<'_>]) -> Explored {
    explore(
        begin,
        threads,
        |_| Ok(()),
        |memory, waiting| {
            is_consistent(memory)?;
            for slot in (0..waiting.len()).filter(|&slot| waiting[slot]) {
                let level = ClaimWord(word(memory, Word::claim(slot as u64))).level();
                if word(memory, Word::ready(0)) & more_urgent(level) == 0 {
                    return Err(format!("slot {slot} sleeps though it may launch"));
                }
            }
            Ok(())
        },
    )
}

#[track_caller]
fn holds(begin: &Memory, threads: &[Operations<'_>]) {
    let explored = run(begin, threads);
    eprintln!("{} states, {} ends", explored.states, explored.ends);
    assert_eq!(explored.violation, None);
    assert!(explored.ends > 0);
}

#[test]
fn claims_of_one_level_come_and_go() {
    let begin = page(&[(A, 2, false), (B, 2, false)]);
    let of = |owner| -> Operations<'_> {
        vec![
            report(owner, Report::Ready, owner),
            report(owner, Report::Idle, owner),
            report(owner, Report::Ready, owner),
        ]
    };
    holds(&begin, &[of(A), of(B)]);
}

#[test]
fn three_threads_report_about_one_level() {
    let begin = page(&[(A, 2, true), (B, 2, false), (B, 2, true)]);
    holds(
        &begin,
        &[
            vec![report(A, Report::Idle, 0)],
            vec![report(B, Report::Ready, 1)],
            vec![report(B, Report::Idle, 2)],
        ],
    );
}

#[test]
fn two_threads_report_about_one_claim() {
    let begin = page(&[(A, 2, false), (B, 0, true)]);
    holds(
        &begin,
        &[
            vec![report(A, Report::Ready, 0), report(A, Report::Idle, 0)],
            vec![report(A, Report::Idle, 0), report(A, Report::Ready, 0)],
        ],
    );
}

#[test]
fn a_level_changes_while_its_claim_comes_and_goes() {
    let begin = page(&[(A, 2, false), (B, 5, true)]);
    holds(
        &begin,
        &[
            vec![report(A, Report::Ready, 0), report(A, Report::Idle, 0)],
            vec![control(Control::SetLevel, 0, 1, 5), control(Control::SetLevel, 0, 1, 0)],
        ],
    );
}

#[test]
fn a_level_changes_while_another_claim_leaves_it() {
    let begin = page(&[(A, 2, true), (B, 2, true)]);
    holds(
        &begin,
        &[
            vec![control(Control::SetLevel, 0, 1, 1)],
            vec![report(B, Report::Idle, 1)],
            vec![report(A, Report::Idle, 0)],
        ],
    );
}

#[test]
fn a_claim_that_is_ready_is_never_invisible_while_its_level_changes() {
    let begin = page(&[(A, 2, true), (B, 5, false)]);
    let threads: [Operations<'_>; 2] = [
        vec![control(Control::SetLevel, 0, 1, 0), control(Control::SetLevel, 0, 1, 7)],
        vec![report(B, Report::Ready, 1), report(B, Report::Idle, 1)],
    ];
    let is_visible = |memory: &Memory| {
        let others = 1 << 5;
        let is_visible = word(memory, Word::ready(0)) & !others != 0;
        if is_visible { Ok(()) } else { Err("no bit is set".to_owned()) }
    };
    let explored = explore(&begin, &threads, is_visible, |memory, _| is_consistent(memory));
    assert_eq!(explored.violation, None);
}

#[test]
fn obedience_ends_and_begins_while_claims_come_and_go() {
    let begin = page(&[(A, 2, false), (B, 5, true)]);
    holds(
        &begin,
        &[vec![report(A, Report::Ready, 0)], vec![report(B, Report::Idle, 1)], vec![controllers_death()]],
    );
    holds(
        &begin,
        &[
            vec![report(A, Report::Ready, 0), report(A, Report::Idle, 0)],
            vec![control(Control::Release, 0, 0, 0), control(Control::Heartbeat, 0, 0, 0)],
        ],
    );
}

#[test]
fn a_late_heartbeat_meets_processes_that_have_given_it_up() {
    let begin = page(&[(A, 2, false), (B, 5, true)]);
    let check = |owner| -> Box<dyn Fn(&Machine<'_>)> {
        Box::new(move |machine| dispatch::report(machine.at(2000), owner, Report::Check, 0, 0))
    };
    let heartbeat = || -> Box<dyn Fn(&Machine<'_>)> {
        Box::new(|machine| dispatch::control(machine.at(2001), 0, Control::Heartbeat, 0, 0, 0))
    };
    holds(&begin, &[vec![check(A), report(A, Report::Ready, 0)], vec![heartbeat()]]);
    holds(&begin, &[vec![check(A)], vec![heartbeat(), report(B, Report::Idle, 1)]]);
}

#[test]
fn a_process_dies_while_other_changes_of_its_claim_run() {
    for reports in 0..3 {
        let begin = page(&[(A, 2, false), (B, 2, true)]);
        let life = || -> Operations<'_> {
            let before = [Report::Ready, Report::Idle].into_iter().take(reports);
            before.map(|operation| report(A, operation, 0)).chain([death(A)]).collect()
        };
        let expire = Box::new(|machine: &Machine<'_>| {
            dispatch::report(machine.at(2000), B, Report::Expire, 0, 1);
        });
        holds(&begin, &[life(), vec![control(Control::SetLevel, 0, 1, 7)]]);
        holds(&begin, &[life(), vec![expire, report(B, Report::Idle, 1)]]);
        holds(&begin, &[life(), vec![control(Control::Close, 0, 1, 0)], vec![report(B, Report::Idle, 1)]]);
    }
}

#[test]
fn a_process_dies_while_a_claim_is_opened_for_it() {
    let begin = page(&[(B, 2, true)]);
    holds(&begin, &[vec![Box::new(open(1, A, 2))], vec![death(A)], vec![report(B, Report::Idle, 0)]]);
}

#[test]
fn reports_of_a_slots_former_owner_are_refused() {
    let begin = page(&[(A, 2, true)]);
    // A knows the next generation in advance, and sends false reports about it until it is dead.
    let lie = |operation| -> Box<dyn Fn(&Machine<'_>)> {
        Box::new(move |machine| dispatch::report(machine, A, operation, 0, 2))
    };
    let reopen: Operations<'_> = vec![
        control(Control::Close, 0, 1, 0),
        Box::new(|machine| {
            let word = ClaimWord::new(2, 0, 4);
            dispatch::control(machine, 0, Control::Open, 0, word.0, B);
        }),
    ];
    let threads = [vec![lie(Report::Ready), lie(Report::Close)], reopen];
    let explored = explore(
        &begin,
        &threads,
        |_| Ok(()),
        |memory, _| {
            is_consistent(memory)?;
            let claim = ClaimWord(word(memory, Word::claim(0)));
            let is_untouched = claim == ClaimWord::new(2, 0, 4);
            if is_untouched { Ok(()) } else { Err(format!("{claim:?}")) }
        },
    );
    assert_eq!(explored.violation, None);
}

/// Explores what threads do to the lease of the claim in slot 0: at the end it must not have run out.
fn lasts(begin: &Memory, threads: &[Operations<'_>]) -> Explored {
    explore(
        begin,
        threads,
        |_| Ok(()),
        |memory, _| {
            is_consistent(memory)?;
            let is_ready = ClaimWord(word(memory, Word::claim(0))).is_ready();
            if is_ready { Ok(()) } else { Err("it ran out".to_owned()) }
        },
    )
}

/// A reports at this time that the claim in slot 0 still has work.
fn renew(now_ns: u64) -> Box<dyn Fn(&Machine<'_>)> {
    Box::new(move |machine| dispatch::report(machine.at(now_ns), A, Report::Ready, 0, 1))
}

/// B reports at this time that the lease of the claim in slot 0 may be over.
fn doubt(now_ns: u64) -> Box<dyn Fn(&Machine<'_>)> {
    Box::new(move |machine| dispatch::report(machine.at(now_ns), B, Report::Expire, 0, 1))
}

#[test]
fn a_lease_that_is_renewed_does_not_run_out() {
    let begin = page(&[(A, 2, true), (B, 5, false)]);
    // It lasts until 1050.
    let explored = lasts(&begin, &[vec![renew(1060)], vec![doubt(1061)]]);
    assert_eq!(explored.violation, None);
}

#[test]
fn a_lease_that_is_renewed_does_not_run_out_for_the_controller() {
    let begin = page(&[(A, 2, true), (B, 5, false)]);
    // It reads the lease, and then ends it.
    let look: Operations<'_> = vec![Box::new(|machine| {
        let word = ClaimWord(machine.at(1061).load(Word::claim(0)));
        if word.is_ready() && machine.load(Word::lease_until(0)) < 1061 {
            dispatch::control(machine, 0, Control::Expire, 0, 1, 0);
        }
    })];
    let explored = lasts(&begin, &[vec![renew(1060)], look]);
    assert_eq!(explored.violation, None);
}

#[test]
fn a_thread_that_has_slept_does_not_shorten_a_lease() {
    let begin = page(&[(A, 2, true), (B, 5, false)]);
    // One thread of A reads the clock and sleeps. Meanwhile another thread renews, and B reports.
    let explored = lasts(&begin, &[vec![renew(1005)], vec![renew(1060)], vec![doubt(1061)]]);
    assert_eq!(explored.violation, None);
}

#[test]
fn a_thread_that_has_slept_does_not_shorten_the_lease_of_a_slots_next_claim() {
    let begin = page(&[(A, 2, true)]);
    // The renewal is for a claim that is gone; the slot is then B's, which has work from 2000 until 2050.
    let next: Operations<'_> = vec![
        control(Control::Close, 0, 1, 0),
        Box::new(|machine| {
            dispatch::control(machine, 0, Control::Open, 0, ClaimWord::new(2, 0, 4).0, B);
        }),
        Box::new(|machine| dispatch::report(machine.at(2000), B, Report::Ready, 0, 2)),
    ];
    let explored = explore(
        &begin,
        &[vec![renew(1005)], next],
        |_| Ok(()),
        |memory, _| {
            is_consistent(memory)?;
            let until = word(memory, Word::lease_until(0));
            if until == 2050 { Ok(()) } else { Err(format!("it lasts until {until}")) }
        },
    );
    assert_eq!(explored.violation, None);
}

/// B waits in slot 0 for A in slot 1, with these other threads.
fn waits(others: Vec<Operations<'_>>) {
    let mut threads: Vec<Operations<'_>> = vec![vec![wait_to_launch(0)]];
    threads.extend(others);
    let claims = [(B, 5, true), (A, 2, true)];
    let mut quiet = gated(&claims);
    Machine::alone(&mut quiet, |machine| machine.ask_for_quiet(0));
    for begin in [page(&claims), gated(&claims), quiet] {
        holds(&begin, &threads);
    }
}

#[test]
fn a_waiting_process_is_woken_when_the_other_is_done() {
    waits(vec![vec![report(A, Report::Idle, 1), report(A, Report::Ready, 1), report(A, Report::Idle, 1)]]);
}

#[test]
fn a_process_that_begins_to_wait_is_woken_when_the_other_is_done() {
    let begin = page(&[(B, 5, false), (A, 2, true)]);
    let wait = vec![report(B, Report::Ready, 0), wait_to_launch(0)];
    let reports = [Report::Idle, Report::Ready, Report::Idle];
    holds(&begin, &[wait, reports.into_iter().map(|operation| report(A, operation, 1)).collect()]);
}

#[test]
fn a_waiting_process_is_woken_when_the_other_dies_or_leaves() {
    waits(vec![vec![death(A)]]);
    waits(vec![vec![report(A, Report::Close, 1)], vec![expire(1)]]);
}

#[test]
fn a_waiting_process_is_woken_when_levels_change() {
    waits(vec![vec![control(Control::SetLevel, 1, 1, 9)], vec![report(A, Report::Ready, 1)]]);
    waits(vec![vec![control(Control::SetLevel, 0, 1, 0)]]);
    // Also if the arbiter counts the waiting one as idle.
    waits(vec![vec![expire(0), control(Control::SetLevel, 0, 1, 0)]]);
}

/// A caller that updates the gate for another, and is faster than the author of the change, wakes the waiter instead.
#[test]
fn a_waiting_process_is_woken_by_the_caller_that_updates_its_gate() {
    let look_at_gate = || vec![report(B, Report::Gate, 0)];
    let repair = || vec![control(Control::Repair, 0, 0, 0)];
    waits(vec![vec![report(A, Report::Idle, 1)], look_at_gate()]);
    waits(vec![vec![report(A, Report::Idle, 1)], repair()]);
    waits(vec![vec![death(A)], look_at_gate()]);
    waits(vec![vec![controllers_death()], look_at_gate()]);
}

#[test]
fn a_waiting_process_is_woken_when_the_controller_dies() {
    waits(vec![vec![controllers_death()], vec![report(A, Report::Ready, 1)]]);
}

/// B has work in slot 0, and waits until A in slot 1 has, too, whose work comes and goes.
#[test]
fn without_a_request_for_quiet_a_preempted_process_is_woken() {
    let wait: Operations<'_> = vec![Box::new(|machine| {
        // More often than anything can change; discarded accesses after the thread's last step must end, too.
        for _ in 0..8 {
            if machine.load(Word::ready(0)) & more_urgent(5) != 0 {
                return;
            }
            machine.wait();
        }
    })];
    let come_and_go = [Report::Ready, Report::Idle, Report::Ready];
    let threads = [wait, come_and_go.into_iter().map(|operation| report(A, operation, 1)).collect()];
    for gates in [false, true] {
        let begin = page_with(&[(B, 5, true), (A, 2, false)], gates);
        let explored = explore(
            &begin,
            &threads,
            |_| Ok(()),
            |memory, waiting| {
                is_consistent(memory)?;
                if waiting[0] { Err("it sleeps though it is preempted".to_owned()) } else { Ok(()) }
            },
        );
        assert_eq!(explored.violation, None);
        assert!(explored.ends > 0);
    }
}

#[test]
fn with_a_request_for_quiet_a_process_is_woken_only_when_it_may_launch() {
    let mut memory = gated(&[(B, 5, true), (A, 2, false), (A, 7, false)]);
    let mut woken_by = |change: &dyn Fn(&Machine<'_>)| {
        Machine::alone(&mut memory, change);
        let is_woken = is_woken(&memory);
        Machine::alone(&mut memory, |machine: &Machine<'_>| machine.wait_is_over());
        is_woken
    };
    let [ready, idle] = [Report::Ready, Report::Idle].map(|operation| report(A, operation, 1));
    assert!(woken_by(&ready) && woken_by(&idle));
    assert!(!woken_by(&|machine| machine.ask_for_quiet(0)));
    assert!(!woken_by(&ready) && woken_by(&idle));
    assert!(
        !woken_by(&report(A, Report::Ready, 2)) && !woken_by(&report(A, Report::Idle, 2)),
        "they are less urgent"
    );
}

// Gates. They have scenarios of their own, since a word that no thread writes takes no step.

#[test]
fn gates_follow_claims_that_come_and_go() {
    // Two of one level alternate before a third, which may launch when both are idle.
    let begin = gated(&[(A, 2, false), (B, 2, true), (B, 5, true)]);
    holds(
        &begin,
        &[
            vec![report(A, Report::Ready, 0), report(A, Report::Idle, 0)],
            vec![report(B, Report::Idle, 1), report(B, Report::Ready, 1)],
        ],
    );
    // And two of different levels.
    let begin = gated(&[(A, 2, false), (B, 3, true), (B, 5, true)]);
    holds(
        &begin,
        &[
            vec![report(A, Report::Ready, 0), report(A, Report::Idle, 0)],
            vec![report(B, Report::Idle, 1), report(B, Report::Ready, 1)],
        ],
    );
}

#[test]
fn gates_follow_levels() {
    let begin = gated(&[(A, 2, true), (B, 5, true)]);
    holds(
        &begin,
        &[
            vec![control(Control::SetLevel, 1, 1, 1), control(Control::SetLevel, 1, 1, 3)],
            vec![report(A, Report::Idle, 0), report(A, Report::Ready, 0)],
        ],
    );
    holds(&begin, &[vec![control(Control::SetLevel, 0, 1, 7)], vec![report(B, Report::Idle, 1)]]);
}

/// The mask of levels may miss an existing level while a caller writes it that has not seen the last change.
#[test]
fn gates_follow_while_the_last_of_their_level_comes_and_another_goes() {
    let begin = gated(&[(A, 2, false), (B, 7, false), (B, 5, false)]);
    holds(
        &begin,
        &[
            vec![report(A, Report::Ready, 0)],
            vec![control(Control::SetLevel, 1, 1, 5)],
            vec![report(B, Report::Close, 2)],
        ],
    );
}

#[test]
fn gates_follow_the_end_of_a_process_and_of_a_claim() {
    let begin = gated(&[(A, 2, true), (B, 5, true)]);
    holds(&begin, &[vec![death(A)], vec![control(Control::SetLevel, 1, 1, 1)]]);
    holds(&begin, &[vec![death(B)], vec![report(A, Report::Idle, 0), report(A, Report::Ready, 0)]]);
    holds(&begin, &[vec![report(A, Report::Close, 0)], vec![expire(0)], vec![report(B, Report::Gate, 1)]]);
}

#[test]
fn the_gate_of_a_reused_slot_is_that_of_its_claim() {
    let begin = gated(&[(A, 2, true), (B, 5, true)]);
    let reopen: Operations<'_> = vec![
        control(Control::Close, 1, 1, 0),
        Box::new(|machine| {
            machine.make_gate(1, true);
            dispatch::control(machine, 0, Control::Open, 1, ClaimWord::new(2, 0, 4).0, B);
        }),
    ];
    holds(&begin, &[reopen, vec![report(A, Report::Idle, 0), report(A, Report::Ready, 0)]]);
}

#[test]
fn gates_follow_a_claim_that_is_opened_while_its_process_dies() {
    let begin = gated(&[(B, 2, false)]);
    holds(&begin, &[vec![Box::new(open(1, A, 5))], vec![death(A)], vec![report(B, Report::Ready, 0)]]);
}

#[test]
fn gates_follow_the_controllers_release_and_return() {
    let begin = gated(&[(A, 2, true), (B, 5, true)]);
    holds(
        &begin,
        &[
            vec![control(Control::Release, 0, 0, 0), control(Control::Heartbeat, 0, 0, 0)],
            vec![report(A, Report::Idle, 0), report(A, Report::Ready, 0)],
        ],
    );
    holds(&begin, &[vec![controllers_death()], vec![control(Control::SetLevel, 1, 1, 1)]]);
}

#[test]
fn a_repair_corrects_a_gate_in_any_state() {
    for bits in [0, GATE_ALLOWED] {
        let mut begin = gated(&[(A, 2, true), (B, 5, true), (B, 6, false)]);
        // As after changes that reached their bound, of an open claim and of one that is closed.
        Machine::alone(&mut begin, |machine| {
            report(B, Report::Close, 2)(machine);
            (1..SLOTS).for_each(|slot| machine.set_gate(slot, bits != 0));
        });
        holds(&begin, &[vec![control(Control::Repair, 0, 0, 0)], vec![report(A, Report::Idle, 0)]]);
        let mut begin = gated(&[(A, 2, true), (B, 5, true)]);
        Machine::alone(&mut begin, |machine| machine.set_gate(1, bits != 0));
        holds(&begin, &[vec![report(B, Report::Gate, 1)], vec![report(A, Report::Idle, 0)]]);
    }
}

// Faults that the checker must find.

#[test]
fn a_gate_that_is_not_checked_again_is_found() {
    let begin = gated(&[(A, 2, false), (B, 2, true), (B, 5, true)]);
    let careless = |owner, first: Report, then: Report| -> Operations<'_> {
        let change = move |machine: &Machine<'_>, operation: Report| {
            machine.write_gates_once();
            dispatch::report(machine, owner, operation, owner, 1);
        };
        vec![Box::new(move |machine| change(machine, first)), Box::new(move |machine| change(machine, then))]
    };
    let threads = [careless(A, Report::Ready, Report::Idle), careless(B, Report::Idle, Report::Ready)];
    let explored = run(&begin, &threads);
    let (why, _) = explored.violation.expect("two threads get in each other's way");
    assert!(why.contains("the gate"), "{why}");
}

#[test]
fn a_mask_that_is_not_checked_again_is_found() {
    let begin = page(&[(A, 2, false), (B, 2, false)]);
    let careless = |owner| -> Operations<'_> {
        let change = move |machine: &Machine<'_>, is_ready: bool| {
            let old = ClaimWord(machine.load(Word::claim(owner)));
            let new = if is_ready { old.renewed() } else { old.with_ready(false) };
            machine.replace(Word::claim(owner), old.0, new.0);
            let (count, bit) = (Word::ready_count(0, 2), 1 << 2);
            machine.add(count, if is_ready { 1 } else { u64::MAX });
            if machine.load(count) > 0 {
                machine.set(Word::ready(0), bit);
            } else {
                machine.clear(Word::ready(0), bit);
            }
        };
        vec![Box::new(move |machine| change(machine, true)), Box::new(move |machine| change(machine, false))]
    };
    let explored = run(&begin, &[careless(A), careless(B)]);
    let (why, _) = explored.violation.expect("two threads get in each other's way");
    assert!(why.contains("the ready bit"), "{why}");
}

#[test]
fn a_claim_that_is_opened_without_asking_again_is_found() {
    let begin = page(&[(B, 2, true)]);
    let careless: Operations<'_> = vec![Box::new(|machine| {
        let lives = machine.lives(A);
        let word = ClaimWord::new(1, 0, 2);
        let _ = protocol::open(machine, 1, word, A, || lives);
    })];
    let explored = run(&begin, &[careless, vec![death(A)]]);
    let (why, _) = explored.violation.expect("the process ends in between");
    assert!(why.contains("gone"), "{why}");
}

#[test]
fn a_waiter_that_does_not_look_again_is_found() {
    let begin = page(&[(B, 5, true), (A, 2, true)]);
    // Concludes from a wake-up that everything is as it was then.
    let careless: Operations<'_> = vec![Box::new(|machine| {
        if machine.load(Word::ready(0)) & more_urgent(5) != 0 {
            machine.wait();
            if machine.load(Word::ready(0)) & more_urgent(5) != 0 {
                // Discards what may have happened since.
                machine.wait_is_over();
                machine.wait();
            }
        }
    })];
    let reports = vec![report(A, Report::Idle, 1), report(A, Report::Ready, 1), report(A, Report::Idle, 1)];
    let explored = run(&begin, &[careless, reports]);
    let (why, _) = explored.violation.expect("it misses the last change");
    assert!(why.contains("sleeps"), "{why}");
}
