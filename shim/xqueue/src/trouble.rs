//! Troubles that the program does not see. The back end counts them.

/// Things that should not happen. They cost a process its scheduling for a while, never a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The controller had no free slot for the process, or for one more of its queues: it is not scheduled.
    ControllerFull,
    /// The controller did not take a report: it was too far behind.
    UnsentReport,
    /// The controller gave memory for events that cannot be written into.
    NoEventRing,
    /// The program has closed or replaced the connection to the controller: it is not scheduled until the next one.
    LostConnection,
    /// The runtime did not take a gate: the process's commands on that device are not stopped any more once they were launched.
    RefusedGate,
    /// The crate panicked on a thread of its own.
    Panic,
}
