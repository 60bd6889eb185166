//! A map of maps, whose elements are changed without waiting for the kernel.
//!
//! A system call that changes a map of maps returns only when all programs have ended that may have seen the old state
//! (`maybe_wait_bpf_programs` in <https://github.com/torvalds/linux/blob/v6.12/kernel/bpf/syscall.c>). That takes 8 ms on an idle
//! machine, in which the controller must process other requests. So a separate thread makes that call. The caller waits only
//! until the programs see the new map, that is until the thread has started.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::maps::MapData;
use xsched_bpf::sys;

const CHECK_PAUSE: Duration = Duration::from_micros(20);

#[derive(Debug)]
pub(super) struct MapOfMaps {
    maps: Arc<MapData>,
    /// Threads in the system call, by the element that they change.
    changing: HashMap<u32, JoinHandle<io::Result<()>>>,
}

impl MapOfMaps {
    pub(super) fn new(maps: MapData) -> Self {
        Self { maps: Arc::new(maps), changing: HashMap::new() }
    }

    /// Replaces an element.
    pub(super) fn insert(&mut self, index: u32, map: BorrowedFd<'_>) -> io::Result<()> {
        let id = sys::id(map)?;
        let same = map.try_clone_to_owned()?;
        self.change(index, Some(id), move |maps| sys::insert_map(maps.fd().as_fd(), index, same.as_fd()))
    }

    /// Removes an element, if there is one.
    pub(super) fn remove(&mut self, index: u32) {
        if sys::id_at(self.maps.fd().as_fd(), index).is_some() {
            // An error means that it was removed already.
            let _ = self.change(index, None, move |maps| sys::remove_map(maps.fd().as_fd(), index));
        }
    }

    /// Changes an element, and returns when the programs see the map with this `id` there, or none.
    fn change(
        &mut self,
        index: u32,
        id: Option<u32>,
        change: impl FnOnce(&MapData) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        self.changing.retain(|_, thread| !thread.is_finished());
        if let Some(last) = self.changing.remove(&index) {
            // Changes of an element must be made in order.
            let _ = last.join();
        }
        let maps = Arc::clone(&self.maps);
        let thread = thread::Builder::new().name("xsched-maps".to_owned());
        let thread = thread.spawn(move || change(&maps))?;
        while sys::id_at(self.maps.fd().as_fd(), index) != id {
            if thread.is_finished() {
                return thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
            }
            // Yielding is not sufficient: if all processors are busy, the thread would still wait for a processor.
            thread::sleep(CHECK_PAUSE);
        }
        self.changing.insert(index, thread);
        Ok(())
    }
}
