//! Passes a dispatch table to a profiling tool, by the protocol of AMD's
//! [rocprofiler-register](https://github.com/ROCm/rocprofiler-register).
//!
//! The genuine runtime is linked with `librocprofiler-register.so.0`, which looks for a tool and calls its
//! `rocprofiler_set_api_table`. If a tool is requested and that library is installed or loaded, it does so
//! here too. Otherwise this module does the same work by the same rules:
//!
//! 1. `ROCPROFILER_REGISTER_ENABLED=0`: no table is passed.
//! 2. A tool is requested if the symbol `rocprofiler_configure` is visible, or by the environment
//!    (`settings`).
//! 3. The receiver is the visible `rocprofiler_set_api_table`, else that of `ROCPROFILER_REGISTER_LIBRARY` or
//!    `librocprofiler-sdk.so`, loaded with `RTLD_GLOBAL`.
//! 4. Tables are numbered by name; the first runtime of the process is instance 0 (`instances`). Eight is the
//!    maximum.
//!
//! If a tool is requested but there is no receiver, the genuine library aborts the process. Here the reason
//! is printed to stderr and the program continues. A receiver's result is ignored, as in the genuine runtime.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;
use std::path::{Path, PathBuf};

use self::settings::Settings;

mod instances;
mod settings;
mod symbols;

/// ROCm's profiler library, loaded if the environment names none.
const PROFILER: &str = "librocprofiler-sdk.so";
/// AMD's own registration library.
const GENUINE: &CStr = c"librocprofiler-register.so.0";
/// Limit of the genuine library for instances of one name.
const INSTANCES_MAX: u64 = 8;

/// A table to pass to a tool.
pub(crate) struct Offer {
    /// `hip` or `hip_compiler`.
    pub(crate) name: &'static CStr,
    pub(crate) table: *mut c_void,
}

/// `rocprofiler_set_api_table`: name, library version, instance, tables, number of tables.
type SetApiTable = unsafe extern "C" fn(*const c_char, u64, u64, *mut *mut c_void, u64) -> c_int;
/// `rocprofiler_register_library_api_table`: name, a function that returns the version, version, tables,
/// number of tables, an out-parameter for an identifier.
type RegisterTable = unsafe extern "C" fn(
    *const c_char,
    Option<unsafe extern "C" fn() -> u32>,
    u32,
    *mut *mut c_void,
    u64,
    *mut u64,
) -> c_int;

/// Why a requested tool does not get the table.
#[derive(Debug, thiserror::Error)]
enum RegistrationError {
    #[error("no `rocprofiler_set_api_table`: {} does not load: {reason}", library.display())]
    NoLibrary { library: PathBuf, reason: String },
    #[error("no `rocprofiler_set_api_table` in {}", .0.display())]
    NoReceiver(PathBuf),
    #[error("more than {INSTANCES_MAX} runtimes in this process")]
    TooManyInstances,
}

/// Offers a table of a release (in HIP's encoding) to this process's tool, if there is one.
pub(crate) fn offer(offer: &Offer, release: i32) {
    let settings = Settings::from_env();
    if !settings.enabled || !(settings.force || symbols::visible(c"rocprofiler_configure").is_some()) {
        return;
    }
    // In the protocol 60,500 is 6.5.0.
    let version = release.unsigned_abs() / 100_000;
    let version = version / 100 * 10_000 + version % 100 * 100;
    if !offer_by_genuine_library(offer, version)
        && let Err(error) = offer_directly(offer, version, settings.library.as_deref())
    {
        let name = offer.name.to_string_lossy();
        eprintln!("hip-sim: table `{name}` is not passed to a tool, where ROCm would abort: {error}");
    }
}

/// Whether AMD's library was available and did the work.
fn offer_by_genuine_library(offer: &Offer, version: u32) -> bool {
    let Some(library) = symbols::loaded(GENUINE).or_else(|| symbols::load(GENUINE).ok()) else {
        return false;
    };
    let Some(symbol) = symbols::of(&library, c"rocprofiler_register_library_api_table") else { return false };
    // SAFETY: the library's function of this name has this type.
    let register: RegisterTable = unsafe { core::mem::transmute(symbol.as_ptr()) };
    let (mut tables, mut identifier) = ([offer.table], 0);
    // SAFETY: arguments as the protocol requires; the tables are static. The function that returns the
    // version is used only in a secure mode, which would refuse any library but AMD's.
    unsafe { register(offer.name.as_ptr(), None, version, tables.as_mut_ptr(), 1, &raw mut identifier) };
    symbols::keep(library);
    true
}

fn offer_directly(offer: &Offer, version: u32, library: Option<&Path>) -> Result<(), RegistrationError> {
    let receiver = match symbols::visible(RECEIVER) {
        Some(visible) => visible,
        None => load_receiver(library.unwrap_or(Path::new(PROFILER)))?,
    };
    // SAFETY: a function of this name has this type.
    let set_api_table: SetApiTable = unsafe { core::mem::transmute(receiver.as_ptr()) };
    let instance = instances::next(offer.name);
    if instance >= INSTANCES_MAX {
        return Err(RegistrationError::TooManyInstances);
    }
    let mut tables = [offer.table];
    // SAFETY: arguments as the protocol requires; the table is static and its entries are atomic.
    unsafe { set_api_table(offer.name.as_ptr(), version.into(), instance, tables.as_mut_ptr(), 1) };
    Ok(())
}

const RECEIVER: &CStr = c"rocprofiler_set_api_table";

/// Tries the name as given, then its last component, which the loader searches in its folders.
fn load_receiver(library: &Path) -> Result<core::ptr::NonNull<c_void>, RegistrationError> {
    let open = |path: &Path| {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
        symbols::loaded(&path).map_or_else(|| symbols::load(&path), Ok)
    };
    let base = library.file_name().map(Path::new).filter(|base| *base != library);
    let loaded = open(library).or_else(|reason| base.and_then(|base| open(base).ok()).ok_or(reason));
    let loaded =
        loaded.map_err(|reason| RegistrationError::NoLibrary { library: library.to_owned(), reason })?;
    let receiver =
        symbols::of(&loaded, RECEIVER).ok_or_else(|| RegistrationError::NoReceiver(library.to_owned()))?;
    symbols::keep(loaded);
    Ok(receiver)
}
