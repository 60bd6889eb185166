//! What streams are asked to do, in a form that can be done any number of times: a graph's node holds one.

use core::ffi::c_void;
use std::sync::Arc;

use crate::abi::{hipHostFn_t, node_type};
use crate::copy::{Copy, Place};
use crate::engine::{Command, Completion};
use crate::event::Event;
use crate::graph::{Graph, GraphMemory};
use crate::launch::Launch;
use crate::runtime;
use crate::set::Fill;
use crate::stream::Lane;
use crate::stream_value::Batch;

/// See the module.
#[derive(Clone)]
pub(crate) enum Operation {
    Empty,
    Kernel(Arc<Launch>),
    Copy(Copy),
    Fill(Fill),
    Host(HostCall),
    Record(Arc<Event>),
    Wait(Arc<Event>),
    /// A graph of its own, which only graphs hold.
    Graph(Arc<Graph>),
    /// Memory that lives as long as the graphs that name it.
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

// SAFETY: the pointer is only handed back to the application's own function, which HIP says runs on another thread.
unsafe impl Send for HostCall {}
// SAFETY: as above; nothing is read through it here.
unsafe impl Sync for HostCall {}

impl HostCall {
    pub(crate) fn call(&self) {
        if let Some(function) = self.function {
            // SAFETY: the application gave the function together with its argument.
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

    /// Does it once, in the lane's turn and after `waits`. A graph is launched by its plan, not here.
    pub(crate) fn submit(&self, lane: &Lane<'_>, waits: Vec<Arc<Completion>>) -> Arc<Completion> {
        let mut command = match self {
            Self::Empty | Self::Graph(_) | Self::Allocate(_) | Self::Free(_) | Self::Record(_) => {
                Command::marker()
            }
            Self::Wait(event) => {
                Command { waits: event.completion().into_iter().collect(), ..Command::marker() }
            }
            Self::Kernel(launch) => launch.command(lane.device()),
            Self::Copy(copy) => {
                // Memory that is gone by now is the application's mistake, and costs what memory of the device would.
                let places = copy.places(runtime::get()).unwrap_or((Place::Device, Place::Device));
                let (work, copy) = (copy.work(places), copy.clone());
                Command::on_device(work, move || copy.run())
            }
            Self::Fill(fill) => fill.clone().command(),
            Self::Host(call) => {
                let call = *call;
                Command::transfer(move || call.call())
            }
            Self::Values(batch) => batch.clone().command(lane.device()),
        };
        command.waits.extend(waits);
        let completion = lane.submit(command);
        if let Self::Record(event) = self {
            event.record_completion(Arc::clone(&completion));
        }
        completion
    }
}
