//! Contexts: a primary one for each device, and those that programs create. Each thread has a stack of them.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::export::exports;
use crate::hip;
use crate::result::{
    CUresult, Handle, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_INITIALIZED, of_hip, write,
};

/// A context. Handles are addresses of these; none is ever freed, so a stale one is recognised.
struct Context {
    device: c_int,
    flags: AtomicU32,
    is_alive: AtomicBool,
}

/// All contexts by handle, and the primary one of each device.
struct Contexts {
    all: BTreeMap<usize, &'static Context>,
    primary: BTreeMap<c_int, (usize, usize)>,
}

static CONTEXTS: Mutex<Contexts> = Mutex::new(Contexts { all: BTreeMap::new(), primary: BTreeMap::new() });
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Handles, the current context last.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn with_stack<T>(work: impl FnOnce(&mut Vec<usize>) -> T) -> Result<T, CUresult> {
    STACK.try_with(|stack| work(&mut stack.borrow_mut())).map_err(|_| NOT_INITIALIZED)
}

fn lock() -> std::sync::MutexGuard<'static, Contexts> {
    CONTEXTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn find(handle: usize) -> Result<&'static Context, CUresult> {
    let context = lock().all.get(&handle).copied().filter(|c| c.is_alive.load(Ordering::Relaxed));
    context.ok_or(INVALID_CONTEXT)
}

fn create(device: c_int, flags: u32) -> usize {
    let (flags, is_alive) = (AtomicU32::new(flags), AtomicBool::new(true));
    let context: &'static Context = Box::leak(Box::new(Context { device, flags, is_alive }));
    let handle = ptr::from_ref(context) as usize;
    lock().all.insert(handle, context);
    handle
}

fn handle(context: usize) -> Handle {
    ptr::with_exposed_provenance_mut(context)
}

/// An error before `cuInit`.
pub(crate) fn check_initialized() -> Result<(), CUresult> {
    if IS_INITIALIZED.load(Ordering::Relaxed) { Ok(()) } else { Err(NOT_INITIALIZED) }
}

/// An error if there is no such device.
pub(crate) fn check_device(device: c_int) -> Result<(), CUresult> {
    check_initialized()?;
    let mut count = 0;
    // SAFETY: a local out-parameter.
    of_hip(unsafe { hip::hipGetDeviceCount(&raw mut count) })?;
    if (0..count).contains(&device) { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// The calling thread's context and its device, which becomes HIP's current one.
pub(crate) fn enter() -> Result<(Handle, c_int), CUresult> {
    check_initialized()?;
    let current = with_stack(|stack| stack.last().copied())?.ok_or(INVALID_CONTEXT)?;
    let device = find(current)?.device;
    // SAFETY: no pointers.
    of_hip(unsafe { hip::hipSetDevice(device) })?;
    Ok((handle(current), device))
}

exports! {
    @2000 cuInit(flags: u32) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        of_hip(hip::hipInit(0))?;
        IS_INITIALIZED.store(true, Ordering::Relaxed);
        Ok(())
    }
    @7000 cuDevicePrimaryCtxRetain(out: *mut Handle, device: c_int) {
        check_device(device)?;
        let known = lock().primary.get(&device).copied();
        let context = known.map_or_else(|| create(device, 0), |(context, _)| context);
        lock().primary.entry(device).or_insert((context, 0)).1 += 1;
        find(context).or_else(|_| lock().all.get(&context).copied().ok_or(INVALID_CONTEXT))?.is_alive.store(true, Ordering::Relaxed);
        write(out, handle(context))
    }
    @11000 cuDevicePrimaryCtxRelease_v2(device: c_int) {
        check_device(device)?;
        let mut contexts = lock();
        let (context, count) = contexts.primary.get_mut(&device).filter(|(_, count)| *count > 0).ok_or(INVALID_CONTEXT)?;
        *count -= 1;
        let (context, is_last) = (*context, *count == 0);
        if is_last && let Some(context) = contexts.all.get(&context) {
            context.is_alive.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
    @11000 cuDevicePrimaryCtxSetFlags_v2(device: c_int, _flags: u32) { check_device(device) }
    @7000 cuDevicePrimaryCtxGetState(device: c_int, flags: *mut u32, is_active: *mut c_int) {
        check_device(device)?;
        let active = lock().primary.get(&device).is_some_and(|(_, count)| *count > 0);
        write(flags, 0)?;
        write(is_active, c_int::from(active))
    }
    @3020 cuCtxCreate_v2(out: *mut Handle, flags: u32, device: c_int) {
        check_device(device)?;
        let context = create(device, flags);
        with_stack(|stack| stack.push(context))?;
        write(out, handle(context))
    }
    @12050 cuCtxCreate_v4(out: *mut Handle, _params: *mut c_void, flags: u32, device: c_int) {
        match cuCtxCreate_v2(out, flags, device) { 0 => Ok(()), error => Err(error) }
    }
    @4000 cuCtxDestroy_v2(context: Handle) {
        find(context as usize)?.is_alive.store(false, Ordering::Relaxed);
        with_stack(|stack| stack.pop_if(|top| *top == context as usize)).map(|_| ())
    }
    @4000 cuCtxPushCurrent_v2(context: Handle) {
        check_initialized()?;
        find(context as usize)?;
        with_stack(|stack| stack.push(context as usize))
    }
    @4000 cuCtxPopCurrent_v2(out: *mut Handle) {
        check_initialized()?;
        let popped = with_stack(Vec::pop)?.ok_or(INVALID_CONTEXT)?;
        if out.is_null() { Ok(()) } else { write(out, handle(popped)) }
    }
    @4000 cuCtxSetCurrent(context: Handle) {
        check_initialized()?;
        if !context.is_null() {
            find(context as usize)?;
        }
        with_stack(|stack| {
            stack.pop();
            stack.extend((!context.is_null()).then_some(context as usize));
        })
    }
    @4000 cuCtxGetCurrent(out: *mut Handle) {
        check_initialized()?;
        let current = with_stack(|stack| stack.last().copied())?;
        write(out, handle(current.unwrap_or(0)))
    }
    @2000 cuCtxGetDevice(out: *mut c_int) { write(out, enter()?.1) }
    @13000 cuCtxGetDevice_v2(out: *mut c_int, context: Handle) {
        if context.is_null() { write(out, enter()?.1) } else { write(out, find(context as usize)?.device) }
    }
    @7000 cuCtxGetFlags(out: *mut u32) { write(out, find(enter()?.0 as usize)?.flags.load(Ordering::Relaxed)) }
    @12000 cuCtxGetId(context: Handle, out: *mut u64) {
        let context = if context.is_null() { enter()?.0 } else { context };
        find(context as usize)?;
        write(out, context as u64)
    }
    @3020 cuCtxGetApiVersion(_context: Handle, out: *mut u32) { write(out, 3020) }
    @2000 cuCtxSynchronize() { enter()?; of_hip(hip::hipDeviceSynchronize()) }
    @5050 cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        enter()?;
        if !least.is_null() {
            least.write(*crate::stream::PRIORITIES.end());
        }
        if !greatest.is_null() {
            greatest.write(*crate::stream::PRIORITIES.start());
        }
        Ok(())
    }
}
