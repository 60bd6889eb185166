//! Recording of ioctls on AMD's devices: the entry notes the call, the return submits it; see `xsched_abi::driver`.

use aya_ebpf::bindings::BPF_RB_FORCE_WAKEUP;
use aya_ebpf::helpers::generated::{
    bpf_get_current_task, bpf_probe_read_kernel as bpf_probe_read_kernel_raw, bpf_probe_read_user,
    bpf_send_signal,
};
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};
use aya_ebpf::programs::TracePointContext;
use core::mem::MaybeUninit;
use xsched_abi::driver::{
    DRM_TYPE, Device, DeviceOpened, DriverConfig, Ioctl, KFD_TYPE, PendingIoctl, STRUCT_LEN_MAX,
    command_size, command_type, passes_struct, returns_struct,
};
use xsched_abi::{Counter, RecordKind};

use crate::count::count;
use crate::events::{EVENTS, now_ns, wakeup};
use crate::loader::SIGSTOP;
use crate::scope::Current;
use crate::zero;

#[map]
static DRIVER: Array<DriverConfig> = Array::with_max_entries(1, 0);

/// AMD's devices on this machine, by device number: the value is a [`Device`]. User space fills it.
#[map]
static DRIVER_DEVICES: HashMap<u32, u32> = HashMap::with_max_entries(1024, 0);

/// Ioctls in progress, by thread (`bpf_get_current_pid_tgid`, independent of the tracer's pid namespace).
#[map]
static IOCTLS: HashMap<u64, PendingIoctl> = HashMap::with_max_entries(4096, 0);

/// Offsets of the fields of `syscalls:sys_enter_ioctl` and `syscalls:sys_exit_ioctl`.
const ENTER_FD: usize = 16;
const ENTER_COMMAND: usize = 24;
const ENTER_ARG: usize = 32;
const EXIT_RET: usize = 16;

/// ioctl(2) is entered, on any device.
#[inline(always)]
pub(crate) fn syscall_enter(ctx: &TracePointContext) {
    // SAFETY: the offset lies within the tracepoint's record.
    let Ok(command) = (unsafe { ctx.read_at::<u64>(ENTER_COMMAND) }) else { return };
    let command = command as u32;
    // Nearly all ioctls on other devices end here.
    if !matches!(command_type(command), KFD_TYPE | DRM_TYPE) {
        return;
    }
    let Some(current) = Current::watched() else { return };
    // SAFETY: the offsets lie within the tracepoint's record.
    let (fd, arg) = unsafe { (ctx.read_at::<u64>(ENTER_FD), ctx.read_at::<u64>(ENTER_ARG)) };
    let (Ok(fd), Ok(arg)) = (fd, arg) else { return };
    let fd = fd as u32;
    let Some(config) = DRIVER.get(0) else { return };
    let (device, rdev) = if config.has_offsets == 0 {
        (Device::Untold as u32, 0)
    } else {
        let Some(rdev) = rdev_of_descriptor(config, fd) else { return };
        let Some(device) = DRIVER_DEVICES.get_ptr(rdev) else { return };
        // SAFETY: the value is one word, which is read whole even while user space changes it.
        (unsafe { *device }, rdev)
    };
    enter(current, device, rdev, fd as i32, command, arg);
}

/// ioctl(2) returns.
#[inline(always)]
pub(crate) fn syscall_leave(ctx: &TracePointContext) {
    // SAFETY: the offset lies within the tracepoint's record.
    if let Ok(ret) = unsafe { ctx.read_at::<i64>(EXIT_RET) } {
        leave(ret);
    }
}

/// The driver's own ioctl function of a device is entered.
#[inline(always)]
pub(crate) fn function_enter(device: Device, file: u64, command: u32, arg: u64) {
    let Some(current) = Current::watched() else { return };
    let rdev = DRIVER.get(0).filter(|config| config.has_offsets != 0);
    let rdev = rdev.and_then(|config| rdev_of_file(config, file)).unwrap_or(0);
    enter(current, device as u32, rdev, -1, command, arg);
}

#[inline(always)]
fn enter(current: Current, device: u32, rdev: u32, fd: i32, command: u32, arg: u64) {
    // Filled in place. The rest of the space for the struct must be zero.
    let mut pending = MaybeUninit::uninit();
    let pending: &mut PendingIoctl = zero::cleared(&mut pending);
    pending.tgid = current.tgid;
    pending.tid = current.tid;
    pending.begin_ns = now_ns();
    pending.arg = arg;
    pending.command = command;
    pending.device = device;
    pending.rdev = rdev;
    pending.fd = fd;
    if passes_struct(command) {
        pending.before_len = read_struct(&raw mut pending.before, command, arg);
    }
    if IOCTLS.insert(bpf_get_current_pid_tgid(), &*pending, 0).is_err() {
        count(Counter::IoctlPendingFull);
    }
}

