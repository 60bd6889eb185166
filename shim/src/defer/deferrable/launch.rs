//! Kernel launches.
//!
//! The checks are the runtime's, or stricter. The runtime answers a launch that it refuses at once, so a launch that
//! it might refuse is not deferred.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::api::Id;
use crate::defer::deferrable::configured;
use crate::hip::owned::{Extra, Owner, params_words};
use crate::hip::real::{self, KernelRef};
use crate::kernels::{self, Kernel};
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::{COPIES_MAX, RuntimeCopy};
use crate::runtime::stopped::{Stopped, StreamName};

/// Threads of a block, and bytes of shared memory, that every device has.
const BLOCK_THREADS_MAX: u64 = 1024;
const SHARED_BYTES_MAX: u64 = 65536;

/// What devices with more shared memory have, by copy and ordinal; 0: not asked yet.
static SHARED_BYTES: [[AtomicU32; ORDINALS_KEPT]; COPIES_MAX] =
    [const { [const { AtomicU32::new(0) }; ORDINALS_KEPT] }; COPIES_MAX];
const ORDINALS_KEPT: usize = 64;

/// Blocks of a grid, threads of a block, bytes of shared memory besides the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u64,
}

pub(super) fn own<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy, device: i32) -> Option<O> {
    let dimensions = |first| [first, first + 1, first + 2].map(|argument| call.int(argument));
    let by_handle = |shared_bytes| {
        let shape = Shape { grid: call.dim3(1), block: call.dim3(2), shared_bytes };
        let kernel = checked(copy, device, KernelRef::Handle(call.size(0)), shape)?;
        Some((kernel, shape))
    };
    let by_function = |grid, shared_bytes| {
        let shape = Shape { grid, block: dimensions(4), shared_bytes };
        let kernel = checked(copy, device, KernelRef::Function(call.size(0)), shape)?;
        Some((kernel, shape))
    };
    match call.id() {
        Id::hipLaunchKernel | Id::hipLaunchKernel_spt | Id::hipExtLaunchKernel => {
            let (kernel, _) = by_handle(call.word(4))?;
            own_arguments(call, &kernel, 3, None)
        }
        Id::hipLaunchCooperativeKernel | Id::hipLaunchCooperativeKernel_spt => {
            let (kernel, shape) = by_handle(call.int(4).into())?;
            is_resident(call, copy, device, KernelRef::Handle(call.size(0)), shape)?;
            own_arguments(call, &kernel, 3, None)
        }
        Id::hipModuleLaunchKernel => {
            let (kernel, _) = by_function(dimensions(1), call.int(7).into())?;
            own_arguments(call, &kernel, 9, Some(10))
        }
        Id::hipModuleLaunchCooperativeKernel => {
            let (kernel, shape) = by_function(dimensions(1), call.int(7).into())?;
            is_resident(call, copy, device, KernelRef::Function(call.size(0)), shape)?;
            own_arguments(call, &kernel, 9, None)
        }
        Id::hipExtModuleLaunchKernel
        | Id::hipHccModuleLaunchKernel
        | Id::_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
        | Id::_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_ => {
            // These functions take the total number of threads, not blocks.
            let (threads, block) = (dimensions(1), dimensions(4));
            let blocks = std::array::from_fn(|axis| threads[axis].checked_div(block[axis]).unwrap_or(0));
            let (kernel, _) = by_function(blocks, call.word(7))?;
            own_arguments(call, &kernel, 9, Some(10))
        }
        Id::hipLaunchKernelExC | Id::hipDrvLaunchKernelEx => configured::own(call, copy, device),
        _ => None,
    }
}

/// The kernel, if it is known and the runtime accepts it in this shape on this device.
pub(super) fn checked(
    copy: &RuntimeCopy,
    device: i32,
    named: KernelRef,
    shape: Shape,
) -> Option<Arc<Kernel>> {
    let kernel = match named {
        KernelRef::Handle(handle) => kernels::by_handle(copy.index(), handle)?,
        KernelRef::Function(function) => kernels::by_function(copy.index(), function)?,
    };
    check_shape(&kernel, shape, || shared_bytes_max(copy, device))?;
    Some(kernel)
}

/// `shared_max` is asked about launches with more than every device has.
fn check_shape(
    kernel: &Kernel,
    Shape { grid, block, shared_bytes }: Shape,
    shared_max: impl FnOnce() -> u64,
) -> Option<()> {
    let limit = BLOCK_THREADS_MAX.min(kernel.threads_max.into());
    let in_grid = grid.iter().zip(block).map(|(&blocks, threads)| u64::from(blocks) * u64::from(threads));
    let fits = in_grid.clone().all(|threads| (1..=u64::from(u32::MAX)).contains(&threads));
    let shared = shared_bytes.checked_add(kernel.shared_bytes.into())?;
    let is_taken = fits && volume(block) <= limit && (shared <= SHARED_BYTES_MAX || shared <= shared_max());
    (is_taken || is_planted(Bug::UncheckedLaunch)).then_some(())
}

