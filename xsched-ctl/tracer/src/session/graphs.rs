//! How many kernels a graph launch starts, counted while the process builds or captures the graph.
//!
//! A count is either right or not given. It is not given for graphs from before the recording, for those with possibly
//! lost or filtered calls, and for those with nodes whose own count is unknown.

use std::collections::HashMap;

use xsched_abi::{Call, Category, ParamKind, Probe, Runtime};

use crate::call::Nodes;

/// Limit on node handles, which are kept for `hipGraphDestroyNode`. Beyond it, a graph that loses a node loses its
/// count.
const NODES_MAX: usize = 1 << 16;

/// `hipEventRecordExternal`, `hipEventWaitExternal`, and those of CUDA: the event becomes a node.
const EXTERNAL: u32 = 1;

/// The handle of the per-thread default stream, `hipStreamPerThread` and `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;

/// One kernel, or one node of another kind.
const KERNEL: Nodes = Nodes { kernels: 1, all: 1 };
const OTHER: Nodes = Nodes { kernels: 0, all: 1 };

/// A count, or None where it is not known.
type Count = Option<Nodes>;

/// The graphs of one process.
#[derive(Default)]
pub(crate) struct Graphs {
    /// By graph.
    built: HashMap<u64, Count>,
    executables: HashMap<u64, Count>,
    /// By node: its graph and what it adds.
    nodes: HashMap<u64, (u64, Nodes)>,
    /// Captured streams, and the id of their capture.
    captures: HashMap<StreamKey, u64>,
    captured: HashMap<u64, Count>,
    /// Events recorded on a captured stream; a stream that waits for one joins the capture.
    events: HashMap<u64, u64>,
    next_capture: u64,
}

/// A stream as its user sees it: each thread has its own per-thread default stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum StreamKey {
    Handle(u64),
    OfThread(u32),
}

impl Graphs {
    /// Notes a successful call; returns what a graph launch starts.
    pub(crate) fn note(&mut self, probe: &Probe, call: &Call) -> Count {
        let is_about_graphs = probe.category == Category::Graph || probe.stem == "GraphLaunch";
        if self.captures.is_empty() && !is_about_graphs {
            return None;
        }
        let word = |index: usize| call.words[index];
        match probe.stem {
            "GraphCreate" => self.begins(call.out, Some(Nodes::default())),
            "GraphClone" => self.begins(call.out, self.count(word(1))),
            "GraphDestroy" => self.destroyed(word(0)),
            "GraphDestroyNode" => self.node_destroyed(word(0)),
            "GraphInstantiate" | "GraphInstantiateWithFlags" | "GraphInstantiateWithParams" => {
                self.executables.insert(call.out, self.count(word(1)));
            }
            "GraphExecDestroy" => drop(self.executables.remove(&word(0))),
            // Disabled nodes start nothing; the kinds of an executable graph's nodes are unknown.
            "GraphNodeSetEnabled" => drop(self.executables.insert(word(0), None)),
            "GraphAddKernelNode" => self.adds(word(1), call.out, Some(KERNEL)),
            "GraphAddChildGraphNode" => self.adds(word(1), call.out, self.count(word(4))),
            "GraphAddNode" => self.adds(word(1), call.out, of_type(probe.runtime, word(6) as u32)),
            "GraphLaunch" => {
                let count = self.executables.get(&word(0)).copied().flatten();
                self.on_stream(probe, call, count);
                return count;
            }
            name if name.contains("GraphAdd") => self.adds(word(1), call.out, Some(OTHER)),
            "StreamBeginCapture" | "StreamBeginCaptureToGraph" => self.capture_begins(probe, call),
            "StreamEndCapture" => self.capture_ends(probe, call),
            "EventRecord" | "EventRecordWithFlags" => self.event_recorded(probe, call),
            "StreamWaitEvent" => self.event_awaited(probe, call),
            _ => self.on_stream(probe, call, what_is_captured(probe)),
        }
        None
    }

    /// The count of a graph; None also for an unknown graph.
    fn count(&self, graph: u64) -> Count {
        self.built.get(&graph).copied().flatten()
    }

    fn begins(&mut self, graph: u64, count: Count) {
        self.built.insert(graph, count);
    }

    fn destroyed(&mut self, graph: u64) {
        self.built.remove(&graph);
        self.nodes.retain(|_, (of, _)| *of != graph);
    }

