//! How a tracer finds deferred calls, whose probes are at the runtime's functions.
//!
//! A deferred call reaches its function later, on a thread of the shim's. Where the program called, the shim calls a function that does
//! nothing but defer, with the program's arguments. It is called after the runtime's, so that it can be probed as that. What the shim
//! calls of the runtime's by itself, deferred calls included, returns into one function, by which it is known.

/// What the names of the shim's announcing functions begin with. The rest is the name of the runtime's function.
pub const ANNOUNCES: &str = "xsched_deferred_";

/// The function of the shim's through which it calls the runtime by itself.
pub const ADDED_CALLS: &str = "xsched_added_call";

/// What an announcing function returns if the call was not deferred after all: then it is made, and seen as any other. No runtime has such a
/// code.
pub const NOT_DEFERRED: u32 = 0x7873_6465;
