//! Captures, and why else the shim's threads keep away from streams for a while.

use std::collections::HashSet;
use std::ptr;
use std::sync::atomic::Ordering;

use super::{Scheduling, lock};
use crate::api::Named;
use crate::driver;

/// Why the shim's threads keep away from streams.
#[derive(Default)]
pub(super) struct Reasons {
    /// Streams that capture.
    captures: HashSet<usize>,
    /// Calls that begin a capture once what is deferred was launched.
    beginning: usize,
    /// Calls that may end a primary context.
    pub(super) releases: usize,
}

impl Reasons {
    fn is_any(&self) -> bool {
        !self.captures.is_empty() || self.releases > 0
    }

    /// Whether nothing may be deferred.
    fn is_capturing(&self) -> bool {
        !self.captures.is_empty() || self.beginning > 0
    }
}

impl Scheduling {
    /// A capture is about to begin on a stream, once everything that is deferred was launched. While any goes on, nothing is deferred,
    /// and the shim puts nothing on streams and asks for nothing, since that could end it.
    ///
    /// False if it goes on there already.
    pub(crate) fn capture_begins(&self, named: Named) -> bool {
        self.pause_for(|reasons| reasons.beginning += 1);
        self.drain();
        self.pause_for(|reasons| {
            reasons.beginning -= 1;
            reasons.captures.insert(number(named))
        })
    }

    /// A capture has ended, or did not begin.
    pub(crate) fn capture_ends(&self, named: Named) {
        self.capture_ended(number(named));
    }

    pub(super) fn capture_ended(&self, number: usize) {
        self.pause_for(|reasons| reasons.captures.remove(&number));
    }

    /// Changes the reasons for which the shim's threads keep away from streams, and sees to it that they do. Under one lock, so that
    /// what one thread has changed is not taken back by another.
    pub(super) fn pause_for<R>(&self, change: impl FnOnce(&mut Reasons) -> R) -> R {
        let mut reasons = lock(&self.reasons);
        let (was_any, was_capturing) = (reasons.is_any(), reasons.is_capturing());
        let result = change(&mut reasons);
        let is_capturing = reasons.is_capturing();
        self.is_capturing.store(is_capturing, Ordering::Release);
        if is_capturing != was_capturing {
            self.queues.defer_nothing(is_capturing);
        }
        if reasons.is_any() != was_any {
            self.queues.pause_markers(!was_any);
        }
        result
    }
}

/// Whether work on a stream becomes part of a capture, or is refused because of one.
pub(super) fn is_in_capture(named: Named) -> bool {
    match named {
        Named::Legacy => true,
        Named::PerThread | Named::Created(_) => driver::is_capturing(named.address()),
    }
}

/// A number that no other capturing stream has. The per-thread stream is a different one in each thread.
fn number(named: Named) -> usize {
    thread_local! {
        /// For its address, at which there is no stream.
        static MARK: u8 = const { 0 };
    }
    match named {
        Named::PerThread => MARK.try_with(|mark| ptr::from_ref(mark).addr()).unwrap_or(named.address()),
        Named::Legacy | Named::Created(_) => named.address(),
    }
}
