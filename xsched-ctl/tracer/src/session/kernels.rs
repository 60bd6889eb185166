//! Names of kernels, by the handles under which processes launch them.
//!
//! A handle lives as long as its source: a module, a library of kernels, or a registered binary. Its name is removed
//! with the source, because the runtime may reuse the handle for another kernel.

use std::collections::HashMap;
use std::sync::Arc;

/// The handles that a process has registered or looked up. A child shares them with its parent until one of them changes its own.
#[derive(Clone, Default)]
pub(crate) struct Kernels(Arc<Handles>);

#[derive(Clone, Default)]
struct Handles {
    kernels: HashMap<u64, Kernel>,
    /// By module, library or binary: the handles from it.
    by_source: HashMap<u64, Vec<u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Demangled.
    pub(crate) name: Arc<str>,
    /// Handle of the module, library or binary that it came from; zero if unknown.
    pub(crate) source: u64,
}

impl Kernel {
    /// Whether it is shown by its handle because its name is unknown. No identifier begins like this.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.name.starts_with("0x")
    }

    /// Whether it tells more than what is known of its handle, which may be another kernel's by now.
    pub(crate) fn renames(&self, known: &Self) -> bool {
        known.is_unnamed() || !self.is_unnamed() && self.name != known.name
    }
}

impl Kernels {
    /// The process has looked up or defined a handle.
    pub(crate) fn define(&mut self, handle: u64, kernel: Kernel) {
        let handles = Arc::make_mut(&mut self.0);
        let source = kernel.source;
        let replaced = handles.kernels.insert(handle, kernel);
        // Programs look up the same kernels repeatedly.
        if source != 0 && replaced.is_none_or(|replaced| replaced.source != source) {
            handles.by_source.entry(source).or_default().push(handle);
        }
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Kernel> {
        self.0.kernels.get(&handle)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.kernels.is_empty()
    }

    /// The process has unloaded a module or library, or unregistered a binary.
    pub(crate) fn unload(&mut self, source: u64) {
        if !self.0.by_source.contains_key(&source) {
            return;
        }
        let handles = Arc::make_mut(&mut self.0);
        for handle in handles.by_source.remove(&source).unwrap_or_default() {
            // The handle may have been reused by now.
            if handles.kernels.get(&handle).is_some_and(|kernel| kernel.source == source) {
                handles.kernels.remove(&handle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, source: u64) -> Kernel {
        Kernel { name: name.into(), source }
    }

    fn name(kernels: &Kernels, handle: u64) -> Option<&str> {
        kernels.get(handle).map(|kernel| &*kernel.name)
    }

    #[test]
    fn children_inherit_and_then_go_their_own_way() {
        let mut parent = Kernels::default();
        parent.define(0x10, kernel("add", 0));
        let mut child = parent.clone();
        child.define(0x10, kernel("mul", 0));
        assert_eq!((name(&parent, 0x10), name(&child, 0x10)), (Some("add"), Some("mul")));
    }

    #[test]
    fn a_name_takes_the_place_of_an_address_or_of_another_name() {
        let renames = |new: &str, known: &str| kernel(new, 0).renames(&kernel(known, 0xa));
        assert!(renames("add", "0x10") && renames("mul", "add"), "the handle is another kernel's by now");
        assert!(!renames("add", "add"), "its source would be lost");
        assert!(!renames("0x10", "add"));
    }

    #[test]
    fn names_are_removed_with_their_source() {
        let mut kernels = Kernels::default();
        kernels.define(0x10, kernel("add", 0xa));
        kernels.define(0x20, kernel("mul", 0xa));
        kernels.define(0x20, kernel("mul", 0xa));
        kernels.define(0x30, kernel("sub", 0xb));
        // The handle is reused for a kernel of another module, before the first is known to be gone.
        kernels.define(0x20, kernel("div", 0xb));
        let child = kernels.clone();
        kernels.unload(0xa);
        kernels.unload(0xc);
        assert_eq!(name(&kernels, 0x10), None);
        assert_eq!(name(&kernels, 0x20), Some("div"));
        assert_eq!(name(&kernels, 0x30), Some("sub"));
        assert_eq!(name(&child, 0x10), Some("add"), "the child still has the module");
        kernels.unload(0xb);
        assert_eq!(name(&kernels, 0x20), None);
    }
}
