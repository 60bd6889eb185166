//! Explicit queues: XSched's functions, by which a program names its queues, gives them commands, suspends them, and says how
//! urgent they are.
//!
//! | file | responsible for |
//! | --- | --- |
//! | `code` | the answers, XSched's `XResult` |
//! | `refusal` | what a function cannot mean here, and why: once in the log |
//! | `handle`, `callback`, `hw_queue`, `xqueue` | what there is: names, commands that no queue has yet, streams that the program has named, queues |
//! | `objects` | which handle is which of these |
//! | `commands`, `streams`, `queues`, `hint` | XSched's functions, by what they concern |
//!
//! The C functions are in `entry/xsched.rs`, what they do with streams and queues in [`crate::defer`]. The headers are
//! `shim/include/xsched`. `docs/xsched.md` compares each function with XSched's.
//!
//! **Handles.** A handle is a number that was never given before, with the process's id in its upper half. So a stale one, one of
//! a parent or of another process, and one of another kind are not found. No pointer is made of a handle. An object that is
//! destroyed while other threads use it stays until they are done, and takes nothing new.
//!
//! **Locks.** The table of handles is locked for look-ups only. Whether a queue takes commands is under that queue's own lock,
//! which is never held while a thread waits or the program's code runs.

mod callback;
mod code;
mod commands;
mod handle;
mod hint;
mod hw_queue;
mod objects;
mod queues;
mod refusal;
mod streams;
mod xqueue;

pub(crate) use code::XResult;
pub(crate) use commands::{create_callback, destroy_command, launch};
pub(crate) use handle::Handle;
pub(crate) use hint::{deadline, k_deadline, laxity, priority, set_scheduler, time_slice, utilization};
pub(crate) use objects::renew_after_fork;
pub(crate) use queues::{
    count, create, destroy, of_hw_queue, query, resume, set_launch_config, set_level, submit, suspend, wait,
    wait_all,
};
pub(crate) use refusal::{Refusal, refuse};
pub(crate) use streams::{create_for_stream, destroy_hw_queue, device_resets, stream_ends, synchronize};