/// Bytes of shared memory that one block may have.
fn shared_bytes_max(copy: &RuntimeCopy, device: i32) -> u64 {
    let kept = usize::try_from(device).ok().and_then(|ordinal| SHARED_BYTES[copy.index()].get(ordinal));
    if let Some(known @ 1..) = kept.map(|kept| kept.load(Ordering::Relaxed)) {
        return known.into();
    }
    let asked = real::shared_bytes_of_block(copy, device).unwrap_or(0);
    kept.inspect(|kept| kept.store(asked, Ordering::Relaxed));
    asked.into()
}

fn volume(extent: [u32; 3]) -> u64 {
    extent.iter().map(|&extent| u64::from(extent)).fold(1, u64::saturating_mul)
}

/// Whether all blocks of a cooperative launch fit onto the stream's device together. Programs size their grids by the
/// same answers of the runtime.
///
/// The runtime answers for the calling thread's device only.
pub(super) fn is_resident(
    call: &Stopped<'_>,
    copy: &RuntimeCopy,
    device: i32,
    named: KernelRef,
    shape: Shape,
) -> Option<()> {
    let stream = call.stream_name();
    if matches!(stream, StreamName::Created(_))
        && real::device_of(copy, stream.handle()).is_some_and(|of_stream| of_stream != device)
    {
        return None;
    }
    let threads = i32::try_from(volume(shape.block)).ok()?;
    let shared_bytes = usize::try_from(shape.shared_bytes).ok()?;
    let of_unit = real::blocks_of_unit(copy, named, threads, shared_bytes)?;
    let units = real::compute_units_for_cooperation(copy, device)?;
    let fits = volume(shape.grid) <= u64::from(of_unit) * u64::from(units);
    (fits || is_planted(Bug::UncheckedLaunch)).then_some(())
}

/// The call with its kernel's arguments, and capacity for this many words more.
pub(super) fn own_arguments_with<O: Owner>(
    call: &Stopped<'_>,
    kernel: &Kernel,
    params: usize,
    extra: Option<usize>,
    capacity: usize,
) -> Option<O> {
    let given = call.size(params) as *const *const u8;
    let buffer = extra.map_or(0, |extra| call.size(extra)) as *const usize;
    match (given.is_null(), buffer.is_null(), extra) {
        (false, true, _) => {
            let mut owned = O::of(call, params_words(kernel) + capacity)?;
            // SAFETY: the application gives what HIP requires: as many arguments as the kernel has.
            unsafe { owned.own_params(params, kernel, given)? };
            Some(owned)
        }
        (true, false, Some(argument)) => {
            // SAFETY: as HIP requires, null or a buffer between its marks.
            let extra = unsafe { Extra::read(buffer)? };
            let mut owned = O::of(call, extra.words().checked_add(capacity)?)?;
            // SAFETY: as above.
            unsafe { owned.own_extra(argument, extra)? };
            Some(owned)
        }
        (true, true, _) if kernel.parameters.is_empty() => O::of(call, capacity),
        // Both or neither: the runtime refuses that.
        _ => None,
    }
}

fn own_arguments<O: Owner>(
    call: &Stopped<'_>,
    kernel: &Kernel,
    params: usize,
    extra: Option<usize>,
) -> Option<O> {
    own_arguments_with(call, kernel, params, extra, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel { parameters: Vec::new(), threads_max: 256, shared_bytes: 1024 }
    }

    #[test]
    fn only_launches_that_the_device_accepts_are_deferred() {
        let shape = |grid, block, shared_bytes| Shape { grid, block, shared_bytes };
        let on_device = |shape, shared_max| check_shape(&kernel(), shape, || shared_max).is_some();
        // As gfx950 has.
        let large = 160 << 10;
        let filling = shape([1, 1, 1], [256, 1, 1], large - 1024);
        assert!(on_device(filling, large) && !on_device(filling, large - 1) && !on_device(filling, 0));
        let is_taken = |grid, block, shared_bytes| on_device(shape(grid, block, shared_bytes), 0);
        assert!(is_taken([1, 1, 1], [256, 1, 1], SHARED_BYTES_MAX - 1024));
        assert!(
            !is_taken([1, 1, 1], [256, 1, 1], SHARED_BYTES_MAX - 1023),
            "no capacity for the kernel's own"
        );
        assert!(!is_taken([1, 1, 1], [256, 2, 1], 0), "more threads than the kernel takes");
        assert!(!is_taken([0, 1, 1], [1, 1, 1], 0), "no blocks");
        assert!(!is_taken([1, 1, 1], [0, 1, 1], 0), "no threads");
        assert!(!is_taken([1 << 31, 1, 1], [2, 1, 1], 0), "more threads than can be counted");
        assert!(!on_device(shape([1, 1, 1], [1, 1, 1], u64::MAX), u64::MAX), "a size that overflows");
    }
}
