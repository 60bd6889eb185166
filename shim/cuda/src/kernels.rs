//! What is known of kernels: the places of their parameters, and which launches the driver is certain to take.
//!
//! A launch is answered with success before the driver sees it only if the driver has taken one like it before. So no limit of a device
//! or a function need be known here: block sizes, shared memory, clusters, cooperative grids.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;

use crate::api::{Launch, Setting, Shape};
use crate::driver::{self, Context, Parameter};

/// Launches that differ in more than their arguments, of which as many are remembered.
const TAKEN_MAX: usize = 65_536;

/// Most blocks in each direction, on every device since compute capability 3.0.
const GRID_MAX: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Launches that the driver takes or refuses alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaunchKind(u64);

/// What is known of kernels.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    /// None: the driver does not tell.
    layouts: Mutex<HashMap<usize, Option<Arc<[Parameter]>>>>,
    taken: Mutex<HashSet<LaunchKind>>,
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

impl LaunchKind {
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
}

impl Kernels {
    /// Whether the driver has taken launches of this kind before.
    pub(crate) fn are_taken(&self, kind: LaunchKind) -> bool {
        lock(&self.taken).contains(&kind)
    }

    /// The driver has taken one.
    pub(crate) fn taken(&self, kind: LaunchKind) {
        let mut taken = lock(&self.taken);
        if taken.len() >= TAKEN_MAX {
            taken.clear();
        }
        taken.insert(kind);
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

    /// Whether a setting leaves everything as it is.
    pub(crate) fn is_set(&self, setting: Setting) -> bool {
        lock(&self.settings).get(&key(setting)) == Some(&setting.value)
    }

    /// A setting was made.
    pub(crate) fn set(&self, setting: Setting) {
        lock(&self.settings).insert(key(setting), setting.value);
    }

    /// What launches the driver takes may be others from now on.
    pub(crate) fn forget_taken(&self) {
        lock(&self.taken).clear();
    }

    /// Functions are gone, and their addresses may become those of others.
    pub(crate) fn forget(&self) {
        self.forget_taken();
        lock(&self.layouts).clear();
        lock(&self.settings).clear();
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::api::{cooperative, plain, setting};

    fn kind(launch: Launch) -> Option<LaunchKind> {
        // SAFETY: without attributes there are no pointers.
        unsafe { LaunchKind::of_kernel(Context(1), &launch) }
    }

    fn of(grid: [u32; 3], block: [u32; 3], shared: u32) -> Option<LaunchKind> {
        kind(plain(ptr::without_provenance_mut(64), grid, block, shared, ptr::null_mut(), ptr::null_mut()))
    }

    fn cooperating(grid: [u32; 3]) -> Option<LaunchKind> {
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
