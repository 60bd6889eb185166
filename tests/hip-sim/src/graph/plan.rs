//! A graph's layout: its nodes in lanes, each an in-order queue, so that branches run in parallel.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::object::{Graph, Node, address};
use crate::copy::MemoryType;
use crate::engine::{Command, Completion, Queue};
use crate::operation::Operation;
use crate::stream::{SubmissionGuard, new_queue, submit_to};

/// Further branches share lanes, so that a wide graph does not need a queue for each node.
const MOST_LANES: usize = 4;

/// Where a graph's branch runs: on the stream of the launch, or on a queue beside it.
pub(super) enum Lane<'a> {
    Stream(&'a SubmissionGuard<'a>),
    /// With the ordinal of its device.
    Queue(&'a Queue, usize),
}

impl Lane<'_> {
    /// Ordinal of its device.
    fn device(&self) -> usize {
        match self {
            Self::Stream(guard) => guard.device(),
            Self::Queue(_, device) => *device,
        }
    }

    fn submit(&self, command: Command) -> Arc<Completion> {
        match self {
            Self::Stream(guard) => guard.submit(command),
            Self::Queue(queue, _) => submit_to(queue, command),
        }
    }

    /// Submits an operation once, in order and after `waits`. A child graph is launched by its plan instead.
    fn submit_operation(&self, operation: &Operation, waits: Vec<Arc<Completion>>) -> Arc<Completion> {
        let mut command = match operation {
            Operation::Empty
            | Operation::Graph(_)
            | Operation::Allocate(_)
            | Operation::Free(_)
            | Operation::Record(_) => Command::marker(),
            Operation::Wait(event) => {
                Command { waits: event.completion().into_iter().collect(), ..Command::marker() }
            }
            Operation::Kernel(launch) => launch.command(self.device()),
            Operation::Copy(copy) => {
                // If the memory was freed meanwhile, which is the application's mistake, the copy takes as
                // long as one within the device.
                let memory_types = copy.memory_types().unwrap_or((MemoryType::Device, MemoryType::Device));
                let (work, copy) = (copy.work(memory_types), copy.clone());
                Command::on_device(work, move || copy.run())
            }
            Operation::Fill(fill) => fill.clone().command(),
            Operation::Host(call) => {
                let call = *call;
                Command::transfer(move || call.call())
            }
            Operation::Values(batch) => batch.clone().command(self.device()),
        };
        command.waits.extend(waits);
        let completion = self.submit(command);
        if let Operation::Record(event) = operation {
            event.record_completion(Arc::clone(&completion));
        }
        completion
    }
}

struct Step {
    node: Arc<Node>,
    /// Lane 0 is the stream or queue on which the graph is launched.
    lane: usize,
    /// Earlier steps of other lanes.
    waits: Vec<usize>,
    /// The layout of a child graph.
    child: Option<Plan>,
}

/// The layout of one graph.
pub(super) struct Plan {
    steps: Vec<Step>,
    lanes: usize,
    /// Queues of the lanes after the first, created when first needed.
    helpers: OnceLock<Vec<Queue>>,
}

impl Plan {
    /// None if the dependencies form a cycle.
    pub(super) fn new(graph: &Graph) -> Option<Self> {
        let order = graph.in_order()?;
        let position: HashMap<usize, usize> = order.iter().map(address).zip(0..).collect();
        let mut dependencies = vec![Vec::new(); order.len()];
        for (from, to) in &graph.lock().edges {
            dependencies[position[&address(to)]].push(position[&address(from)]);
        }
        let mut lanes = Lanes::default();
        let mut steps: Vec<Step> = Vec::with_capacity(order.len());
        for (index, (node, mut waits)) in order.into_iter().zip(dependencies).enumerate() {
            let lane = lanes.assign(index, &waits);
            // Earlier steps of the same lane need no wait.
            waits.retain(|earlier| steps[*earlier].lane != lane);
            let child = match node.operation() {
                Operation::Graph(child) => Some(Self::new(&child)?),
                _ => None,
            };
            steps.push(Step { node, lane, waits, child });
        }
        Some(Self { steps, lanes: lanes.last.len(), helpers: OnceLock::new() })
    }

