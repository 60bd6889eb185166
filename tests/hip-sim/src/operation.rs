//! Operations of streams, in a form that can run any number of times; a graph's node holds one.

use core::ffi::c_void;
use std::sync::Arc;

use crate::abi::{hipHostFn_t, node_type};
use crate::copy::Copy;
use crate::event::Event;
use crate::graph::{Graph, GraphMemory};
use crate::launch::Launch;
use crate::set::Fill;
use crate::stream_value::Batch;

/// An operation of a stream or a graph node.
#[derive(Clone)]
pub(crate) enum Operation {
    Empty,
    Kernel(Arc<Launch>),
    Copy(Copy),
    Fill(Fill),
    Host(HostCall),
    Record(Arc<Event>),
    Wait(Arc<Event>),
    /// A child graph, which only graphs hold.
    Graph(Arc<Graph>),
    /// Memory that lives as long as the graphs that refer to it.
    Allocate(Arc<GraphMemory>),
    Free(usize),
    Values(Batch),
}

/// A function of the application with its argument.
#[derive(Clone, Copy)]
pub(crate) struct HostCall {
    pub(crate) function: hipHostFn_t,
    pub(crate) user: *mut c_void,
}

// SAFETY: the pointer is only passed back to the application's own function, which by HIP's contract runs on
// another thread.
unsafe impl Send for HostCall {}
// SAFETY: as above; nothing is read through it here.
unsafe impl Sync for HostCall {}

impl HostCall {
    pub(crate) fn call(&self) {
        if let Some(function) = self.function {
            // SAFETY: the application passed the function together with its argument.
            unsafe { function(self.user) };
        }
    }
}

impl Operation {
    /// `hipGraphNodeType`.
    pub(crate) fn node_type(&self) -> u32 {
        match self {
            Self::Empty => node_type::EMPTY,
            Self::Kernel(_) => node_type::KERNEL,
            Self::Copy(_) => node_type::MEMCPY,
            Self::Fill(_) => node_type::MEMSET,
            Self::Host(_) => node_type::HOST,
            Self::Record(_) => node_type::EVENT_RECORD,
            Self::Wait(_) => node_type::WAIT_EVENT,
            Self::Graph(_) => node_type::GRAPH,
            Self::Allocate(_) => node_type::MEM_ALLOC,
            Self::Free(_) => node_type::MEM_FREE,
            Self::Values(_) => node_type::BATCH_MEM_OP,
        }
    }
}
