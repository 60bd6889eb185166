//! Gate pages for the programs: one map each, by slot.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use xsched_bpf::sys;
use xsched_protocol::arbiter_page::{GATE_ALLOWED, GATE_SIZE};

use super::map_of_maps::MapOfMaps;

#[derive(Debug)]
pub(super) struct Gates(pub(super) MapOfMaps);

impl Gates {
    /// Creates a page for the next claim of a slot, which replaces that of the last claim. If that fails, the slot has no
    /// page: it must not have that of the last claim, which the last process may use.
    pub(super) fn make(&mut self, slot: u32) -> io::Result<OwnedFd> {
        self.try_make(slot).inspect_err(|_| self.0.remove(slot))
    }

    fn try_make(&mut self, slot: u32) -> io::Result<OwnedFd> {
        let page = sys::create_mappable_array(GATE_SIZE as u32, 1)?;
        let mut words = [0; GATE_SIZE];
        words[..8].copy_from_slice(&GATE_ALLOWED.to_ne_bytes());
        sys::set(page.as_fd(), 0, &words)?;
        self.0.insert(slot, page.as_fd())?;
        Ok(page)
    }
}