    /// Every node in the order of the steps, without those of child graphs.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.steps.iter().map(|step| &step.node)
    }

    /// Layouts of the child graphs.
    pub(super) fn children(&self) -> impl Iterator<Item = &Self> {
        self.steps.iter().filter_map(|step| step.child.as_ref())
    }

    /// Submits the whole graph, to start after `waits`; returns the completion of the whole.
    pub(super) fn run(&self, first: &Lane<'_>, waits: Vec<Arc<Completion>>) -> Arc<Completion> {
        let device = first.device();
        let helpers = self.helpers.get_or_init(|| (1..self.lanes).map(|_| new_queue(device, 0)).collect());
        let start = first.submit(Command { waits, ..Command::marker() });
        let mut has_begun = vec![false; self.lanes];
        let mut done: Vec<Arc<Completion>> = Vec::with_capacity(self.steps.len());
        let mut tails: Vec<Option<Arc<Completion>>> = vec![None; self.lanes];
        for step in &self.steps {
            let mut waits: Vec<_> = step.waits.iter().map(|index| Arc::clone(&done[*index])).collect();
            let helper;
            let lane = if step.lane == 0 {
                first
            } else {
                helper = Lane::Queue(&helpers[step.lane - 1], device);
                if !core::mem::replace(&mut has_begun[step.lane], true) {
                    waits.push(Arc::clone(&start));
                }
                &helper
            };
            let completion = match (&step.child, step.node.is_enabled()) {
                (_, false) => lane.submit_operation(&Operation::Empty, waits),
                (Some(child), true) => child.run(lane, waits),
                (None, true) => lane.submit_operation(&step.node.operation(), waits),
            };
            tails[step.lane] = Some(Arc::clone(&completion));
            done.push(completion);
        }
        let others = tails.into_iter().skip(1).flatten().collect();
        first.submit(Command { waits: others, ..Command::marker() })
    }
}

/// The last step of each lane so far.
#[derive(Default)]
struct Lanes {
    last: Vec<usize>,
}

impl Lanes {
    /// Assigns a step to a lane: that of a dependency which no step follows yet, else a new lane while the
    /// limit allows.
    fn assign(&mut self, step: usize, dependencies: &[usize]) -> usize {
        let follows = self.last.iter().position(|last| dependencies.contains(last));
        let lane = match follows {
            Some(lane) => lane,
            None if self.last.len() < MOST_LANES => {
                self.last.push(step);
                self.last.len() - 1
            }
            None => step % MOST_LANES,
        };
        self.last[lane] = step;
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::create_registered;

    fn lanes_of(plan: &Plan) -> Vec<usize> {
        plan.steps.iter().map(|step| step.lane).collect()
    }

    #[test]
    fn a_chain_needs_one_lane() {
        let graph = create_registered();
        let first = graph.add(Operation::Empty, &[]);
        let second = graph.add(Operation::Empty, &[first]);
        graph.add(Operation::Empty, &[second]);
        assert_eq!(lanes_of(&Plan::new(&graph).unwrap()), [0, 0, 0]);
    }

    #[test]
    fn branches_get_lanes_and_the_join_waits_for_them() {
        let graph = create_registered();
        let root = graph.add(Operation::Empty, &[]);
        let left = graph.add(Operation::Empty, &[Arc::clone(&root)]);
        let right = graph.add(Operation::Empty, &[root]);
        graph.add(Operation::Empty, &[left, right]);
        let plan = Plan::new(&graph).unwrap();
        assert_eq!(lanes_of(&plan), [0, 0, 1, 0]);
        assert_eq!(plan.steps[2].waits, [0]);
        assert_eq!(plan.steps[3].waits, [2]);
    }

    #[test]
    fn a_cycle_has_no_plan() {
        let graph = create_registered();
        let first = graph.add(Operation::Empty, &[]);
        let second = graph.add(Operation::Empty, &[Arc::clone(&first)]);
        graph.lock().connect(&second, &first);
        assert!(Plan::new(&graph).is_none());
    }
}
