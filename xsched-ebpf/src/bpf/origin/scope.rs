//! The asking process: ids are those of the initial pid namespace, which no process can choose for itself.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;

use crate::pages;

/// The current thread.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
}

impl Current {
    /// The current thread, of any process.
    #[inline(always)]
    pub(crate) fn thread() -> Self {
        let id = bpf_get_current_pid_tgid();
        Self { tgid: (id >> 32) as u32, tid: id as u32 }
    }

    /// The current thread, if its process has a verdict page.
    #[inline(always)]
    pub(crate) fn any() -> Option<Self> {
        let current = Self::thread();
        pages::of(current.tgid).map(|_| current)
    }
}
