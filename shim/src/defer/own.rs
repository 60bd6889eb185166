//! Which calls can be made later, and what they must own for that.
//!
//! A call is held back only if it is sure that the runtime will take it: whatever is doubtful (a kernel whose
//! arguments nobody knows, a block that is too large, memory that HIP does not know) waits in place and gets its
//! answer from the runtime. So does what the list calls deferrable and this module does not know yet.

use crate::api::Id;
use crate::counters;
use crate::defer::books::EventUse;
use crate::defer::owned::OwnedCall;
use crate::defer::real::{self, Range};
use crate::defer::stopped::Stopped;
use crate::instances::Instance;
use crate::kernels::{self, Kernel};
use crate::planted::{Bug, is_planted};

/// Threads of a block, and bytes of local data share, that every device has.
const BLOCK_THREADS_MAX: u64 = 1024;
const SHARED_BYTES_MAX: u64 = 65536;

/// `hipMemcpyKind`
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEVICE_TO_DEVICE: u32 = 3;
const DEFAULT: u32 = 4;

/// The events that a call records and waits for.
pub(super) fn events(call: &Stopped<'_>, copy: &Instance) -> Vec<EventUse> {
    let event = |argument| Some((copy.index(), call.size(argument))).filter(|&(_, event)| event != 0);
    let record = |argument| event(argument).map(EventUse::Record);
    match call.id() {
        Id::hipEventRecord | Id::hipEventRecord_spt | Id::hipEventRecordWithFlags => {
            record(0).into_iter().collect()
        }
        Id::hipStreamWaitEvent | Id::hipStreamWaitEvent_spt => {
            event(1).map(EventUse::Wait).into_iter().collect()
        }
        Id::hipExtLaunchKernel => [record(6), record(7)].into_iter().flatten().collect(),
        Id::hipExtModuleLaunchKernel
        | Id::hipHccModuleLaunchKernel
        | Id::_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
        | Id::_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_ => {
            [record(11), record(12)].into_iter().flatten().collect()
        }
        _ => Vec::new(),
    }
}

