//! Gate pages for the programs: one map each, in a map of maps by slot.
//!
//! A system call that changes a map of maps returns only when all programs have ended that may have seen the old state
//! (`maybe_wait_bpf_programs` in <https://github.com/torvalds/linux/blob/v6.12/kernel/bpf/syscall.c>): 8 ms on an idle
//! machine, in which the controller must process other requests. So a separate thread makes that call. The caller waits
//! only until the programs see the new page, that is until the thread has started.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::maps::MapData;
use xsched_bpf::sys;
use xsched_protocol::arbiter_page::{GATE_ALLOWED, GATE_SIZE};

const CHECK_PAUSE: Duration = Duration::from_micros(20);

/// The map of maps.
#[derive(Debug)]
pub(super) struct Gates {
    maps: Arc<MapData>,
    /// Threads in the system call, by the slot that they change.
    changing: HashMap<u32, JoinHandle<io::Result<()>>>,
}

impl Gates {
    pub(super) fn new(maps: MapData) -> Self {
        Self { maps: Arc::new(maps), changing: HashMap::new() }
    }

    /// Creates a page for the next queue of a slot, which replaces that of the last queue. If that fails, the slot has no
    /// page.
    pub(super) fn make(&mut self, slot: u32) -> io::Result<OwnedFd> {
        self.try_make(slot).inspect_err(|_| self.remove(slot))
    }

    fn try_make(&mut self, slot: u32) -> io::Result<OwnedFd> {
        let page = sys::create_mappable_array(GATE_SIZE as u32, 1)?;
        let mut words = [0; GATE_SIZE];
        words[..8].copy_from_slice(&GATE_ALLOWED.to_ne_bytes());
        sys::set(page.as_fd(), 0, &words)?;
        let id = sys::id(page.as_fd())?;
        let same = page.try_clone()?;
        let insert = move |maps: &MapData| sys::insert_map(maps.fd().as_fd(), slot, same.as_fd());
        self.change(slot, Some(id), insert).map(|()| page)
    }

    /// Leaves the next queue of a slot without a page. It must not have that of the last queue, which the last process may
    /// use.
    fn remove(&mut self, slot: u32) {
        if sys::id_at(self.maps.fd().as_fd(), slot).is_some() {
            // An error means that the page was removed already.
            let _ = self.change(slot, None, move |maps| sys::remove_map(maps.fd().as_fd(), slot));
        }
    }

    /// Changes a slot, and returns when the programs see the map with this `id` there, or none.
    fn change(
        &mut self,
        slot: u32,
        id: Option<u32>,
        change: impl FnOnce(&MapData) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        self.changing.retain(|_, thread| !thread.is_finished());
        if let Some(last) = self.changing.remove(&slot) {
            // Changes of a slot must be made in order.
            let _ = last.join();
        }
        let maps = Arc::clone(&self.maps);
        let thread = thread::Builder::new().name("xsched-gate".to_owned());
        let thread = thread.spawn(move || change(&maps))?;
        while sys::id_at(self.maps.fd().as_fd(), slot) != id {
            if thread.is_finished() {
                return thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
            }
            // Yielding is not sufficient: if all processors are busy, the thread would still wait for a processor.
            thread::sleep(CHECK_PAUSE);
        }
        self.changing.insert(slot, thread);
        Ok(())
    }
}
