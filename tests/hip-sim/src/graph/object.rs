//! What a graph is: nodes with operations, the edges between them, and what it keeps alive.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::abi::{hipGraph_t, hipGraphNode_t, hipKernelNodeAttrValue};
use crate::error::HipError;
use crate::handles::Handles;
use crate::memory::{self, Kind};
use crate::operation::{HostCall, Operation};
use crate::runtime::table;

table! {
    /// Graphs with handles.
    listed: Handles<Graph> = Handles::default()
}

table! {
    /// Nodes with handles.
    pub(super) listed_nodes: Handles<Node> = Handles::default()
}

table! {
    /// Addresses of memory that graphs allocate and free.
    graph_memory: Mutex<HashSet<usize>> = Mutex::default()
}

/// One operation of a graph.
pub(crate) struct Node {
    pub(super) graph: Weak<Graph>,
    operation: Mutex<Operation>,
    /// Whether a launch runs it; only executables' nodes can be disabled.
    pub(super) is_enabled: AtomicBool,
    /// The node that this one was copied from.
    pub(super) source: Option<Weak<Node>>,
    pub(super) attributes: Mutex<BTreeMap<u32, hipKernelNodeAttrValue>>,
}

impl Node {
    pub(crate) fn operation(&self) -> Operation {
        self.operation.lock().expect("no holder panics").clone()
    }

    pub(super) fn set_operation(&self, operation: Operation) {
        *self.operation.lock().expect("no holder panics") = operation;
    }

    /// Copies another node's operation, as an update does.
    pub(super) fn copy_operation(&self, other: &Self) {
        self.set_operation(other.operation());
        let attributes = other.attributes.lock().expect("no holder panics").clone();
        *self.attributes.lock().expect("no holder panics") = attributes;
    }

    pub(super) fn is_copy_of(&self, source: &Arc<Self>) -> bool {
        self.source.as_ref().is_some_and(|own| Weak::as_ptr(own) == Arc::as_ptr(source))
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }
}

/// An edge from a node to one that depends on it.
pub(super) type Edge = (Arc<Node>, Arc<Node>);

#[derive(Default)]
pub(super) struct State {
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) edges: Vec<Edge>,
    /// The same edges, by address.
    known: HashSet<(usize, usize)>,
}

/// A graph and its nodes.
#[derive(Default)]
pub(crate) struct Graph {
    state: Mutex<State>,
    pub(super) objects: Mutex<Vec<Arc<UserObject>>>,
}

pub(super) fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node).addr()
}

impl Graph {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Appends a node whose handle is valid from now on. A repeated dependency counts once.
    pub(crate) fn add(self: &Arc<Self>, operation: Operation, dependencies: &[Arc<Node>]) -> Arc<Node> {
        let node = self.new_node(operation, None);
        listed_nodes().insert(&node);
        let mut state = self.lock();
        state.nodes.push(Arc::clone(&node));
        for dependency in dependencies {
            state.connect(dependency, &node);
        }
        node
    }

    fn new_node(self: &Arc<Self>, operation: Operation, source: Option<Weak<Node>>) -> Arc<Node> {
        Arc::new(Node {
            graph: Arc::downgrade(self),
            operation: Mutex::new(operation),
            is_enabled: AtomicBool::new(true),
            source,
            attributes: Mutex::default(),
        })
    }

    /// Nodes without dependents.
    pub(crate) fn leaves(&self) -> Vec<Arc<Node>> {
        let state = self.lock();
        let with_dependents: HashSet<usize> = state.edges.iter().map(|(from, _)| address(from)).collect();
        state.nodes.iter().filter(|n| !with_dependents.contains(&address(n))).cloned().collect()
    }

    /// Topological order of the nodes, otherwise in the order of their addition; none if there is a cycle.
    pub(super) fn in_order(&self) -> Option<Vec<Arc<Node>>> {
        let state = self.lock();
        let mut waiting: HashMap<usize, usize> = HashMap::new();
        let mut dependents: HashMap<usize, Vec<&Arc<Node>>> = HashMap::new();
        for (from, to) in &state.edges {
            *waiting.entry(address(to)).or_default() += 1;
            dependents.entry(address(from)).or_default().push(to);
        }
        let is_ready = |node: &&Arc<Node>| !waiting.contains_key(&address(node));
        let mut ready: VecDeque<_> = state.nodes.iter().filter(is_ready).cloned().collect();
        let mut order = Vec::with_capacity(state.nodes.len());
        while let Some(node) = ready.pop_front() {
            for dependent in dependents.remove(&address(&node)).unwrap_or_default() {
                let left = waiting.get_mut(&address(dependent)).expect("every target of an edge is counted");
                *left -= 1;
                if *left == 0 {
                    ready.push_back(Arc::clone(dependent));
                }
            }
            order.push(node);
        }
        (order.len() == state.nodes.len()).then_some(order)
    }

