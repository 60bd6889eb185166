//! LaunchWorkers: one thread for each queue that holds something back.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::threads;
use crate::xqueue::{Device, QueueId, XQueues};

/// How long a worker stays without work: bursts come in trains.
const LINGER: Duration = Duration::from_millis(100);

/// Starts the worker of a queue.
pub(super) fn start<D: Device>(queues: &Arc<XQueues<D>>, queue: QueueId) -> io::Result<()> {
    let queues = Arc::clone(queues);
    threads::start("xsched-launch", move || run(&queues, queue))
}

fn run<D: Device>(queues: &Arc<XQueues<D>>, queue: QueueId) {
    let mut state = queues.lock();
    loop {
        if let Some((command, begun)) = state.take(queue) {
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
            state.launched(queue);
            queues.publish(&state);
        } else if state.buffered(queue) > 0 {
            state = queues.wait(state);
        } else {
            let waited = queues.changed.wait_timeout_while(state, LINGER, |state| state.buffered(queue) == 0);
            let (after, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = after;
            if timeout.timed_out() && state.dismiss(queue) {
                return;
            }
        }
    }
}
