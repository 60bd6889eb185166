//! Executable graphs: whether a kernel within waits on the device for other devices. Such a graph is never suspended.
//!
//! A graph's nodes are looked at when it is instantiated. Setters of executable graphs change the kernel of a node, or those of a
//! child graph's nodes, so the books follow them. They err on the safe side: a collective in a child graph, or in a graph that
//! was updated as a whole, is never taken back alone.
//!
//! What kinds of nodes a graph has is never changed. One of kernels, copies, fills and child graphs of these can be deferred. Others have
//! events, for which a program may ask, or memory, semaphores, conditions and host functions.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::{Change, Contents};
use crate::driver::{self, NodeKind};

/// Executable graphs by their address: those that have such kernels, and those with nothing that a program could ask for before they
/// are launched.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    collectives: Mutex<HashMap<usize, Collectives>>,
    /// Graphs that can be launched later, with a number that no other graph has had, nor this one before it was changed.
    plain: Mutex<HashMap<usize, u64>>,
    last: AtomicU64,
}

/// Where in an executable graph they are.
#[derive(Debug, Default)]
struct Collectives {
    /// Nodes of the graph from which it was instantiated: kernels, and child graphs with such kernels within.
    nodes: HashSet<usize>,
    /// Some were taken over from another graph, whose nodes are others.
    is_any_updated: bool,
}

impl Graphs {
    /// Whether an executable graph must not be suspended.
    pub(crate) fn waits_for_peers(&self, executable: usize) -> bool {
        self.lock().contains_key(&executable)
    }

    /// The number of an executable graph as it is now, if it can be launched later.
    pub(crate) fn plain(&self, executable: usize) -> Option<u64> {
        lock(&self.plain).get(&executable).copied()
    }

    /// A graph was instantiated.
    pub(crate) fn instantiated(
        &self,
        executable: usize,
        graph: usize,
        is_collective: &impl Fn(usize) -> bool,
    ) {
        let nodes = collectives(graph, is_collective);
        self.replace(executable, Collectives { nodes, is_any_updated: false });
        let number = is_plain(graph).then(|| self.next());
        let mut plain = lock(&self.plain);
        // Another may have had this address.
        plain.remove(&executable);
        plain.extend(number.map(|number| (executable, number)));
    }

    /// An executable graph was changed.
    pub(crate) fn changed(&self, change: Change, is_collective: &impl Fn(usize) -> bool) {
        let Change { executable, node, contents } = change;
        if let Some(number) = lock(&self.plain).get_mut(&executable) {
            *number = self.next();
        }
        let waits = match contents {
            Contents::Kernel(kernel) => is_collective(kernel),
            Contents::Graph(graph) => !collectives(graph, is_collective).is_empty(),
            Contents::AllOf(graph) => {
                let is_any_updated = !collectives(graph, is_collective).is_empty();
                self.replace(executable, Collectives { nodes: HashSet::new(), is_any_updated });
                return;
            }
        };
        let mut known = self.lock();
        let of = known.entry(executable).or_default();
        if waits {
            of.nodes.insert(node);
        } else {
            of.nodes.remove(&node);
        }
        if of.is_empty() {
            known.remove(&executable);
        }
    }

    /// An executable graph is about to be destroyed.
    pub(crate) fn destroyed(&self, executable: usize) {
        self.lock().remove(&executable);
        lock(&self.plain).remove(&executable);
    }

    fn replace(&self, executable: usize, collectives: Collectives) {
        let mut known = self.lock();
        // Another may have had this address.
        known.remove(&executable);
        if !collectives.is_empty() {
            known.insert(executable, collectives);
        }
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Collectives>> {
        lock(&self.collectives)
    }
}

/// Not held while calling the driver.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collectives {
    fn is_empty(&self) -> bool {
        self.nodes.is_empty() && !self.is_any_updated
    }
}

/// The nodes of a graph that wait for other devices, or have such nodes within. What the driver does not tell is taken for none.
fn collectives(graph: usize, is_collective: &impl Fn(usize) -> bool) -> HashSet<usize> {
    let waits = |node: &usize| match driver::node_kind(*node) {
        Some(NodeKind::Kernel) => driver::kernel_of(*node).is_some_and(is_collective),
        Some(NodeKind::Graph) => {
            driver::graph_within(*node).is_some_and(|graph| !collectives(graph, is_collective).is_empty())
        }
        Some(NodeKind::Memory | NodeKind::Other) | None => false,
    };
    driver::nodes_of(graph).into_iter().filter(waits).collect()
}

/// Whether a graph has nothing but kernels, copies and fills. False if the driver does not tell.
fn is_plain(graph: usize) -> bool {
    let nodes = driver::nodes_of(graph);
    let is_plain_node = |node: &usize| match driver::node_kind(*node) {
        Some(NodeKind::Kernel | NodeKind::Memory) => true,
        Some(NodeKind::Graph) => driver::graph_within(*node).is_some_and(is_plain),
        Some(NodeKind::Other) | None => false,
    };
    !nodes.is_empty() && nodes.iter().all(is_plain_node)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLLECTIVE: usize = 7;
    const PLAIN: usize = 8;

    fn change(graphs: &Graphs, node: usize, kernel: usize) -> bool {
        let change = Change { executable: 1, node, contents: Contents::Kernel(kernel) };
        graphs.changed(change, &|kernel| kernel == COLLECTIVE);
        graphs.waits_for_peers(1)
    }

    #[test]
    fn a_graph_waits_for_peers_while_any_of_its_nodes_does() {
        let graphs = Graphs::default();
        assert!(!change(&graphs, 10, PLAIN));
        assert!(change(&graphs, 10, COLLECTIVE));
        assert!(change(&graphs, 11, COLLECTIVE));
        assert!(change(&graphs, 10, PLAIN), "the other still does");
        assert!(!change(&graphs, 11, PLAIN));
    }

    #[test]
    fn a_graph_at_the_address_of_one_that_is_gone_is_another() {
        let graphs = Graphs::default();
        assert!(change(&graphs, 10, COLLECTIVE));
        graphs.destroyed(1);
        assert!(!graphs.waits_for_peers(1));
        assert!(change(&graphs, 10, COLLECTIVE));
        // One whose end was not seen.
        graphs.replace(1, Collectives::default());
        assert!(!graphs.waits_for_peers(1));
    }

    #[test]
    fn what_an_update_has_brought_stays_until_the_next() {
        let graphs = Graphs::default();
        graphs.replace(1, Collectives { nodes: HashSet::new(), is_any_updated: true });
        assert!(change(&graphs, 10, COLLECTIVE));
        assert!(change(&graphs, 10, PLAIN), "it may be the one that the update has brought, or another");
    }
}
