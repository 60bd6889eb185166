//! Call stacks: the chain of callers of a slice.

use std::sync::Arc;

/// The frames of a call stack, innermost first. Events with the same stack share its memory, so it can be looked up by
/// address.
pub type Stack<T = Arc<str>> = Arc<[StackFrame<T>]>;

/// A function of a call stack, called by the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackFrame<T = Arc<str>> {
    /// The function, or the text to be shown for it.
    pub function: T,
    /// File name of the library or executable; empty if that is not known.
    pub library: T,
}
