//! Call stacks: who called whom down to a slice.

use std::sync::Arc;

/// The frames of a call stack, innermost first. Events that share one share its memory: it is known by its address.
pub type Stack<T = Arc<str>> = Arc<[StackFrame<T>]>;

/// A function that has called the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackFrame<T = Arc<str>> {
    /// The function, or whatever is to be shown for it.
    pub function: T,
    /// File name of the library or executable; empty if that is not known.
    pub library: T,
}
