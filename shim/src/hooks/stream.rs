//! Streams: what they wait for, how they end, what is recorded from them.

use crate::abi::Signature;
use crate::counters::Work;
use crate::hooks::{Call, Outcome};

/// A wait, or a value written, in stream order.
pub(crate) fn deferrable<S: Signature>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(Work::Signal, call)
}

/// A query answers for all work of the stream, a destroyed stream finishes its work, and attributes hold for
/// later work only.
pub(crate) fn drains<S: Signature>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}

/// The beginning and end of capture, and questions about it. Calls that synchronise while a stream captures
/// would invalidate the capture: none may be added.
pub(crate) fn captures<S: Signature>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::capture(call)
}
