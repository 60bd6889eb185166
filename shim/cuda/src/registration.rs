//! Which mapping of a gate page is registered with which context.
//!
//! The driver registers a range of memory once, with one context, and answers `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED` to the
//! second. A registration ends with its context, while streams of others may wait in the page. So each context has a mapping of its
//! own (*H100*: the driver takes several mappings of the same page).

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xsched_protocol::arbiter_page::GATE_SIZE;
use xsched_xqueue::GatePage;

use crate::driver::{self, Context, Registration};

/// How many contexts can have their gates in one page. More of them close their gates themselves.
pub(crate) const CONTEXTS: usize = 8;

/// The context of each registered mapping, by where that begins. A page stays mapped, so no address is another's later.
#[derive(Debug, Default)]
pub(crate) struct Registrations(Mutex<HashMap<usize, Context>>);

/// Why a page is of no use to a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unregistered {
    /// All mappings belong to other contexts.
    UsedUp,
    /// The driver does not take it.
    Refused,
}

impl Registrations {
    /// Registers a page with the current context, which is `context`; its address on the device.
    pub(crate) fn register(&self, page: &GatePage, context: Context) -> Result<u64, Unregistered> {
        self.register_by(page, context, |start| driver::register(start, GATE_SIZE), driver::device_address)
    }

    fn register_by(
        &self,
        page: &GatePage,
        context: Context,
        register: impl Fn(NonNull<c_void>) -> Registration,
        address: impl Fn(NonNull<c_void>) -> Option<u64>,
    ) -> Result<u64, Unregistered> {
        for start in page.mappings() {
            let known = self.lock().get(&start.addr().get()).copied();
            if known.is_some_and(|of| of != context) {
                continue;
            }
            match register(start) {
                Registration::New => self.note(start, context),
                Registration::Already if known.is_some() => {}
                // With a context that is about to end, or whose end the shim has not seen.
                Registration::Already => continue,
                Registration::Refused => return Err(Unregistered::Refused),
            }
            return address(start).ok_or(Unregistered::Refused);
        }
        Err(Unregistered::UsedUp)
    }

    fn note(&self, start: NonNull<c_void>, context: Context) {
        self.lock().insert(start.addr().get(), context);
    }

    /// A context is gone, and what was registered with it.
    pub(crate) fn forget(&self, context: Context) {
        self.lock().retain(|_, of| *of != context);
    }

    /// Not held while calling the driver.
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Context>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::fs::File;
    use std::os::fd::FromRawFd as _;

    use super::*;

    /// A driver that registers each range once.
    #[derive(Default)]
    struct Driver {
        registered: RefCell<HashSet<usize>>,
    }

    impl Driver {
        fn register(&self, start: NonNull<c_void>) -> Registration {
            let is_new = self.registered.borrow_mut().insert(start.addr().get());
            if is_new { Registration::New } else { Registration::Already }
        }

        fn of(&self, known: &Registrations, page: &GatePage, context: usize) -> Result<u64, Unregistered> {
            let address = |start: NonNull<c_void>| Some(start.addr().get() as u64);
            known.register_by(page, Context(context), |start| self.register(start), address)
        }
    }

    fn page(times: usize) -> GatePage {
        // SAFETY: a name that is a C string; the descriptor is nothing else's.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"gate".as_ptr(), 0)) };
        file.set_len(GATE_SIZE as u64).unwrap();
        GatePage::map(&file, times).unwrap()
    }

    fn starts(page: &GatePage) -> Vec<u64> {
        page.mappings().map(|start| start.addr().get() as u64).collect()
    }

    #[test]
    fn each_context_has_a_mapping_of_its_own_until_none_is_left() {
        let (driver, known, page) = (Driver::default(), Registrations::default(), page(2));
        let starts = starts(&page);
        assert_eq!(driver.of(&known, &page, 1), Ok(starts[0]));
        assert_eq!(driver.of(&known, &page, 2), Ok(starts[1]));
        assert_eq!(driver.of(&known, &page, 1), Ok(starts[0]), "it has one already");
        assert_eq!(driver.of(&known, &page, 3), Err(Unregistered::UsedUp));
    }

    #[test]
    fn the_mapping_of_a_context_that_ended_is_anothers() {
        let (driver, known, page) = (Driver::default(), Registrations::default(), page(2));
        let starts = starts(&page);
        assert_eq!(driver.of(&known, &page, 1), Ok(starts[0]));
        known.forget(Context(1));
        // It is about to end: the driver still has its registration.
        assert_eq!(driver.of(&known, &page, 2), Ok(starts[1]));
        driver.registered.borrow_mut().remove(&(starts[0] as usize));
        // One at the same address is another context.
        assert_eq!(driver.of(&known, &page, 1), Ok(starts[0]));
    }
}