/// The call with all that it needs, if it can be made later.
pub(super) fn own(call: &Stopped<'_>, copy: &Instance) -> Option<OwnedCall> {
    let known = |argument, bytes| device_memory(copy, call.size(argument), bytes);
    match call.id() {
        Id::hipLaunchKernel | Id::hipLaunchKernel_spt | Id::hipExtLaunchKernel => {
            let kernel = kernels::by_handle(copy.index(), call.size(0))?;
            check_shape(&kernel, call.dim3(1), call.dim3(2), call.word(4))?;
            own_launch(call, &kernel, 3, None)
        }
        Id::hipModuleLaunchKernel => {
            let kernel = kernels::by_function(copy.index(), call.size(0))?;
            let dimensions = |first| [first, first + 1, first + 2].map(|argument| call.int(argument));
            check_shape(&kernel, dimensions(1), dimensions(4), call.int(7).into())?;
            own_launch(call, &kernel, 9, Some(10))
        }
        Id::hipExtModuleLaunchKernel
        | Id::hipHccModuleLaunchKernel
        | Id::_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
        | Id::_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_ => {
            let kernel = kernels::by_function(copy.index(), call.size(0))?;
            let dimensions = |first| [first, first + 1, first + 2].map(|argument| call.int(argument));
            // These take threads in all, not blocks.
            let (threads, block) = (dimensions(1), dimensions(4));
            let blocks = std::array::from_fn(|axis| threads[axis].checked_div(block[axis]).unwrap_or(0));
            check_shape(&kernel, blocks, block, call.word(7))?;
            own_launch(call, &kernel, 9, Some(10))
        }

        Id::hipLaunchKernelExC | Id::hipDrvLaunchKernelEx => own_configured(call, copy),

        Id::hipMemcpyAsync | Id::hipMemcpyAsync_spt => {
            check_copy(copy, call.size(0), call.size(1), (call.size(2), call.size(2)), call.int(3))?;
            plain(call)
        }
        Id::hipMemcpyHtoDAsync => {
            check_copy(copy, call.size(0), call.size(1), (call.size(2), call.size(2)), HOST_TO_DEVICE)?;
            plain(call)
        }
        Id::hipMemcpyDtoHAsync => {
            check_copy(copy, call.size(0), call.size(1), (call.size(2), call.size(2)), DEVICE_TO_HOST)?;
            plain(call)
        }
        Id::hipMemcpyDtoDAsync => {
            check_copy(copy, call.size(0), call.size(1), (call.size(2), call.size(2)), DEVICE_TO_DEVICE)?;
            plain(call)
        }
        Id::hipMemcpy2DAsync | Id::hipMemcpy2DAsync_spt => {
            let [dst, dst_pitch, src, src_pitch, width, height] =
                [0, 1, 2, 3, 4, 5].map(|argument| call.size(argument));
            let bytes = (rows(dst_pitch, width, height)?, rows(src_pitch, width, height)?);
            check_copy(copy, dst, src, bytes, call.int(6))?;
            plain(call)
        }

        Id::hipMemsetAsync | Id::hipMemsetAsync_spt => known(0, call.size(2)).and_then(|()| plain(call)),
        Id::hipMemsetD8Async => known(0, call.size(2)).and_then(|()| plain(call)),
        Id::hipMemsetD16Async => known(0, call.size(2).checked_mul(2)?).and_then(|()| plain(call)),
        Id::hipMemsetD32Async => known(0, call.size(2).checked_mul(4)?).and_then(|()| plain(call)),
        Id::hipMemset2DAsync | Id::hipMemset2DAsync_spt => {
            known(0, rows(call.size(1), call.size(3), call.size(4))?).and_then(|()| plain(call))
        }
        Id::hipMemsetD2D8Async | Id::hipMemsetD2D16Async | Id::hipMemsetD2D32Async => {
            let element = match call.id() {
                Id::hipMemsetD2D8Async => 1,
                Id::hipMemsetD2D16Async => 2,
                _ => 4,
            };
            known(0, rows(call.size(1), call.size(3).checked_mul(element)?, call.size(4))?)?;
            plain(call)
        }
        Id::hipFreeAsync => known(0, 1).and_then(|()| plain(call)),
        Id::hipMemPrefetchAsync => {
            real::memory(copy, call.size(0)).filter(|range| range.bytes_left >= call.size(1) && call.size(1) > 0)?;
            plain(call)
        }

        Id::hipEventRecord | Id::hipEventRecord_spt if call.size(0) != 0 => {
            event_is_private().and_then(|()| plain(call))
        }
        Id::hipStreamWaitEvent | Id::hipStreamWaitEvent_spt if call.size(1) != 0 && call.int(2) == 0 => {
            event_is_private().and_then(|()| plain(call))
        }
        Id::hipStreamWriteValue32 | Id::hipStreamWaitValue32 => {
            real::memory(copy, call.size(1)).filter(|range| range.bytes_left >= 4 && call.size(1).is_multiple_of(4))?;
            is_plain_flag(call).then(|| plain(call))?
        }
        Id::hipStreamWriteValue64 | Id::hipStreamWaitValue64 => {
            real::memory(copy, call.size(1)).filter(|range| range.bytes_left >= 8 && call.size(1).is_multiple_of(8))?;
            is_plain_flag(call).then(|| plain(call))?
        }

        Id::hipLaunchHostFunc | Id::hipLaunchHostFunc_spt if call.size(1) != 0 => plain(call),
        Id::hipStreamAddCallback | Id::hipStreamAddCallback_spt if call.size(1) != 0 && call.int(3) == 0 => {
            plain(call)
        }
        Id::hipGraphUpload if call.size(0) != 0 => plain(call),
        Id::hipGraphLaunch | Id::hipGraphLaunch_spt if call.size(0) != 0 => {
            graphs_have_no_events().then(|| plain(call))?
        }
        _ => None,
    }
}

/// All arguments are values.
fn plain(call: &Stopped<'_>) -> Option<OwnedCall> {
    OwnedCall::new(call.frame, call.layout, call.target.address)
}

fn own_launch(call: &Stopped<'_>, kernel: &Kernel, params: usize, extra: Option<usize>) -> Option<OwnedCall> {
    let mut owned = plain(call)?;
    let given = call.size(params) as *const *const u8;
    let buffer = extra.map_or(0, |extra| call.size(extra)) as *const usize;
    match (given.is_null(), buffer.is_null(), extra) {
        // SAFETY: the application gives what HIP asks of it: as many arguments as the kernel has.
        (false, true, _) => unsafe { owned.own_params(params, kernel, given)? },
        // SAFETY: or a buffer between its marks.
        (true, false, Some(extra)) => unsafe { owned.own_extra(extra, buffer)? },
        (true, true, _) if kernel.parameters.is_empty() => {}
        // Both or neither: the runtime refuses that.
        _ => return None,
    }
    Some(owned)
}

/// Words of `hipLaunchConfig_t` and `HIP_LAUNCH_CONFIG`: grid and block (three), shared memory, stream, attributes and
/// their number.
const CONFIG_WORDS: usize = 7;

