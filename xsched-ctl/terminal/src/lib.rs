//! What every command of xsched-ctl shares with the terminal that it was started from: lines and tables, signals, and errors
//! with a hint and an exit code.

mod advice;
mod causes;
mod descriptors;
mod say;
mod shortage;
mod signals;
mod table;
pub mod unreadable;

pub use advice::{Advice, ExitCode, Internal};
pub use causes::{is_permission, kind, with_causes};
pub use descriptors::Descriptors;
pub use say::{Reader, StdoutError, line, one_line, print};
pub use shortage::Shortage;
pub use signals::{Request, Signals, survive_writes};
pub use table::{counted, duration, short_name, write_table};
