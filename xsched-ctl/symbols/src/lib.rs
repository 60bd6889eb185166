//! Address spaces of other processes, kept up to date with perf's side-band events, and the symbols in them.
//!
//! A trace record has a process, an address and a time, and is read a few milliseconds after it was written.
//! By then the process may have loaded libraries, executed another program, or ended, so `/proc/PID/maps` would
//! often show the wrong address space or none. This crate reads what perf calls side-band data instead
//! (<https://man7.org/linux/man-pages/man2/perf_event_open.2.html>): the kernel reports every mapping, name
//! change, fork, exec and exit with its time. So an address is looked up in the address space *as it was at the
//! record's time*.
//!
//! ```no_run
//! use xsched_symbols::{Change, Processes, Sideband, kernel_name, short_name};
//!
//! // Open the side-band first, then scan the running processes, so that no process is missed between the two.
//! let mut sideband = Sideband::open()?;
//! let mut processes = Processes::new();
//! processes.scan_running();
//! for (pid, runtime) in processes.runtimes() {
//!     println!("{pid} runs {}", runtime.path.display());
//! }
//! sideband.drain(|event| {
//!     if let Some(Change::Mapped { pid, mapping }) = processes.apply(&event) {
//!         println!("{pid} loaded {}", mapping.library());
//!     }
//! });
//! # let (pid, address, time_ns) = (1, 2, 3);
//! if let Some(location) = processes.locate(pid, address, time_ns) {
//!     match processes.name(&location) {
//!         Ok(symbol) => println!("{} in {}", short_name(&symbol.mangled), location.mapping.library()),
//!         Err(why) => println!("{}+{:#x}: {why}", location.mapping.library(), address),
//!     }
//! }
//! # Ok::<(), xsched_symbols::SidebandError>(())
//! ```
//!
//! Times are nanoseconds of the machine's `CLOCK_BOOTTIME`, the clock of `bpf_ktime_get_boot_ns`. Process and thread ids are
//! those of the reader's pid namespace, for which `/proc` must be mounted; processes without an id there are not known.

mod address_space;
mod binaries;
mod clock;
mod demangle;
mod elf;
mod function;
mod late;
mod lost;
mod mapping;
mod maps;
mod open;
mod process;
mod processes;
mod procfs;
mod roots;
mod runtime;
mod sideband;
mod signature;
mod symbol_table;
#[cfg(test)]
mod tests;
mod timeout;

pub use clock::{now_ns, own_ns};
pub use demangle::{demangle, kernel_name, short_name};
pub use elf::{ElfError, symbol_file_offsets, variable_address};
pub use function::{MappedFunction, find_function, function_in, own_code};
pub use lost::LostEvents;
pub use mapping::{Backing, FileId, Mapping};
pub use maps::{executable_mappings, mapped_files};
pub use open::{OpenError, Patience, are_files_opening, open_mapped, open_regular};
pub use process::Process;
pub use processes::{Change, Location, NameError, Processes, ScanError};
pub use procfs::{lacks_main_thread, process_folder};
pub use roots::{has_own_files, hold_root};
pub use runtime::{is_shim, runtime_of};
pub use sideband::{PerfEvent, PerfEventKind, Sideband, SidebandError};
pub use signature::{fold_templates, plain_name};
pub use symbol_table::Symbol;
pub use timeout::{PathSpace, with_timeout};
