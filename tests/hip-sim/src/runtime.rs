//! The state of one copy of the library: one device, its streams, its memory, and what was loaded onto it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::engine::{Command, Completion, Device, Queue, clock};
use crate::event::Event;
use crate::fat_binary::FatBinaries;
use crate::handles::Handles;
use crate::kernel::Kernel;
use crate::memory::Allocations;
use crate::module::Module;
use crate::stream::{Ordering as StreamOrdering, Stream};
use crate::{config, counters};

/// See the module.
pub(crate) struct Runtime {
    device: Arc<Device>,
    queue_count: AtomicU32,
    /// The null stream: handles 0 and 1.
    legacy: Arc<Stream>,
    pub(crate) streams: Handles<Stream>,
    pub(crate) events: Handles<Event>,
    pub(crate) modules: Handles<Module>,
    /// What `hipFunction_t` points to.
    pub(crate) functions: Handles<Kernel>,
    pub(crate) fat_binaries: FatBinaries,
    pub(crate) memory: Arc<Allocations>,
}

/// The runtime; the first caller brings it up.
pub(crate) fn get() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        counters::report_at_exit();
        Runtime::new()
    })
}

impl Runtime {
    fn new() -> Self {
        let device = Device::open(0);
        let legacy = Stream::new(Queue::new(0, Arc::clone(&device), 0), StreamOrdering::Legacy, 0, 0);
        Self {
            device,
            queue_count: AtomicU32::new(1),
            legacy: Arc::new(legacy),
            streams: Handles::default(),
            events: Handles::default(),
            modules: Handles::default(),
            functions: Handles::default(),
            fat_binaries: FatBinaries::default(),
            memory: Arc::new(Allocations::new(config::get().memory_size)),
        }
    }

    pub(crate) fn legacy_stream(&self) -> &Arc<Stream> {
        &self.legacy
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn new_queue(&self, priority: i32) -> Queue {
        Queue::new(self.queue_count.fetch_add(1, Ordering::Relaxed), Arc::clone(&self.device), priority)
    }

    /// Appends to a stream, with the null stream's rule: its commands wait for those of all blocking streams, and
    /// theirs for its own. In null mode the command is done here and now.
    pub(crate) fn submit(&self, stream: &Stream, mut command: Command) -> Arc<Completion> {
        if config::get().null {
            if let Some(run) = command.run {
                run();
            }
            return Arc::new(Completion::finished_at(clock::now_ns()));
        }
        command.waits.extend(self.implicit_waits(stream));
        stream.queue().submit(command)
    }

    /// Completions that a stream's next command must wait for besides its own predecessors.
    pub(crate) fn implicit_waits(&self, stream: &Stream) -> Vec<Arc<Completion>> {
        match stream.ordering() {
            StreamOrdering::NonBlocking => Vec::new(),
            StreamOrdering::Blocking => self.legacy.queue().unfinished().into_iter().collect(),
            StreamOrdering::Legacy => {
                let blocking =
                    self.streams.all().into_iter().filter(|s| s.ordering() == StreamOrdering::Blocking);
                blocking.filter_map(|s| s.queue().unfinished()).collect()
            }
        }
    }

    /// Blocks until everything submitted so far is finished, on every stream.
    pub(crate) fn synchronize(&self) {
        let streams = self.streams.all();
        let queues = streams.iter().chain([&self.legacy]).map(|stream| stream.queue());
        for completion in queues.filter_map(Queue::unfinished).collect::<Vec<_>>() {
            completion.wait();
        }
    }
}
