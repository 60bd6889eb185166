//! Streams: waits, destruction and capture.

use std::ptr;

use crate::abi::{Hooked, InRegister, Stream};
use crate::api::Id;
use crate::defer;
use crate::explicit;
use crate::hooks::Call;
use crate::outcome::{Outcome, Reason};

/// `hipErrorStreamCaptureUnmatched` and `hipErrorStreamCaptureWrongThread`: the capture goes on elsewhere.
const CAPTURE_GOES_ON: [u64; 2] = [903, 908];

/// `hipErrorStreamCaptureInvalidated` and `hipErrorStreamCaptureUnjoined`.
const CAPTURE_BROKE: [u64; 2] = [901, 904];

/// A wait, or a value written, in stream order.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}

/// A new stream.
pub(crate) fn observes<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    call.make(|copy, handle| defer::stream_created(copy, Stream(ptr::without_provenance_mut(handle))))
}

/// A query answers for all work of the stream, a destroyed stream finishes its work, and attributes hold for
/// later work only.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    if let (Id::hipStreamDestroy, Some(copy), Some(stream)) =
        (call.function.id, call.target.copy, call.stream())
    {
        explicit::stream_ends(copy, stream);
    }
    super::ordered_then(call, || {
        if let (Id::hipStreamDestroy, Some(copy), Some(stream)) =
            (call.function.id, call.target.copy, call.stream())
        {
            // Before the real call: afterwards the handle may already be another stream's.
            defer::stream_destroyed(copy, stream);
        }
    })
}

/// The beginning and end of capture, and queries of it. Calls that synchronise while a stream captures would
/// invalidate the capture: none may be added.
pub(crate) fn captures<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let (Some(copy), Some(_)) = (call.target.copy, call.stream()) else {
        return Outcome::Pass(Reason::StreamCapture);
    };
    let stream = call.stopped().stream_name();
    match call.function.id {
        Id::hipStreamBeginCapture | Id::hipStreamBeginCapture_spt | Id::hipStreamBeginCaptureToGraph => {
            let is_first = defer::capture_begins(copy, stream);
            let result = call.real();
            if is_first && result.into_word() != 0 {
                defer::capture_ended(copy, stream);
            }
            Outcome::Done(result)
        }
        Id::hipStreamEndCapture | Id::hipStreamEndCapture_spt => {
            let result = call.real();
            match result.into_word() {
                code if CAPTURE_GOES_ON.contains(&code) => {}
                code if CAPTURE_BROKE.contains(&code) => defer::capture_broke(copy, stream),
                _ => defer::capture_ended(copy, stream),
            }
            Outcome::Done(result)
        }
        _ => Outcome::Pass(Reason::StreamCapture),
    }
}
