//! The state of one copy of the library: the devices, their streams and memory, and loaded code.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::array::Array;
use crate::capture::Sessions;
use crate::devices::{self, Device};
use crate::engine::{Command, Completion, Queue, clock};
use crate::event::Event;
use crate::fat_binary::FatBinaries;
use crate::graph::{Executable, Graph, Node, UserObject};
use crate::handles::Handles;
use crate::kernel::Kernel;
use crate::memory::{Allocations, Pools};
use crate::module::Module;
use crate::stream::{Ordering as StreamOrdering, Stream};
use crate::{config, counters, fork};

/// All state of this copy of the library, except the dispatch tables.
pub(crate) struct Runtime {
    devices: Vec<Device>,
    queue_count: AtomicU32,
    pub(crate) streams: Handles<Stream>,
    pub(crate) events: Handles<Event>,
    pub(crate) modules: Handles<Module>,
    /// The objects that `hipFunction_t` points to.
    pub(crate) functions: Handles<Kernel>,
    pub(crate) fat_binaries: FatBinaries,
    pub(crate) memory: Arc<Allocations>,
    pub(crate) pools: Pools,
    pub(crate) arrays: Handles<Array>,
    pub(crate) captures: Sessions,
    pub(crate) graphs: Handles<Graph>,
    pub(crate) graph_nodes: Handles<Node>,
    pub(crate) executables: Handles<Executable>,
    pub(crate) user_objects: Handles<UserObject>,
    /// Addresses of memory that graphs allocate and free.
    pub(crate) graph_memory: Mutex<HashSet<usize>>,
}

/// The runtime; the first caller initialises it.
pub(crate) fn get() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        fork::watch();
        counters::report_at_exit();
        Runtime::new()
    })
}

impl Runtime {
    fn new() -> Self {
        let devices = devices::visible(config::get().devices);
        Self {
            queue_count: AtomicU32::new(devices.len() as u32),
            devices,
            streams: Handles::default(),
            events: Handles::default(),
            modules: Handles::default(),
            functions: Handles::default(),
            fat_binaries: FatBinaries::default(),
            memory: Arc::new(Allocations::new(config::get().memory_size)),
            pools: Pools::default(),
            arrays: Handles::default(),
            captures: Sessions::default(),
            graphs: Handles::default(),
            graph_nodes: Handles::default(),
            executables: Handles::default(),
            user_objects: Handles::default(),
            graph_memory: Mutex::default(),
        }
    }

    /// Devices in the order of their ordinals.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The calling thread's device; none if this process sees none.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.devices.get(devices::current())
    }

    /// A queue on an existing device.
    pub(crate) fn new_queue(&self, device: usize, priority: i32) -> Queue {
        let number = self.queue_count.fetch_add(1, Ordering::Relaxed);
        Queue::new(number, Arc::clone(&self.devices[device].engine), priority)
    }

    /// Appends a command to a stream, with the null stream's rule: its commands wait for those of all
    /// blocking streams, and theirs wait for its own. In null mode the command runs at once, in the caller.
    pub(crate) fn submit(&self, stream: &Stream, command: Command) -> Arc<Completion> {
        stream.lock_submission().submit(self, command)
    }

    /// Completions that a stream's next command must wait for, in addition to its own predecessors.
    pub(crate) fn implicit_waits(&self, stream: &Stream) -> Vec<Arc<Completion>> {
        match stream.ordering() {
            StreamOrdering::NonBlocking => Vec::new(),
            StreamOrdering::Blocking => {
                self.devices[stream.device()].legacy.queue().unfinished().into_iter().collect()
            }
            StreamOrdering::Legacy => {
                let is_blocking = |other: &Arc<Stream>| {
                    other.ordering() == StreamOrdering::Blocking && other.device() == stream.device()
                };
                let blocking = self.streams.all().into_iter().filter(is_blocking);
                blocking.filter_map(|s| s.queue().unfinished()).collect()
            }
        }
    }

    /// Blocks until all work submitted to a device so far is finished, on every stream.
    pub(crate) fn synchronize(&self, device: usize) {
        let streams = self.streams.all();
        let legacy = self.devices.get(device).map(|device| &device.legacy);
        let of_device = streams.iter().filter(|stream| stream.device() == device).chain(legacy);
        for completion in of_device.filter_map(|s| s.queue().unfinished()).collect::<Vec<_>>() {
            completion.wait();
        }
    }

    /// The same for every device.
    pub(crate) fn synchronize_all(&self) {
        (0..self.devices.len()).for_each(|device| self.synchronize(device));
    }
}

/// Submits to a queue. In null mode there are no queues, and the command runs at once, in the caller.
pub(crate) fn submit_to(queue: &Queue, command: Command) -> Arc<Completion> {
    if config::get().null {
        if let Some(run) = command.run {
            run();
        }
        return Arc::new(Completion::finished_at(clock::now_ns()));
    }
    queue.submit(command)
}
