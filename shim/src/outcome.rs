//! What becomes of a call, and why: the answers of hooks, which the summary lists.

/// Declares an enum together with the list and the names of its variants.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in the summary.
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
pub(crate) use counted;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<R> {
    /// The call is over for the caller, with this result.
    Done(R),
    /// The real function gets the call, untouched, on the caller's thread.
    Pass(Reason),
}

counted! {
    /// Why the real function got a call at once, or when it got it instead.
    Reason {
        /// The call was deferred and answered by the shim.
        Deferred = "deferred",
        /// The call could not be made later: its caller waited until it could be made.
        WaitedInPlace = "waited in place",
        /// The call needed earlier work to be launched, and waited for it.
        Drained = "waited for what was deferred",
        /// Other processes use the device too, and the call may go.
        Scheduled = "beside others",
        /// The call is never suspended.
        NeverSuspended = "never suspended",
        /// The call passes through.
        PassedThrough = "passed through",
        /// A function that the program has given to the stream's queue makes the call, now that it is its turn.
        OwnCommand = "by the program's own command",
        /// Nothing schedules this process: work goes straight to its stream.
        NotScheduled = "nothing schedules",
        /// The call needs earlier work to be launched, and none is deferred.
        NothingDeferred = "nothing deferred",
        /// The function is newer than the list.
        UnknownFunction = "unknown function",
        /// The call controls or observes stream capture, which the shim does not take part in.
        StreamCapture = "stream capture",
        /// The runtime called its own API.
        RuntimeInternal = "inside the runtime",
        /// This thread is already inside a hook.
        Reentered = "inside a hook",
        /// The hook panicked.
        Panicked = "hook panicked",
        /// `XSCHED_DISABLE` is set.
        Disabled = "disabled",
    }
}