/// The call of the current thread returns, if it was recorded when it was entered.
#[inline(always)]
pub(crate) fn leave(ret: i64) {
    let thread = bpf_get_current_pid_tgid();
    let Some(pending) = IOCTLS.get_ptr(thread) else { return };
    match EVENTS.reserve::<Ioctl>(0) {
        Some(mut entry) => {
            let ioctl: *mut Ioctl = entry.as_mut_ptr();
            // Field by field: the record does not fit on the program's stack.
            // SAFETY: the reservation is as large as the record, and private to this program before it is submitted. Only this
            // thread uses this key of the map, and user space removes only keys of threads that have ended.
            unsafe {
                (*ioctl).kind = RecordKind::Ioctl as u32;
                (*ioctl).end_ns = now_ns();
                (*ioctl).ret = ret;
                // One call of a helper; an assignment would become a loop over bytes.
                bpf_probe_read_kernel_raw(
                    (&raw mut (*ioctl).entered).cast(),
                    size_of::<PendingIoctl>() as u32,
                    pending.cast(),
                );
                (*ioctl).after_len = if returns_struct((*pending).command) {
                    read_struct(&raw mut (*ioctl).after, (*pending).command, (*pending).arg)
                } else {
                    0
                };
            }
            entry.submit(wakeup(&EVENTS, size_of::<Ioctl>()));
        }
        None => count(Counter::IoctlRingFull),
    }
    let _ = IOCTLS.remove(thread);
}

/// Copies the beginning of a command's struct; returns the number of bytes.
#[inline(always)]
fn read_struct(to: *mut [u8; STRUCT_LEN_MAX], command: u32, from: u64) -> u32 {
    let size = command_size(command);
    // The verifier of Linux 6.1 must see the comparison on the register that is passed on. The compiler tends to compare a copy;
    // after a volatile load there is none.
    // SAFETY: the pointer is that of a local variable.
    let len = unsafe { core::ptr::read_volatile(&raw const size) };
    let len = if len > STRUCT_LEN_MAX { STRUCT_LEN_MAX } else { len };
    // SAFETY: the helper checks the user address and writes at most `len` bytes, which is at most the size of the array.
    if unsafe { bpf_probe_read_user(to.cast(), len as u32, from as *const core::ffi::c_void) } == 0 {
        len as u32
    } else {
        count(Counter::IoctlArgumentsUnreadable);
        0
    }
}

/// Device number of the file behind a descriptor of the current process.
///
/// Another thread may close the descriptor, and open another file under it, before the system call looks it up.
#[inline(always)]
fn rdev_of_descriptor(config: &DriverConfig, fd: u32) -> Option<u32> {
    // SAFETY: the helper takes nothing and returns the address of the current task.
    let task = unsafe { bpf_get_current_task() };
    let files = word(task, config.task_files)?;
    let table = word(files, config.files_fdt)?;
    let fd_count: u32 = read_kernel(table + u64::from(config.fdtable_max_fds))?;
    if fd >= fd_count {
        return None;
    }
    let descriptors = word(table, config.fdtable_fd)?;
    rdev_of_file(config, word(descriptors + 8 * u64::from(fd), 0)?)
}

/// Device number of an open file.
#[inline(always)]
fn rdev_of_file(config: &DriverConfig, file: u64) -> Option<u32> {
    let inode = word(file, config.file_inode)?;
    read_kernel(inode + u64::from(config.inode_rdev))
}

/// The pointer at an offset of a kernel object, unless it is null.
#[inline(always)]
fn word(object: u64, offset: u32) -> Option<u64> {
    read_kernel(object + u64::from(offset)).filter(|&pointer: &u64| pointer != 0)
}

#[inline(always)]
fn read_kernel<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(address as *const T) }.ok()
}

/// A watched process opens `path`: reports it if it is one of the driver's devices and the driver is not traced yet. Until it is, the
/// process is stopped, if it may be.
#[inline(always)]
pub(crate) fn note_open(current: Current, path: &[u8]) {
    if !path.starts_with(b"/dev/kfd\0") && !path.starts_with(b"/dev/dri/") {
        return;
    }
    if DRIVER.get(0).is_none_or(|config| config.report_opening == 0) {
        return;
    }
    // Without a record of the stop, the process would never be continued.
    let Some(mut entry) = EVENTS.reserve::<DeviceOpened>(0) else { return count(Counter::IoctlLate) };
    // The system call that is being entered still opens the file; the process stops when it returns.
    // SAFETY: the helper signals the current process; it takes no pointers.
    let is_stopped = Current::stoppable().is_some() && unsafe { bpf_send_signal(SIGSTOP) } == 0;
    entry.write(DeviceOpened {
        kind: RecordKind::DeviceOpened as u32,
        tgid: current.tgid,
        time_ns: now_ns(),
        is_stopped: u32::from(is_stopped),
        reserved: 0,
    });
    entry.submit(u64::from(BPF_RB_FORCE_WAKEUP));
}
