//! LaunchWorkers: one thread for each queue that holds something back. Whichever is awake launches what goes next, of
//! whatever queue; the others are there for when a launch does not return.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(test)]
use crate::clock::tests::Stopped;
use crate::queues::{Device, QueueId, WAIT_MAX, XQueues};
use crate::threads;

/// How long a worker stays without work: bursts come in trains.
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
        if let Some((taken, command, begun)) = state.take(queues.setup.bugs) {
            queues.open_for(&mut state, begun.as_ref());
            drop(state);
            if let Some(begun) = &begun {
                queues.prepare(begun);
            }
            let on_device = queues.device.launch(command);
            if let Some(begun) = begun {
                queues.finish(begun, on_device);
            }
            state = queues.lock();
            state.launched(taken);
            queues.publish_to_callers(&mut state);
            idle_since = Instant::now();
        } else if !state.has_worker(queue) {
            // It was destroyed.
            return;
        } else if state.is_anything_buffered() {
            // Maybe of a queue whose own worker is busy with a launch that does not return.
            state = XQueues::sleep(state, queue, WAIT_MAX);
            idle_since = Instant::now();
        } else if idle_since.elapsed() < LINGER {
            state = XQueues::sleep(state, queue, LINGER);
        } else if state.dismiss(queue) {
            return;
        } else {
            state = XQueues::sleep(state, queue, LINGER);
        }
    }
}
