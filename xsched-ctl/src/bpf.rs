//! The tracer's kernel side: loads the programs, attaches them, and reads what they report.

mod attach;
mod chain_maps;
mod counters;
mod driver;
mod enlist;
mod loader_watch;
mod maps;
mod object;
mod ring;
mod self_test;
mod shared;
pub(crate) mod sys;

pub(crate) use attach::{Attachment, Probes, Reach, Site};
pub(crate) use chain_maps::ChainMaps;
pub(crate) use counters::{CounterMap, Losses};
pub(crate) use driver::{DriverLinks, DriverMaps, FunctionPrograms, FunctionsError, try_driver_functions};
pub(crate) use enlist::Enlistment;
pub(crate) use loader_watch::{LOADER_SYMBOL, LoaderWatch, is_loader, own_loader};
pub(crate) use maps::Maps;
pub(crate) use maps::map_value;
pub(crate) use object::{BpfError, Options, Programs, load_error, processor_count};
pub(crate) use ring::{Record, Ring};
pub(crate) use self_test::{Attach, Features, PidFilter};
pub(crate) use shared::Shared;
pub(crate) use xsched_programs::KernelTypes;
