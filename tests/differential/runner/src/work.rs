//! Work on streams.

use core::ffi::{c_int, c_uint};
use core::ptr;

use xsched_differential::program::{CELL_WORDS, Cell, Fill, HostCall, Kernel, Launch, Move, Work, Write};

use crate::arguments::Arguments;
use crate::hip::{self, Code, Dim3, Handle};
use crate::process::Source;
use crate::world::World;
use crate::{boxes, copy, names, newer};

const GRID: Dim3 = Dim3::x(1);
const BLOCK: Dim3 = Dim3::x(CELL_WORDS as c_uint);
/// Bytes of a row when cells are copied or filled by rows.
const ROW: usize = 64;

/// Submits the work; returns the call's code.
pub(crate) fn submit(world: &World<'_>, stream: Handle, work: &Work) -> Code {
    match *work {
        Work::Kernel { kernel, by, to, from, key } => {
            let arguments = Arguments::new(kernel, world.cell(to).0, world.cell(from).0, key);
            launch(world, stream, (kernel, by), arguments)
        }
        Work::Copy { by, to, from } => copy::submit(world, stream, by, to, from),
        Work::Fill { by, to, value } => fill(world.cell(to), stream, by, value),
        Work::Host { by, to, from, key } => {
            let user = HostWork::leaked(world, to, from, key);
            // SAFETY: the functions use the data passed with them, which is never freed.
            unsafe {
                match by {
                    HostCall::Function => names::hipLaunchHostFunc(stream, Some(host_function), user),
                    HostCall::Callback => names::hipStreamAddCallback(stream, callback, user, 0),
                }
            }
        }
        // SAFETY: a word of an existing buffer.
        Work::WriteValue { by, to, value } => unsafe {
            match by {
                Write::Value => hip::hipStreamWriteValue32(stream, world.cell(to).0, value, 0),
                Write::Wide => hip::hipStreamWriteValue64(stream, world.cell(to).0, wide(value), 0),
                Write::Batch => newer::write_words(stream, world.cell(to).0, value, wide(value)),
            }
        },
        Work::Move { by, what } => move_to(world.cell(what), stream, by),
    }
}

/// Eight bytes made of four.
fn wide(value: u32) -> u64 {
    u64::from(value) | u64::from(!value) << 32
}

/// Moves managed memory, whose contents do not change.
fn move_to((address, size): (Handle, usize), stream: Handle, by: Move) -> Code {
    const FIRST: c_int = 0;
    // SAFETY: a cell of an existing buffer.
    unsafe {
        match by {
            Move::Prefetch => hip::hipMemPrefetchAsync(address, size, FIRST, stream),
            Move::PrefetchTo => newer::prefetch(address, size, FIRST, stream),
            Move::Attach => hip::hipStreamAttachMemAsync(stream, address, size, hip::ATTACH_GLOBAL),
        }
    }
}

/// A kernel's number in `kernels.hip` and in the module.
pub(crate) fn number(kernel: Kernel) -> c_uint {
    match kernel {
        Kernel::Mix => 0,
        Kernel::Wide => 1,
        Kernel::Many => 2,
        Kernel::Nothing => 3,
    }
}

fn launch(
    world: &World<'_>,
    stream: Handle,
    (kernel, by): (Kernel, Launch),
    mut arguments: Box<Arguments>,
) -> Code {
    let number = number(kernel);
    let function = |source| world.process.function(source, number);
    let none = ptr::null_mut();
    // SAFETY: kernels of this program with arguments of their types, which live until the call returns.
    let code = unsafe {
        let address = hip::diff_kernel(number);
        let list = arguments.list();
        match by {
            Launch::Chevrons => {
                hip::diff_chevrons(number, list, stream);
                hip::SUCCESS
            }
            Launch::Plain => names::hipLaunchKernel(address, GRID, BLOCK, list, 0, stream),
            Launch::Spt => match names::of_thread(stream) {
                Some(stream) => names::hipLaunchKernel_spt(address, GRID, BLOCK, list, 0, stream),
                None => names::hipLaunchKernel(address, GRID, BLOCK, list, 0, stream),
            },
            Launch::Cooperative => names::hipLaunchCooperativeKernel(address, GRID, BLOCK, list, 0, stream),
            Launch::Ext => hip::hipExtLaunchKernel(address, GRID, BLOCK, list, 0, stream, none, none, 0),
            Launch::ModuleList => module_launch(function(Source::Module), stream, list, ptr::null_mut()),
            Launch::ModuleBuffer => {
                module_launch(function(Source::Module), stream, ptr::null_mut(), arguments.extra())
            }
            Launch::ModuleCooperative => {
                let (function, [x, y, z]) = (function(Source::Module), [BLOCK.x, 1, 1]);
                hip::hipModuleLaunchCooperativeKernel(function, GRID.x, 1, 1, x, y, z, 0, stream, list)
            }
            Launch::Config => newer::launch_by_config(address, BLOCK.x, list, stream, false),
            Launch::ConfigCooperative => newer::launch_by_config(address, BLOCK.x, list, stream, true),
            Launch::DriverConfig => {
                newer::launch_by_driver_config(function(Source::Module), BLOCK.x, list, stream)
            }
            Launch::DriverConfigCooperative => {
                newer::launch_cooperative_by_driver_config(function(Source::Module), BLOCK.x, list, stream)
            }
            Launch::SymbolFunction => module_launch(function(Source::Symbol), stream, list, ptr::null_mut()),
            Launch::LibraryKernel => module_launch(function(Source::Library), stream, list, ptr::null_mut()),
        }
    };
    arguments.scribble();
    code
}

