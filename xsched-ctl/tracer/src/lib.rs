//! The tracer. It records the HIP and CUDA calls of running processes with their callers, and calls to the kernel driver. It also
//! records what the controller and the shims do with the processes' queues.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `bpf` | the programs at runtimes and driver: loading, attaching, their maps |
//! | `session` | from records to calls with names |
//! | `filter` | which calls are recorded |
//! | `driver` | calls to the kernel driver, decoded |
//! | `scheduling` | the event rings of shims and controller, followed to the calls that they are about |
//! | `recorder` | the way of a call into the summary and the timeline |
//! | `summary`, `machine` | totals for people |
//! | `timeline`, `output`, `flight_recorder` | the recording: its tracks, the file that it goes to, what stays in memory |
//! | `preflight` | what can be known to fail before anything is touched |

mod bpf;
mod call;
mod driver;
mod error;
mod error_names;
mod filter;
mod flight_recorder;
mod machine;
mod output;
mod preflight;
mod recorder;
mod scheduling;
mod session;
mod summary;
mod timeline;

pub use bpf::{
    Attach, Driver, Enlistment, ExtraDevice, Features, FunctionsError, Options, PidFilter, Programs, Uprobes,
    try_driver_functions,
};
pub use driver::{Devices, number_of};
pub use error::{RuntimeError, TracerError};
pub use filter::{FilterError, Filters, Functions};
pub use output::{Compression, Destination, Format, Kept};
pub use preflight::{check_privileges, find_process, why_nothing_is_mapped};
pub use recorder::{Recorded, Recorder, SIZE_REACHED, Sink};
pub use scheduling::why_not_joined;
pub use session::{Session, Settings, Targets};
pub use timeline::{Executions, Style};
