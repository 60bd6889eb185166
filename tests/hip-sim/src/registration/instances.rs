//! Instance numbers of the runtimes in this process, in the order of their registration.
//!
//! In ROCm the numbers are kept by the registration library, of which there is one. Copies of the simulator
//! share nothing, so they count in the copy that was loaded first. It is the first in the loader's list for
//! every other copy too, and stays so because no copy is ever unloaded.

use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::CString;

use super::symbols;

/// Registrations so far, of `hip` and `hip_compiler`.
type Counters = [AtomicU64; 2];

/// This copy's own counters.
static COUNTERS: Counters = [const { AtomicU64::new(0) }; 2];
const COUNTERS_OF: &CStr = c"hip_sim_registered_instances";

/// This copy's counters, exported for other copies.
#[unsafe(no_mangle)]
extern "C" fn hip_sim_registered_instances() -> *const Counters {
    &raw const COUNTERS
}

/// Number of the next runtime that registers a table of this name.
pub(super) fn next(name: &CStr) -> u64 {
    let shared = objects().iter().find_map(Object::counters).unwrap_or(&COUNTERS);
    shared[usize::from(name != c"hip")].fetch_add(1, Ordering::Relaxed)
}

/// A library loaded into this process.
struct Object {
    path: CString,
    addresses: Range<usize>,
}

impl Object {
    /// Its counters if it is a copy of the simulator.
    fn counters(&self) -> Option<&'static Counters> {
        // The program itself has no path, and is not a copy.
        let library =
            Some(&self.path).filter(|path| !path.is_empty()).and_then(|path| symbols::loaded(path))?;
        let symbol = symbols::of(&library, COUNTERS_OF)?;
        // A lookup in a library that depends on a copy finds the copy's symbol too.
        if !self.addresses.contains(&symbol.addr().get()) {
            return None;
        }
        // SAFETY: the symbol is `hip_sim_registered_instances` of a copy, whose counters are static.
        unsafe {
            let counters: extern "C" fn() -> *const Counters = core::mem::transmute(symbol.as_ptr());
            Some(&*counters())
        }
    }
}

/// All loaded libraries, in the order of loading.
fn objects() -> Vec<Object> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, objects: *mut c_void) -> c_int {
        // SAFETY: the loader passes an object's description, and `objects` as given below.
        unsafe {
            let (info, objects) = (&*info, &mut *objects.cast::<Vec<Object>>());
            let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
            let end = loads.map(|header| header.p_vaddr + header.p_memsz).max().unwrap_or(0);
            let (start, end) = (info.dlpi_addr as usize, (info.dlpi_addr + end) as usize);
            objects.push(Object { path: CStr::from_ptr(info.dlpi_name).to_owned(), addresses: start..end });
        }
        0
    }
    let mut objects = Vec::new();
    // SAFETY: the callback does not outlive this call, and neither does the pointer to the list.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut objects).cast()) };
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_separately() {
        assert_eq!([next(c"hip"), next(c"hip"), next(c"hip_compiler")], [0, 1, 0]);
    }

    #[test]
    fn a_library_contains_only_its_own_functions() {
        let objects = objects();
        let address = libc::dl_iterate_phdr as *const () as usize;
        let holders = objects.iter().filter(|object| object.addresses.contains(&address)).count();
        assert_eq!(holders, 1);
        assert!(objects.iter().all(|object| object.counters().is_none()), "this program is not a copy");
    }
}
