//! What the shim, the controller and the BPF programs share.
//!
//! Plain data only: `#[repr(C)]`, sized by assertion, without padding, readable by each side without `unsafe`.
//! Times are nanoseconds of the machine's `CLOCK_BOOTTIME`, outside all time namespaces.
//!
//! | module | what crosses |
//! | --- | --- |
//! | `arbiter_page` | the words that say which levels may launch, and the operations that change them |
//! | `wire` | the messages between a process and the controller |
//! | `events` | the rings in which scheduling is recorded |
//! | `calls` | the memory in which a process records its own calls |
//! | `verdict` | the pages with the verdicts on calls |
//! | `shim_status` | the shim's state, for other processes to read |
//! | `probe` | HIP's functions, by the numbers that verdicts and records use |
//! | `deferred` | the names by which a tracer finds deferred calls |
//! | `return_probe` | how the kernel replaces a return address |
//! | `time_namespace` | what a process's clock is ahead of the machine's |
//!
//! Nothing here knows BPF, a socket or a clock.

#![no_std]

/// Gives an enum whose variants are numbers a function that finds the variant of a number.
macro_rules! from_number {
    ($number:ty, $type:ident: $($variant:ident)*) => {
        impl $type {
            /// The variant of a number, if there is one.
            #[inline]
            pub const fn from_number(number: $number) -> Option<Self> {
                $(if number == Self::$variant as $number {
                    return Some(Self::$variant);
                })*
                None
            }
        }
    };
}

pub mod arbiter_page;
#[cfg(not(target_arch = "bpf"))]
pub mod calls;
pub mod deferred;
#[cfg(not(target_arch = "bpf"))]
pub mod events;
pub mod probe;
pub mod return_probe;
pub mod shim_status;
pub mod time_namespace;
pub mod verdict;
pub mod wire;
