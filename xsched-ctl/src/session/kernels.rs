//! Names of kernels, by the handles under which processes launch them.

use std::collections::HashMap;
use std::sync::Arc;

/// The handles that each process has been seen to register or look up.
#[derive(Default)]
pub(crate) struct Kernels {
    /// Shared between a process and its children until one of them adds to it.
    processes: HashMap<u32, Arc<HashMap<u64, Arc<str>>>>,
}

impl Kernels {
    /// A process has learnt or defined that `handle` is the kernel `name` (demangled).
    pub(crate) fn define(&mut self, pid: u32, handle: u64, name: Arc<str>) {
        Arc::make_mut(self.processes.entry(pid).or_default()).insert(handle, name);
    }

    /// The kernel behind `handle`.
    pub(crate) fn get(&self, pid: u32, handle: u64) -> Option<Arc<str>> {
        self.processes.get(&pid)?.get(&handle).cloned()
    }

    /// A child starts with its parent's handles.
    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        if let Some(handles) = self.processes.get(&parent).cloned() {
            self.processes.insert(child, handles);
        }
    }

    /// A process has ended or runs another program: its handles mean nothing any more.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_inherit_and_then_go_their_own_way() {
        let mut kernels = Kernels::default();
        kernels.define(1, 0x10, "add".into());
        kernels.fork(1, 2);
        kernels.define(2, 0x10, "mul".into());
        assert_eq!(kernels.get(1, 0x10).as_deref(), Some("add"));
        assert_eq!(kernels.get(2, 0x10).as_deref(), Some("mul"));
        kernels.forget(1);
        assert_eq!(kernels.get(1, 0x10), None);
        assert_eq!(kernels.get(2, 0x10).as_deref(), Some("mul"));
    }
}