/// A launch by a configuration without attributes.
fn own_configured(call: &Stopped<'_>, copy: &Instance) -> Option<OwnedCall> {
    let config = call.size(0) as *const u64;
    if config.is_null() {
        return None;
    }
    // SAFETY: the application gives a configuration.
    let words = unsafe { config.cast::<[u64; CONFIG_WORDS]>().read() };
    let half = |index: usize| (words[index / 2] >> (32 * (index % 2))) as u32;
    let dimensions = |first| [half(first), half(first + 1), half(first + 2)];
    let (kernel, extra) = if call.id() == Id::hipLaunchKernelExC {
        (kernels::by_handle(copy.index(), call.size(1))?, None)
    } else {
        (kernels::by_function(copy.index(), call.size(1))?, Some(3))
    };
    // The driver's structure has 32 bits of shared memory, and nothing that is read behind them.
    let shared_bytes = if extra.is_some() { words[3] & u64::from(u32::MAX) } else { words[3] };
    let attributes = words[6] as u32;
    check_shape(&kernel, dimensions(0), dimensions(3), shared_bytes)?;
    if attributes != 0 {
        return None;
    }
    let mut owned = own_launch(call, &kernel, 2, extra)?;
    // SAFETY: as above.
    unsafe { owned.own_structure(0, config, CONFIG_WORDS) };
    Some(owned)
}

/// A launch that no runtime refuses.
fn check_shape(kernel: &Kernel, grid: [u32; 3], block: [u32; 3], shared_bytes: u64) -> Option<()> {
    let threads: u64 = block.iter().map(|&extent| u64::from(extent)).fold(1, u64::saturating_mul);
    let limit = BLOCK_THREADS_MAX.min(kernel.threads_max.into());
    let in_grid = grid.iter().zip(block).map(|(&blocks, threads)| u64::from(blocks) * u64::from(threads));
    let fits = in_grid.clone().all(|threads| (1..=u64::from(u32::MAX)).contains(&threads));
    let shared = shared_bytes.checked_add(kernel.shared_bytes.into())?;
    let is_taken = fits && threads <= limit && shared <= SHARED_BYTES_MAX;
    (is_taken || is_planted(Bug::UncheckedLaunch)).then_some(())
}

/// Bytes from the first to the last of rows.
fn rows(pitch: usize, width: usize, height: usize) -> Option<usize> {
    (width <= pitch && width > 0 && height > 0).then_some(())?;
    pitch.checked_mul(height - 1)?.checked_add(width)
}

/// A copy that returns before it is done: between known memory, at least one side on a device, and of the kind that
/// it says. `bytes` are those at the destination and those at the source.
fn check_copy(copy: &Instance, dst: usize, src: usize, bytes: (usize, usize), kind: u32) -> Option<()> {
    if is_planted(Bug::PageableHeldBack) {
        return Some(());
    }
    let within =
        |address, bytes| real::memory(copy, address).filter(|range| range.bytes_left >= bytes && bytes > 0);
    let (dst, src) = (within(dst, bytes.0)?, within(src, bytes.1)?);
    let is_of_kind = match (src, dst) {
        (Range { is_device: true, .. }, Range { is_device: true, .. }) => kind == DEVICE_TO_DEVICE,
        (Range { is_device: true, .. }, _) => kind == DEVICE_TO_HOST,
        (_, Range { is_device: true, .. }) => kind == HOST_TO_DEVICE,
        // From host to host: the host does it itself, now.
        _ => return None,
    };
    (is_of_kind || kind == DEFAULT).then_some(())
}

fn device_memory(copy: &Instance, address: usize, bytes: usize) -> Option<()> {
    let range = real::memory(copy, address)?;
    (range.is_device && bytes > 0 && range.bytes_left >= bytes).then_some(())
}

/// Waits and writes without flags that change what they are.
fn is_plain_flag(call: &Stopped<'_>) -> bool {
    call.int(3)
        <= if matches!(call.id(), Id::hipStreamWaitValue32 | Id::hipStreamWaitValue64) { 3 } else { 0 }
}

/// Other processes look at shared events, and see only what has reached the runtime.
fn event_is_private() -> Option<()> {
    let shared = [Id::hipIpcGetEventHandle, Id::hipIpcOpenEventHandle];
    shared.iter().all(|&id| counters::calls(id as usize) == 0).then_some(())
}

/// A graph that records events or waits for them concerns more streams than its own.
fn graphs_have_no_events() -> bool {
    let with_events = [
        Id::hipGraphAddEventRecordNode,
        Id::hipGraphAddEventWaitNode,
        Id::hipGraphAddNode,
        Id::hipEventRecordWithFlags,
    ];
    with_events.iter().all(|&id| counters::calls(id as usize) == 0)
}
