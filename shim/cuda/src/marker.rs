//! Markers: events of the shim's, recorded behind a program's work to see when that is complete. They are used again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use xsched_sched::Nanos;

use crate::api::Named;
use crate::driver::{self, Context, Event};
use crate::green;

/// A stream, by its context and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CudaStream {
    pub(crate) context: Context,
    pub(crate) name: Named,
    /// The stream waits for the null stream of its context, and the null stream for it.
    pub(crate) is_blocking: bool,
}

impl CudaStream {
    /// The calling thread's own stream of a context.
    pub(crate) fn per_thread(context: Context) -> Self {
        Self { context, name: Named::PerThread, is_blocking: true }
    }

    pub(crate) fn handle(self) -> usize {
        self.name.address()
    }

    /// Runs `act` on a thread for which the handle means this stream. None if there is no such thread.
    pub(crate) fn within<R>(self, act: impl FnOnce() -> Option<R>) -> Option<R> {
        let base = green::base(self.context);
        if base != self.context && !matches!(self.name, Named::Created(_)) {
            // Through the primary context, another stream would be meant.
            return (driver::current_context() == Some(self.context)).then(act)?;
        }
        driver::within(base, act)
    }

    /// Whether it has nothing left to do; None if the driver does not say.
    pub(crate) fn is_done(self) -> Option<bool> {
        self.within(|| driver::is_stream_done(self.handle()))
    }
}

/// An event that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudaMarker {
    context: Context,
    event: Event,
}

impl CudaMarker {
    /// Whether everything before it has completed. True if the driver cannot tell, so that waits end.
    pub(crate) fn is_complete(self) -> bool {
        driver::within(self.context, || Some(!driver::is_pending(self.event))).unwrap_or(true)
    }

    /// Device time since an earlier marker that is complete as well.
    pub(crate) fn since(self, earlier: Self) -> Option<Nanos> {
        let time = driver::within(self.context, || driver::milliseconds(earlier.event, self.event))?;
        (time >= 0.0).then(|| Nanos((f64::from(time) * 1e6) as u64))
    }
}

/// Events that are not in use, by context.
#[derive(Debug, Default)]
pub(crate) struct MarkerPool(Mutex<HashMap<Context, Vec<Event>>>);

impl MarkerPool {
    /// Records a marker; None if the driver refuses.
    pub(crate) fn record(&self, stream: CudaStream) -> Option<CudaMarker> {
        // A green context's events are its primary context's.
        let context = green::base(stream.context);
        stream.within(|| {
            let event = self.with(|spare| spare.get_mut(&context)?.pop()).or_else(driver::create_event)?;
            let marker = CudaMarker { context, event };
            let is_recorded = driver::record(event, stream.handle());
            if !is_recorded {
                self.retire(marker);
            }
            is_recorded.then_some(marker)
        })
    }

    pub(crate) fn retire(&self, marker: CudaMarker) {
        self.with(|spare| spare.entry(marker.context).or_default().push(marker.event));
    }

    /// A context is gone, and its events with it.
    pub(crate) fn forget(&self, context: Context) {
        self.with(|spare| spare.remove(&context));
    }

    fn with<R>(&self, act: impl FnOnce(&mut HashMap<Context, Vec<Event>>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
