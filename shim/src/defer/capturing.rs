//! While a stream captures, nothing is deferred.
//!
//! Everything submitted before a capture is launched first, captured calls reach no device, and all other calls wait
//! in place.

use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::defer::decision::Decision;
use crate::defer::deferral::{Deferral, deferral};
use crate::defer::dependencies::EventUse;
use crate::hip::real;
use crate::outcome::Reason;
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::{Stopped, StreamName};

/// A capture is about to begin on a stream. Deferred work was submitted before, so it is launched first.
///
/// False if the stream captures already.
pub(crate) fn capture_begins(copy: &RuntimeCopy, stream: StreamName) -> bool {
    let deferral = deferral();
    let is_first = deferral.dependencies().capture_begins((copy.index(), number(stream)));
    deferral.note_captures(false);
    if !is_planted(Bug::CaptureWithoutDrain) {
        deferral.queues.wait_all_launched();
    }
    // A query of an event would end the capture.
    deferral.note_captures(true);
    is_first
}

/// A capture has ended on a stream, or did not begin.
pub(crate) fn capture_ended(copy: &RuntimeCopy, stream: StreamName) {
    let deferral = deferral();
    deferral.dependencies().capture_ends((copy.index(), number(stream)));
    deferral.note_captures(true);
}

/// A capture has ended without a graph. The runtime keeps its streams as they are: it refuses work on them, at once, until their
/// next capture. Which streams these are is asked from now on before anything is deferred.
pub(crate) fn capture_broke(copy: &RuntimeCopy, stream: StreamName) {
    deferral().has_broken_captures.store(true, Ordering::Release);
    capture_ended(copy, stream);
}

/// A number that no other capturing stream has. The per-thread stream is a different one in each thread.
fn number(stream: StreamName) -> usize {
    thread_local! {
        /// For its address, at which there is no stream.
        static MARK: u8 = const { 0 };
    }
    match stream {
        StreamName::Created(handle) => handle,
        StreamName::Legacy => 0,
        StreamName::PerThread => MARK.with(|mark| ptr::from_ref(mark).addr()),
    }
}

impl Deferral {
    /// Captures have begun or ended: nothing is deferred while any goes on. With `with_markers`, markers pause as
    /// well.
    pub(super) fn note_captures(&self, with_markers: bool) {
        // Changes that other threads note meanwhile come after this one.
        let _guard = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        let is_any = self.dependencies().is_any_capturing();
        if self.is_capturing.swap(is_any, Ordering::AcqRel) != is_any {
            self.queues.defer_nothing(is_any);
        }
        if with_markers {
            self.queues.pause_markers(is_any);
        }
    }

    /// Whether a call's stream is left over from a capture.
    pub(super) fn is_on_broken_capture(&self, call: &Stopped<'_>, copy: &RuntimeCopy) -> bool {
        self.has_broken_captures.load(Ordering::Acquire)
            && matches!(call.stream_name(), StreamName::Created(_))
            && real::is_capturing(copy, call.stream_name().handle())
    }

    /// A call that puts work on a stream while any stream captures.
    pub(super) fn during_capture(
        &self,
        call: &Stopped<'_>,
        copy: &'static RuntimeCopy,
        uses: &[EventUse],
    ) -> Decision {
        // A call that begins a capture waits for what is deferred. Until that is over this call would overtake it.
        self.queues.wait_all_launched();
        let stream = call.stream_name();
        if !matches!(stream, StreamName::Created(_)) {
            return Decision::Pass(Reason::StreamCapture);
        }
        // A wait for an event may make a stream join the capture.
        let joins = uses.iter().any(|used| matches!(used, EventUse::Wait(_)));
        if joins || real::is_capturing(copy, stream.handle()) {
            return Decision::Pass(Reason::StreamCapture);
        }
        match self.stream_of(call, copy) {
            Some((stream, _)) => self.wait_in_place(stream, self.demand(call), uses),
            None => Decision::Pass(Reason::StreamCapture),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn per_thread_streams_of_several_threads_capture_independently() {
        let copy = RuntimeCopy::at(0);
        let is_capturing = || deferral().dependencies().is_any_capturing();
        let begins = || assert!(capture_begins(copy, StreamName::PerThread), "it is another stream");
        begins();
        let other = thread::spawn(move || {
            begins();
            capture_ended(copy, StreamName::PerThread);
        });
        other.join().unwrap();
        assert!(is_capturing(), "the first one goes on");
        capture_ended(copy, StreamName::PerThread);
        assert!(!is_capturing());
    }
}