    fn adds(&mut self, graph: u64, node: u64, more: Count) {
        let Some(count) = self.built.get_mut(&graph) else { return };
        *count = count.zip(more).map(|(count, more)| count + more);
        if let Some(more) = more.filter(|_| self.nodes.len() < NODES_MAX) {
            self.nodes.insert(node, (graph, more));
        }
    }

    fn node_destroyed(&mut self, node: u64) {
        match self.nodes.remove(&node) {
            Some((graph, less)) => {
                if let Some(Some(count)) = self.built.get_mut(&graph) {
                    count.kernels -= less.kernels;
                    count.all -= less.all;
                }
            }
            // It may be of any graph: captured graphs do not report their nodes.
            None => self.built.values_mut().for_each(|count| *count = None),
        }
    }

    fn capture_begins(&mut self, probe: &Probe, call: &Call) {
        let Some(stream) = stream(probe, call) else { return };
        let begun = match probe.stem {
            "StreamBeginCaptureToGraph" => self.count(call.words[1]),
            _ => Some(Nodes::default()),
        };
        self.next_capture += 1;
        self.captures.insert(stream, self.next_capture);
        self.captured.insert(self.next_capture, begun);
    }

    fn capture_ends(&mut self, probe: &Probe, call: &Call) {
        let Some(capture) = stream(probe, call).and_then(|stream| self.captures.get(&stream).copied()) else {
            return;
        };
        let count = self.captured.remove(&capture).flatten();
        self.captures.retain(|_, of| *of != capture);
        self.events.retain(|_, of| *of != capture);
        self.begins(call.out, count);
    }

    fn event_recorded(&mut self, probe: &Probe, call: &Call) {
        let event = call.words[0];
        match stream(probe, call).and_then(|stream| self.captures.get(&stream)) {
            Some(_) if probe.stem == "EventRecordWithFlags" && call.words[2] as u32 & EXTERNAL != 0 => {
                self.on_stream(probe, call, Some(OTHER));
            }
            Some(&capture) => drop(self.events.insert(event, capture)),
            None => drop(self.events.remove(&event)),
        }
    }

    fn event_awaited(&mut self, probe: &Probe, call: &Call) {
        if call.words[2] as u32 & EXTERNAL != 0 {
            return self.on_stream(probe, call, Some(OTHER));
        }
        if let (Some(stream), Some(&capture)) = (stream(probe, call), self.events.get(&call.words[1])) {
            self.captures.insert(stream, capture);
        }
    }

    /// Work is given to a stream; if the stream is captured, it is added to the graph.
    fn on_stream(&mut self, probe: &Probe, call: &Call, more: Count) {
        let capture = stream(probe, call).and_then(|stream| self.captures.get(&stream));
        if let Some(count) = capture.and_then(|capture| self.captured.get_mut(capture)) {
            *count = count.zip(more).map(|(count, more)| count + more);
        }
    }
}

/// What a call adds to a graph under capture.
fn what_is_captured(probe: &Probe) -> Count {
    match (probe.category, probe.name) {
        (_, name) if name.contains("MultiDevice") => None,
        (Category::Launch, _) => Some(KERNEL),
        // The runtime decides how many nodes a batch becomes.
        (_, name) if name.contains("Batch") => None,
        (Category::Stream, name) if name.contains("Attribute") || name.contains("Query") => {
            Some(Nodes::default())
        }
        (Category::Copy | Category::Set | Category::Memory | Category::Stream, _) => Some(OTHER),
        _ => Some(Nodes::default()),
    }
}

/// Values of `hipGraphNodeType` and `CUgraphNodeType`: a kernel is 0, a child graph 4. CUDA's conditional node, 13, starts as much
/// as its condition says.
fn of_type(runtime: Runtime, node_type: u32) -> Count {
    match (runtime, node_type) {
        (_, 0) => Some(KERNEL),
        (_, 4) | (Runtime::Cuda, 13) => None,
        _ => Some(OTHER),
    }
}

/// The stream of a call. None for a function without one.
fn stream(probe: &Probe, call: &Call) -> Option<StreamKey> {
    let param = probe.params.iter().find(|param| param.kind == ParamKind::Stream)?;
    let handle = call.words[usize::from(param.offset / 8)];
    let is_own = handle == PER_THREAD || (handle == 0 && probe.is_per_thread());
    Some(if is_own { StreamKey::OfThread(call.tid) } else { StreamKey::Handle(handle) })
}

#[cfg(test)]
mod tests;
