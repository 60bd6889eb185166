//! Finds the smallest program that still shows a large program's fault.
//!
//! Steps are removed in ever smaller pieces. Steps that are thereby out of order, such as uses of an object
//! that is no longer created, are removed too. So every candidate has one result, and a difference is never
//! the candidate's own fault.

use std::io;

use crate::order::Order;
use crate::program::{Copy, Fill, HostCall, Kernel, Launch, Move, Op, Program, Step, Thread, Work};

/// Shrinks a program for which `shows` holds.
///
/// # Errors
///
/// Those of `shows`.
pub fn shrink(program: Program, shows: impl Fn(&Program) -> io::Result<bool>) -> io::Result<Program> {
    let mut smallest = program;
    loop {
        let before = smallest.clone();
        smallest = with_fewer_steps(smallest, &shows)?;
        smallest = with_simpler_steps(smallest, &shows)?;
        if smallest == before {
            return Ok(smallest);
        }
    }
}

fn with_fewer_steps(
    mut smallest: Program,
    shows: impl Fn(&Program) -> io::Result<bool>,
) -> io::Result<Program> {
    let mut piece = (smallest.steps.len() / 2).max(1);
    loop {
        // From the end, because later steps depend on earlier ones.
        let mut end = smallest.steps.len();
        while end > 0 {
            let start = end.saturating_sub(piece);
            let steps = &smallest.steps;
            let rest = steps[..start].iter().chain(&steps[end.min(steps.len())..]).cloned();
            let candidate = in_order(rest);
            if candidate.steps.len() < steps.len() && shows(&candidate)? {
                smallest = candidate;
            }
            end = start.min(smallest.steps.len());
        }
        if piece == 1 {
            return Ok(smallest);
        }
        piece = piece.div_ceil(2);
    }
}

/// Uses one thread, plain kernels and plain calls, if the fault still occurs.
fn with_simpler_steps(
    mut smallest: Program,
    shows: impl Fn(&Program) -> io::Result<bool>,
) -> io::Result<Program> {
    let alone = smallest.steps.iter().map(|Step(_, op)| Step(Thread(0), op.clone()));
    let alone = in_order(alone.filter(|Step(_, op)| !matches!(op, Op::Signal(_) | Op::Await(_))));
    if smallest.threads() > 1 && shows(&alone)? {
        smallest = alone;
    }
    for index in 0..smallest.steps.len() {
        let Some(Step(thread, op)) = smallest.steps.get(index).cloned() else { continue };
        for simpler in simpler_ops(&op) {
            let mut steps = smallest.steps.clone();
            steps[index] = Step(thread, simpler);
            let candidate = in_order(steps.into_iter());
            if candidate.steps.len() == smallest.steps.len() && shows(&candidate)? {
                smallest = candidate;
                break;
            }
        }
    }
    Ok(smallest)
}

/// Simpler steps that may show the same, the simplest first.
fn simpler_ops(op: &Op) -> Vec<Op> {
    let mut simpler = match op {
        Op::Submit(stream, work) => vec![Op::Submit(*stream, simpler(*work))],
        Op::Timed(stream, work, start, stop) => vec![
            Op::Submit(*stream, simpler(*work)),
            Op::Timed(*stream, *work, None, *stop),
            Op::Timed(*stream, *work, *start, None),
        ],
        // Nodes depend on earlier ones only.
        Op::BuildGraph(graph, nodes) => {
            (1..nodes.len()).map(|count| Op::BuildGraph(*graph, nodes[..count].to_vec())).collect()
        }
        _ => Vec::new(),
    };
    simpler.retain(|simpler| simpler != op);
    simpler
}

fn simpler(work: Work) -> Work {
    match work {
        Work::Kernel { to, from, .. } => {
            Work::Kernel { kernel: Kernel::Mix, by: Launch::Plain, to, from, key: 1 }
        }
        Work::Copy { by: Copy::Sync, .. } | Work::Fill { by: Fill::Sync, .. } => work,
        Work::Copy { to, from, .. } => Work::Copy { by: Copy::Async, to, from },
        Work::Fill { to, .. } => Work::Fill { by: Fill::Async, to, value: 1 },
        Work::Host { to, from, .. } => Work::Host { by: HostCall::Function, to, from, key: 1 },
        Work::WriteValue { by, to, .. } => Work::WriteValue { by, to, value: 1 },
        Work::Move { what, .. } => Work::Move { by: Move::Prefetch, what },
    }
}

/// Removes steps that are no longer allowed; empty if a gate or capture is open at the end.
fn in_order(steps: impl Iterator<Item = Step> + Clone) -> Program {
    let threads = steps.clone().map(|step| step.0.index() + 1).max().unwrap_or(1);
    let mut order = Order::new(threads);
    let mut kept = Vec::new();
    for step in steps {
        let mut next = order.clone();
        if next.step(&step).is_ok() {
            order = next;
            kept.push(step);
        }
    }
    if order.finish().is_err() {
        kept.clear();
    }
    Program { steps: kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::generate;
    use crate::order;

    /// Whether a graph is launched after a callback was submitted.
    fn graph_after_callback(program: &Program) -> bool {
        let is_callback =
            |step: &Step| matches!(step.1, Op::Submit(_, Work::Host { by: HostCall::Callback, .. }));
        let callback = program.steps.iter().position(is_callback);
        let graph = program.steps.iter().rposition(|step| matches!(step.1, Op::LaunchGraph(..)));
        callback.zip(graph).is_some_and(|(callback, graph)| callback < graph)
    }

    #[test]
    fn the_result_is_small_and_in_order() {
        let programs: Vec<_> = (0..400).map(generate).filter(graph_after_callback).collect();
        assert!(programs.len() > 10, "{} programs show it", programs.len());
        for program in programs.into_iter().take(10) {
            let smallest = shrink(program, |program| Ok(graph_after_callback(program))).unwrap();
            assert!(graph_after_callback(&smallest));
            assert!(order::check(&smallest).is_ok());
            // Both steps, their objects, and the steps that order them.
            assert!(smallest.steps.len() <= 20, "{smallest}");
        }
    }

    #[test]
    fn an_error_of_the_predicate_is_returned() {
        assert!(shrink(generate(1), |_| Err(io::Error::other("no"))).is_err());
    }
}
