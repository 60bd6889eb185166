//! The tracer's kernel side: loads the programs, attaches them, and reads what they report.

mod attach;
mod driver;
mod enlist;
mod loader_watch;
mod logs;
mod maps;
mod object;
mod options;
mod self_test;

pub(crate) use attach::{Attachment, Probes, Reach, Site};
pub(crate) use driver::{DriverLinks, DriverMaps, FunctionPrograms};
pub use driver::{FunctionsError, try_driver_functions};
pub use enlist::Enlistment;
pub(crate) use loader_watch::{LOADER_SYMBOL, LoaderWatch, is_loader, own_loader};
pub(crate) use logs::Logs;
pub(crate) use maps::Maps;
pub use object::{Options, Programs};
pub use options::{Driver, ExtraDevice, Uprobes};
pub use self_test::{Attach, Features, PidFilter};
pub(crate) use xsched_programs::KernelTypes;
