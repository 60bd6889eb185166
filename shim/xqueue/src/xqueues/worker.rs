//! Launch workers: one thread for each queue with deferred commands. Any worker that is awake launches the next command, of any
//! queue. If its launch does not return, the others take over.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(test)]
use crate::clock::tests::Stopped;
use crate::device::Device;
use crate::ids::QueueId;
use crate::launching;
use crate::state::TakenCommand;
use crate::threads;
use crate::xqueues::{WAIT_MAX, XQueues};

/// How long a worker stays without work: bursts often follow each other.
const LINGER: Duration = Duration::from_millis(100);

/// Starts the worker of a queue.
pub(super) fn start<D: Device>(queues: &Arc<XQueues<D>>, queue: QueueId) -> io::Result<()> {
    let trouble = queues.setup.trouble;
    let queues = Arc::clone(queues);
    #[cfg(test)]
    let clock = Stopped::of_this_thread();
    threads::start("xsched-launch", trouble, move || {
        #[cfg(test)]
        clock.into_iter().for_each(Stopped::enter);
        run(&queues, queue);
    })
}

fn run<D: Device>(queues: &Arc<XQueues<D>>, queue: QueueId) {
    let mut state = queues.lock();
    let mut idle_since = Instant::now();
    loop {
        if let Some(TakenCommand { queue: taken, command, mut launch }) = state.take(queues.setup.bugs) {
            queues.open_gates_for(&mut state, launch.as_ref());
            drop(state);
            if let Some(launch) = &mut launch {
                queues.prepare(launch);
            }
            let on_device = launching::during(taken, || queues.device.launch(command));
            if let Some(launch) = launch {
                queues.finish(launch, on_device);
            }
            state = queues.lock();
            state.deferred_launch_returned(taken);
            queues.publish_to_callers(&mut state);
            idle_since = Instant::now();
        } else if !state.has_worker(queue) {
            // The queue was destroyed.
            return;
        } else if state.is_any_buffered() {
            // The next command may be another queue's whose own worker is in a launch that does not return.
            state = XQueues::sleep(state, queue, WAIT_MAX);
            idle_since = Instant::now();
        } else if idle_since.elapsed() < LINGER {
            state = XQueues::sleep(state, queue, LINGER);
        } else if state.dismiss_worker(queue) {
            return;
        } else {
            state = XQueues::sleep(state, queue, LINGER);
        }
    }
}
