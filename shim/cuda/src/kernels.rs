//! What is known of kernels: the places of their parameters, and which calls the driver is certain to take.
//!
//! A call is answered with success before the driver sees it only if the driver has taken one like it before. So no limit of a device, a
//! function or memory need be known here: block sizes, shared memory, clusters, cooperative grids, ranges of addresses.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash, Hasher as _};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;

use crate::api::{DeviceCopy, Fill, Launch, Setting, Shape};
use crate::driver::{self, Context, Parameter};
use crate::seen::Seen;

/// Calls that differ in what the driver may refuse, of which as many are remembered.
const TAKEN_MAX: usize = 65_536;

/// Most blocks in each direction, on every device since compute capability 3.0.
const GRID_MAX: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Calls that the driver takes or refuses alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKind(u64);

/// What is known of kernels.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    /// None: the driver does not tell.
    layouts: Mutex<HashMap<usize, Option<Arc<[Parameter]>>>>,
    taken: Mutex<HashSet<CallKind, FixedState>>,
    /// Of `taken`, changed under its lock.
    seen: Seen,
    /// How often memory may have been freed.
    freed: AtomicU64,
    /// Settings by function, attribute and device, as they were made last.
    settings: Mutex<HashMap<(usize, u32, i32), i32>>,
}

/// Not held while calling the driver.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(Setting { function, attribute, device, .. }: Setting) -> (usize, u32, i32) {
    (function, attribute, device)
}

impl CallKind {
    /// The kind of a launch of a kernel. None if it is refused anyway, or has attributes that cannot be copied.
    ///
    /// # Safety
    /// The call from which the launch was made has not returned.
    pub(crate) unsafe fn of_kernel(context: Context, launch: &Launch) -> Option<Self> {
        let Shape { grid, block, shared } = launch.shape;
        let is_valid = grid.iter().zip(GRID_MAX).all(|(&blocks, max)| (1..=max).contains(&blocks));
        is_valid.then_some(())?;
        let mut hasher = FixedState::default().build_hasher();
        (context, launch.function, block, shared, launch.is_cooperative).hash(&mut hasher);
        // SAFETY: the caller's promise.
        let attributes = unsafe { launch.attributes() };
        for attribute in attributes {
            attribute.value()?.hash(&mut hasher);
        }
        if launch.is_cooperative || !attributes.is_empty() {
            // Blocks that go together must fit, and clusters come out even.
            grid.hash(&mut hasher);
        }
        Some(Self(hasher.finish()))
    }

    /// The kind of launches of an executable graph, by its number.
    pub(crate) fn of_graph(context: Context, number: u64) -> Self {
        Self(FixedState::default().hash_one((context, "graph", number)))
    }

    /// The kind of fills of the same memory.
    pub(crate) fn of_fill(context: Context, fill: &Fill, freed: u64) -> Self {
        let Fill { to, element, width, rows } = fill;
        Self(FixedState::default().hash_one((context, mem::discriminant(element), to, width, rows, freed)))
    }

    /// The kind of copies between the same memory.
    pub(crate) fn of_copy(context: Context, copy: DeviceCopy, freed: u64) -> Self {
        Self(FixedState::default().hash_one((context, "copy", copy, freed)))
    }
}

impl Kernels {
    /// Whether the driver has taken calls of this kind before.
    #[inline]
    pub(crate) fn are_taken(&self, kind: CallKind) -> bool {
        self.seen.has(kind.0, kind.0) || {
            let taken = lock(&self.taken);
            let is_taken = taken.contains(&kind);
            if is_taken {
                self.seen.note(kind.0, kind.0);
            }
            is_taken
        }
    }

    /// The driver has taken one.
    pub(crate) fn taken(&self, kind: CallKind) {
        let mut taken = lock(&self.taken);
        if taken.len() >= TAKEN_MAX {
            taken.clear();
            self.seen.clear();
        }
        taken.insert(kind);
        self.seen.note(kind.0, kind.0);
    }

    /// Where a function's parameters lie.
    pub(crate) fn layout(&self, function: usize) -> Option<Arc<[Parameter]>> {
        if let Some(known) = lock(&self.layouts).get(&function) {
            return known.clone();
        }
        let layout: Option<Arc<[Parameter]>> = driver::parameters_of(function).map(Into::into);
        lock(&self.layouts).insert(function, layout.clone());
        layout
    }