/// Launches a kernel between two events, any of which may be null; by function if the launch kind uses
/// functions.
pub(crate) fn submit_timed(
    world: &World<'_>,
    stream: Handle,
    work: &Work,
    (start, stop): (Handle, Handle),
) -> Code {
    let Work::Kernel { kernel, by, to, from, key } = *work else { return hip::SUCCESS };
    let mut arguments = Arguments::new(kernel, world.cell(to).0, world.cell(from).0, key);
    let (number, list) = (number(kernel), arguments.list());
    // SAFETY: kernels of this program with arguments of their types, which live until the call returns.
    let code = unsafe {
        let function = world.process.function(Source::Module, number);
        match by {
            Launch::ModuleList => newer::launch_with_events(function, BLOCK.x, list, stream, start, stop),
            Launch::ModuleBuffer => {
                newer::launch_with_events_by_hcc(function, BLOCK.x, arguments.extra(), stream, start, stop)
            }
            _ => {
                let address = hip::diff_kernel(number);
                hip::hipExtLaunchKernel(address, GRID, BLOCK, list, 0, stream, start, stop, 0)
            }
        }
    };
    arguments.scribble();
    code
}

/// Launches a kernel that writes behind an allocation, where no memory is.
pub(crate) fn fault(world: &World<'_>, stream: Handle) -> Code {
    const BEHIND: usize = 1 << 16;
    let nowhere = world.process.scratch.wrapping_byte_add(BEHIND);
    let mut arguments = Arguments::new(Kernel::Mix, nowhere, world.process.scratch, 1);
    // SAFETY: a kernel of this program with arguments of its types; the device detects its invalid access.
    let code = unsafe {
        let address = hip::diff_kernel(number(Kernel::Mix));
        names::hipLaunchKernel(address, GRID, BLOCK, arguments.list(), 0, stream)
    };
    arguments.scribble();
    code
}

/// # Safety
///
/// As for `hipModuleLaunchKernel`.
pub(crate) unsafe fn module_launch(
    function: Handle,
    stream: Handle,
    list: *mut Handle,
    extra: *mut Handle,
) -> Code {
    // SAFETY: the caller upholds this function's contract.
    unsafe { hip::hipModuleLaunchKernel(function, GRID.x, 1, 1, BLOCK.x, 1, 1, 0, stream, list, extra) }
}

fn fill((to, size): (Handle, usize), stream: Handle, by: Fill, value: u8) -> Code {
    let byte = c_int::from(value);
    // SAFETY: a cell of an existing buffer.
    unsafe {
        match by {
            Fill::Async => names::hipMemsetAsync(to, byte, size, stream),
            Fill::Bytes => hip::hipMemsetD8Async(to, value, size, stream),
            Fill::HalfWords => hip::hipMemsetD16Async(to, u16::from_ne_bytes([value; 2]), size / 2, stream),
            Fill::DriverRows => newer::fill_rows(to, ROW, value, size / ROW, stream),
            Fill::Words => {
                let word = c_int::from_ne_bytes([value; 4]);
                hip::hipMemsetD32Async(to, word, size / 4, stream)
            }
            Fill::Rows => names::hipMemset2DAsync(to, ROW, byte, ROW, size / ROW, stream),
            Fill::Box => {
                let rows = boxes::Pitched { address: to, pitch: ROW, xsize: ROW, ysize: 2 };
                let extent = boxes::Extent { width: ROW, height: 2, depth: size / ROW / 2 };
                names::hipMemset3DAsync(rows, byte, extent, stream)
            }
            Fill::Sync => hip::hipMemset(to, byte, size),
        }
    }
}

/// The argument of a host function.
pub(crate) struct HostWork {
    to: *mut u32,
    from: *const u32,
    key: u32,
}

impl HostWork {
    /// Never freed, since a graph calls it on every launch.
    pub(crate) fn leaked(world: &World<'_>, to: Cell, from: Cell, key: u32) -> Handle {
        let work = Self { to: world.cell(to).0.cast(), from: world.cell(from).0.cast(), key };
        Box::into_raw(Box::new(work)).cast()
    }

    /// Does the same as the kernel `diff_mix`.
    fn run(&self) {
        for index in 0..CELL_WORDS {
            // SAFETY: cells of host memory, which no other thread accesses meanwhile, because programs are in
            // order.
            unsafe {
                let (to, from) = (self.to.add(index), self.from.add(index));
                let word = (to.read() ^ from.read().rotate_right(3)).wrapping_mul(0x9e37_79b1);
                let word = word.wrapping_add(self.key);
                to.write(word ^ word >> 15);
            }
        }
    }
}

/// # Safety
///
/// `user` must come from `HostWork::leaked`.
pub(crate) unsafe extern "C" fn host_function(user: Handle) {
    // SAFETY: the caller upholds this function's contract; the data is never freed.
    unsafe { &*user.cast::<HostWork>() }.run();
}

unsafe extern "C" fn callback(_: Handle, _: Code, user: Handle) {
    // SAFETY: passed together with this function.
    unsafe { host_function(user) };
}
