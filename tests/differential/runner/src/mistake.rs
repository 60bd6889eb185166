//! Calls that fail.

use core::ffi::c_void;
use core::ptr;

use xsched_differential::program::{CELL_WORDS, Kernel, Mistake};

use crate::arguments::Arguments;
use crate::hip::{self, Code, Dim3, Handle};
use crate::process::{SCRATCH_BYTES, Source};
use crate::world::World;
use crate::{boxes, names, newer, work};

static NOT_A_KERNEL: u64 = 0;
static SOURCE: [u8; 4 * SCRATCH_BYTES] = [7; 4 * SCRATCH_BYTES];

/// Makes the call; returns its code.
pub(crate) fn make(world: &World<'_>, mistake: Mistake, stream: Handle) -> Code {
    let null: Handle = ptr::null_mut();
    let scratch = world.process.scratch;
    let source: Handle = SOURCE.as_ptr().cast_mut().cast();
    let mut arguments = Arguments::new(Kernel::Mix, scratch, scratch, 1);
    let launch = |arguments: &mut Arguments, kernel: *const c_void, grid: u32, block: u32, lds: usize| {
        // SAFETY: arguments of the kernel's types; the runtime refuses the mistake.
        unsafe {
            names::hipLaunchKernel(kernel, Dim3::x(grid), Dim3::x(block), arguments.list(), lds, stream)
        }
    };
    let block = CELL_WORDS as u32;
    // SAFETY: the runtime refuses each call for its mistake; out-parameters are local, sources long enough.
    let code = unsafe {
        let mix = hip::diff_kernel(0);
        let mut out = null;
        match mistake {
            Mistake::NoBlocks => launch(&mut arguments, mix, 0, block, 0),
            Mistake::LargeBlock => launch(&mut arguments, mix, 1, 1 << 20, 0),
            Mistake::NoKernel => launch(&mut arguments, ptr::null(), 1, block, 0),
            Mistake::NotAKernel => launch(&mut arguments, (&raw const NOT_A_KERNEL).cast(), 1, block, 0),
            Mistake::LargeShare => launch(&mut arguments, mix, 1, block, 1 << 24),
            Mistake::TwoKindsOfArguments => {
                let (list, extra) = (arguments.list(), arguments.extra());
                work::module_launch(world.process.function(Source::Module, 0), stream, list, extra)
            }
            Mistake::CopyToNull => names::hipMemcpyAsync(null, source, 64, hip::HOST_TO_DEVICE, stream),
            Mistake::CopyDirection => names::hipMemcpyAsync(scratch, source, 64, 77, stream),
            Mistake::CopyTooLong => {
                names::hipMemcpyAsync(scratch, source, SOURCE.len(), hip::HOST_TO_DEVICE, stream)
            }
            Mistake::FillNull => names::hipMemsetAsync(null, 1, 64, stream),
            Mistake::RecordNull => names::hipEventRecord(null, stream),
            Mistake::WaitNull => names::hipStreamWaitEvent(stream, null, 0),
            Mistake::SyncNull => hip::hipEventSynchronize(null),
            Mistake::NoFunction => names::hipLaunchHostFunc(stream, None, null),
            Mistake::EndOfNoCapture => names::hipStreamEndCapture(stream, &raw mut out),
            Mistake::LaunchNoGraph => names::hipGraphLaunch(null, stream),
            Mistake::NoDevice => hip::hipSetDevice(99),
            Mistake::FreeNonsense => hip::hipFree(ptr::without_provenance_mut(0x10_0000)),
            Mistake::MallocToNull => hip::hipMalloc(ptr::null_mut(), 64),
            Mistake::StreamFlags => hip::hipStreamCreateWithFlags(&raw mut out, 0xffff),
            Mistake::NoSuchFunction => {
                hip::hipModuleGetFunction(&raw mut out, world.process.module, c"no_such_kernel".as_ptr())
            }
            Mistake::DestroyNullStream => hip::hipStreamDestroy(null),
            Mistake::ManyBlocks => {
                let (grid, block) = (Dim3::x(1 << 20), Dim3::x(block));
                names::hipLaunchCooperativeKernel(mix, grid, block, arguments.list(), 0, stream)
            }
            Mistake::PeerNoDevice => hip::hipMemcpyPeerAsync(scratch, 99, scratch, 0, 64, stream),
            Mistake::LargeBox => large_box(scratch, source, stream),
            Mistake::NoArray => {
                names::hipMemcpy2DToArrayAsync(null, 0, 0, source, 64, 64, 1, hip::HOST_TO_DEVICE, stream)
            }
            Mistake::NotCooperative => newer::launch_not_cooperative(mix, block, arguments.list(), stream),
            Mistake::MoveNowhere => hip::hipMemPrefetchAsync(world.process.managed, 64, 99, stream),
            Mistake::MoveFixed => hip::hipMemPrefetchAsync(scratch, 64, 0, stream),
            Mistake::NoOrder => {
                let given = [boxes::BoxOperation::without_order(scratch, source, 64); 2];
                newer::copy_boxes(&raw const given, stream)
                    .unwrap_or_else(|| large_box(scratch, source, stream))
            }
        }
    };
    arguments.scribble();
    code
}

/// A copy of four times as many rows as the scratch memory has.
///
/// # Safety
///
/// The source must have that many rows.
unsafe fn large_box(scratch: Handle, source: Handle, stream: Handle) -> Code {
    const ROW: usize = 64;
    let rows = 4 * SCRATCH_BYTES / ROW;
    let (from, to) = (boxes::BoxEnd::rows(source, ROW, rows), boxes::BoxEnd::rows(scratch, ROW, rows));
    let given = boxes::Box3d { from, to, extent: [ROW, rows, 1], kind: hip::HOST_TO_DEVICE };
    // SAFETY: the source is long enough; the runtime refuses the call because the target is not.
    unsafe { names::hipMemcpy3DAsync(&raw const given, stream) }
}