    /// A copy whose nodes refer to their originals. Child graphs are copied too. The copies have handles if
    /// `is_registered`.
    pub(super) fn copy(&self, is_registered: bool) -> Arc<Self> {
        let copied = Arc::new(Self::default());
        let state = self.lock();
        let mut by_source = HashMap::new();
        let mut target = State::default();
        for node in &state.nodes {
            let operation = match node.operation() {
                Operation::Graph(child) => Operation::Graph(child.copy(is_registered)),
                other => other,
            };
            let duplicate = copied.new_node(operation, Some(Arc::downgrade(node)));
            let attributes = node.attributes.lock().expect("no holder panics").clone();
            *duplicate.attributes.lock().expect("no holder panics") = attributes;
            by_source.insert(address(node), Arc::clone(&duplicate));
            target.nodes.push(duplicate);
        }
        for (from, to) in &state.edges {
            target.connect(&by_source[&address(from)], &by_source[&address(to)]);
        }
        if is_registered {
            for node in &target.nodes {
                listed_nodes().insert(node);
            }
            listed().insert(&copied);
        }
        *copied.lock() = target;
        let objects = self.objects.lock().expect("no holder panics");
        copied.objects.lock().expect("no holder panics").clone_from(&objects);
        drop(objects);
        copied
    }

    /// Invalidates the graph's handles, and those of its child graphs.
    pub(super) fn unregister(self: &Arc<Self>) {
        listed().remove(Arc::as_ptr(self).cast());
        for node in &self.lock().nodes {
            listed_nodes().remove(Arc::as_ptr(node).cast());
            if let Operation::Graph(child) = node.operation() {
                child.unregister();
            }
        }
    }
}

impl State {
    /// False if the edge existed.
    pub(super) fn connect(&mut self, from: &Arc<Node>, to: &Arc<Node>) -> bool {
        let is_new = self.known.insert((address(from), address(to)));
        if is_new {
            self.edges.push((Arc::clone(from), Arc::clone(to)));
        }
        is_new
    }

    /// False if the edge did not exist.
    pub(super) fn disconnect(&mut self, from: &Arc<Node>, to: &Arc<Node>) -> bool {
        let was_there = self.known.remove(&(address(from), address(to)));
        self.edges.retain(|(f, t)| !(Arc::ptr_eq(f, from) && Arc::ptr_eq(t, to)));
        was_there
    }

    pub(super) fn remove(&mut self, node: &Arc<Node>) {
        let own = address(node);
        self.nodes.retain(|n| address(n) != own);
        self.edges.retain(|(from, to)| address(from) != own && address(to) != own);
        self.known.retain(|(from, to)| *from != own && *to != own);
    }
}

/// Memory that a graph allocates. It exists from the creation of the node until no graph refers to it.
pub(crate) struct GraphMemory {
    pub(crate) base: usize,
    pub(crate) size: usize,
}

impl GraphMemory {
    pub(crate) fn new(size: usize) -> Result<Arc<Self>, HipError> {
        if size == 0 {
            return Err(HipError::InvalidValue);
        }
        let base = memory::known().allocate(size, Kind::Device, 0).ok_or(HipError::OutOfMemory)?;
        let base = base.expose_provenance();
        graph_memory().lock().expect("no holder panics").insert(base);
        Ok(Arc::new(Self { base, size }))
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        graph_memory().lock().expect("no holder panics").remove(&self.base);
        drop(memory::known().remove(self.base));
    }
}

/// Whether an address is the start of a graph's memory, which the graph frees.
pub(crate) fn owns_memory(address: usize) -> bool {
    graph_memory().lock().expect("no holder panics").contains(&address)
}

/// An application's object. It is destroyed when neither the application nor a graph refers to it.
pub(crate) struct UserObject {
    pub(super) destructor: HostCall,
    /// The application's own references; while there are any, the runtime's handle keeps the object alive.
    pub(super) references: AtomicI64,
}

impl Drop for UserObject {
    fn drop(&mut self) {
        self.destructor.call();
    }
}

/// A new graph with a handle.
pub(crate) fn create_registered() -> Arc<Graph> {
    let graph = Arc::new(Graph::default());
    listed().insert(&graph);
    graph
}

/// Destroys a graph made by [`create_registered`].
pub(crate) fn destroy_registered(graph: &Arc<Graph>) {
    graph.unregister();
}

pub(crate) fn handle(graph: &Arc<Graph>) -> hipGraph_t {
    Arc::as_ptr(graph).cast::<c_void>().cast_mut()
}

pub(crate) fn node_handle(node: &Arc<Node>) -> hipGraphNode_t {
    Arc::as_ptr(node).cast::<c_void>().cast_mut()
}

/// The graph for a handle.
pub(crate) fn resolve(graph: hipGraph_t) -> Result<Arc<Graph>, HipError> {
    listed().get(graph).ok_or(HipError::InvalidValue)
}

/// The node for a handle.
pub(super) fn resolve_node(node: hipGraphNode_t) -> Result<Arc<Node>, HipError> {
    listed_nodes().get(node).ok_or(HipError::InvalidValue)
}

/// The nodes for an array of handles, all of one graph.
///
/// # Safety
///
/// `nodes` is null or has `count` elements.
pub(crate) unsafe fn resolve_nodes(
    graph: &Arc<Graph>,
    nodes: *const hipGraphNode_t,
    count: usize,
) -> Result<Vec<Arc<Node>>, HipError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if nodes.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller upholds this function's contract.
    let handles = unsafe { core::slice::from_raw_parts(nodes, count) };
    let resolved: Result<Vec<_>, _> = handles.iter().map(|handle| resolve_node(*handle)).collect();
    let resolved = resolved?;
    let is_own = |node: &Arc<Node>| Weak::as_ptr(&node.graph) == Arc::as_ptr(graph);
    if resolved.iter().all(is_own) { Ok(resolved) } else { Err(HipError::InvalidValue) }
}
