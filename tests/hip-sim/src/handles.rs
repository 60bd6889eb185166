//! Objects that C code refers to by address: a handle is valid exactly while its object is in the table.

use core::ffi::c_void;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// Live objects of one kind, by address.
pub(crate) struct Handles<T> {
    objects: RwLock<HashMap<usize, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { objects: RwLock::default() }
    }
}

impl<T> Handles<T> {
    /// Adds an object; adding it again gives the same handle.
    pub(crate) fn insert(&self, object: &Arc<T>) -> *mut c_void {
        let handle = Arc::as_ptr(object).cast::<c_void>().cast_mut();
        self.objects.write().expect("no holder panics").insert(handle as usize, Arc::clone(object));
        handle
    }

    pub(crate) fn get(&self, handle: *const c_void) -> Option<Arc<T>> {
        self.objects.read().expect("no holder panics").get(&(handle as usize)).cloned()
    }

    pub(crate) fn remove(&self, handle: *const c_void) -> Option<Arc<T>> {
        self.objects.write().expect("no holder panics").remove(&(handle as usize))
    }

    /// All live objects, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.objects.read().expect("no holder panics").values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_handle_is_invalid() {
        let handles = Handles::default();
        let handle = handles.insert(&Arc::new(7));
        assert_eq!(handles.get(handle).as_deref(), Some(&7));
        assert_eq!(handles.remove(handle).as_deref(), Some(&7));
        assert!(handles.get(handle).is_none());
        assert!(handles.remove(handle).is_none());
    }
}
