//! The guard: a thread that opens the process's gates while its watcher is stuck in a call of the runtime.
//!
//! A driver may hold its lock while a thread waits in a call for work behind a closed gate, as CUDA's does in `cuMemFree`. The
//! watcher's own calls then wait for that lock, and it could not open the gate if the controller ended meanwhile. The guard makes no
//! calls of the runtime, so nothing keeps it. With the gates open the thread's call returns, and with it the watcher's.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::clock::now;
use crate::device::Device;
use crate::threads;
use crate::xqueues::XQueues;

/// How often it looks.
const LOOKS: Duration = Duration::from_millis(50);

/// Starts the guard of these queues. It ends with them, or with the process. Without a thread there is none.
pub fn start_guard<D: Device>(queues: &Arc<XQueues<D>>) {
    let (trouble, queues) = (queues.setup().trouble, Arc::downgrade(queues));
    let _ = threads::start("xsched-guard", trouble, move || watch(&queues));
}

fn watch<D: Device>(queues: &Weak<XQueues<D>>) {
    loop {
        thread::sleep(LOOKS);
        let Some(queues) = queues.upgrade().filter(|queues| !queues.is_closed()) else { return };
        queues.guard_gates(now());
    }
}
