//! Pages of gates where the programs find them: a map each, in a map of them by slot.
//!
//! When such a map of maps changes, the kernel lets nobody go on before all programs have ended that may have seen what was
//! there: 8 ms on a machine at rest, in which the controller must hear others. So a thread of its own waits for that, and
//! here it is only waited until the programs see the page: as long as that thread takes to begin.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::maps::MapData;
use xsched_bpf::sys;
use xsched_protocol::arbiter_page::{GATE_ALLOWED, GATE_SIZE};

/// How long it is waited before looking again.
const GLANCE: Duration = Duration::from_micros(20);

/// The map of maps.
#[derive(Debug)]
pub(super) struct Gates {
    maps: Arc<MapData>,
    /// Threads that wait, by the slot that they have changed.
    changing: HashMap<u32, JoinHandle<io::Result<()>>>,
}

impl Gates {
    pub(super) fn new(maps: MapData) -> Self {
        Self { maps: Arc::new(maps), changing: HashMap::new() }
    }

    /// Makes a page for the next queue of a slot, in the place of that of the last one. If that fails, there is none.
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
        let put = move |maps: &MapData| sys::put(maps.fd().as_fd(), slot, same.as_fd());
        self.change(slot, Some(id), put).map(|()| page)
    }

    /// The next queue of a slot has no page: the last one's, which its process may still use, is not for it.
    fn remove(&mut self, slot: u32) {
        if sys::id_at(self.maps.fd().as_fd(), slot).is_some() {
            // What can fail here is that the page is gone already.
            let _ = self.change(slot, None, move |maps| sys::take_out(maps.fd().as_fd(), slot));
        }
    }

    /// Changes a place, and returns when programs find there what they are to.
    fn change(
        &mut self,
        slot: u32,
        id: Option<u32>,
        change: impl FnOnce(&MapData) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        self.changing.retain(|_, thread| !thread.is_finished());
        if let Some(last) = self.changing.remove(&slot) {
            // In the order in which they are wanted.
            let _ = last.join();
        }
        let maps = Arc::clone(&self.maps);
        let thread = thread::Builder::new().name("xsched-gate".to_owned());
        let thread = thread.spawn(move || change(&maps))?;
        while sys::id_at(self.maps.fd().as_fd(), slot) != id {
            if thread.is_finished() {
                return thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
            }
            // Not just to yield, which leaves that thread waiting for its turn where all processors are busy.
            thread::sleep(GLANCE);
        }
        self.changing.insert(slot, thread);
        Ok(())
    }
}
