//! Executable graphs: whether one concerns more streams than the one that it is launched on.
//!
//! A graph may record HIP events, or wait for them or for semaphores. The shim does not know when, so a launch of such a graph
//! waits until all work before it was launched. What a graph contains is asked of the runtime when the graph is instantiated;
//! updates must not change the kinds of its nodes.

use crate::defer::deferral::{DEFERRAL, deferral};
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;

/// A graph was instantiated.
pub(crate) fn graph_instantiated(copy: &RuntimeCopy, executable: usize, graph: usize) {
    let is_alone = !real::reaches_out(copy, graph);
    deferral().dependencies().graph_instantiated((copy.index(), executable), is_alone);
}

/// An executable graph is about to be destroyed.
pub(crate) fn graph_destroyed(copy: &RuntimeCopy, executable: usize) {
    if let Some(deferral) = DEFERRAL.existing() {
        deferral.dependencies().graph_destroyed((copy.index(), executable));
    }
}