    /// Memory may be freed, or be another from now on.
    pub(crate) fn memory_goes(&self) {
        self.freed.fetch_add(1, Ordering::AcqRel);
    }

    /// How often it has.
    pub(crate) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Acquire)
    }

    /// Whether a setting leaves everything as it is.
    pub(crate) fn is_set(&self, setting: Setting) -> bool {
        lock(&self.settings).get(&key(setting)) == Some(&setting.value)
    }

    /// A setting was made.
    pub(crate) fn set(&self, setting: Setting) {
        lock(&self.settings).insert(key(setting), setting.value);
    }

    /// What the driver takes may be something else from now on.
    pub(crate) fn forget_taken(&self) {
        let mut taken = lock(&self.taken);
        taken.clear();
        self.seen.clear();
    }

    /// Functions are gone, and their addresses may become those of others.
    pub(crate) fn forget(&self) {
        self.memory_goes();
        self.forget_taken();
        lock(&self.layouts).clear();
        lock(&self.settings).clear();
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::api::{Element, cooperative, plain, setting};

    fn kind(launch: Launch) -> Option<CallKind> {
        // SAFETY: without attributes there are no pointers.
        unsafe { CallKind::of_kernel(Context(1), &launch) }
    }

    fn of(grid: [u32; 3], block: [u32; 3], shared: u32) -> Option<CallKind> {
        kind(plain(ptr::without_provenance_mut(64), grid, block, shared, ptr::null_mut(), ptr::null_mut()))
    }

    fn cooperating(grid: [u32; 3]) -> Option<CallKind> {
        kind(cooperative(ptr::without_provenance_mut(64), grid, [32, 1, 1], 0, ptr::null_mut()))
    }

    #[test]
    fn launches_are_alike_if_the_driver_takes_one_as_well_as_the_other() {
        let known = of([1; 3], [32, 1, 1], 0);
        assert!(known.is_some());
        assert_eq!(of([7, 65_535, 2], [32, 1, 1], 0), known, "any number of blocks");
        assert_ne!(of([1; 3], [33, 1, 1], 0), known);
        assert_ne!(of([1; 3], [32, 1, 1], 1), known);
        assert_ne!(cooperating([1; 3]), known);
        assert_ne!(cooperating([2, 1, 1]), cooperating([1; 3]), "all blocks must fit");
        for refused in [[0, 1, 1], [1, 65_536, 1], [1, 1, 65_536], [1 << 31, 1, 1]] {
            assert_eq!(of(refused, [32, 1, 1], 0), None, "{refused:?}");
        }
    }

    #[test]
    fn fills_and_copies_are_alike_if_they_are_of_the_same_memory_and_none_was_freed() {
        let kernels = Kernels::default();
        let filled = |to, value| {
            let fill = Fill { to, element: Element::Byte(value), width: 4, rows: None };
            CallKind::of_fill(Context(1), &fill, kernels.freed())
        };
        let copied = |to| CallKind::of_copy(Context(1), DeviceCopy { to, from: 8, size: 4 }, kernels.freed());
        let known = (filled(16, 0), copied(16));
        assert_eq!((filled(16, 7), copied(16)), known);
        assert_ne!(filled(17, 0), known.0);
        assert_ne!(copied(17), known.1);
        kernels.memory_goes();
        assert_ne!(filled(16, 0), known.0);
        assert_ne!(copied(16), known.1);
    }

    #[test]
    fn a_setting_that_was_made_already_changes_nothing() {
        let kernels = Kernels::default();
        let set = |value| setting(ptr::without_provenance_mut(64), 8, -1, value);
        assert!(!kernels.is_set(set(65_536)));
        kernels.set(set(65_536));
        assert!(kernels.is_set(set(65_536)) && !kernels.is_set(set(49_152)));
        kernels.forget();
        assert!(!kernels.is_set(set(65_536)), "the address may be another function's");
    }

    #[test]
    fn launches_are_known_until_functions_are_gone() {
        let kernels = Kernels::default();
        let known = of([1; 3], [32, 1, 1], 0).unwrap();
        assert!(!kernels.are_taken(known));
        kernels.taken(known);
        assert!(kernels.are_taken(known));
        kernels.forget();
        assert!(!kernels.are_taken(known));
    }
}
