//! Contexts: a primary one for each device, those that programs create, and green ones. Each thread has a stack of them.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use crate::export::exports;
use crate::hip;
use crate::memory;
use crate::result::{
    CUresult, Handle, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_INITIALIZED, of_hip, write,
};

/// A context. Handles are addresses of these; none is ever freed, so a stale one is recognised.
struct Context {
    device: c_int,
    flags: AtomicU32,
    is_alive: AtomicBool,
    /// Of a green context.
    primary: Option<usize>,
}

/// All contexts by handle, and the primary one of each device.
struct Contexts {
    all: BTreeMap<usize, &'static Context>,
    primary: BTreeMap<c_int, (usize, usize)>,
}

static CONTEXTS: Mutex<Contexts> = Mutex::new(Contexts { all: BTreeMap::new(), primary: BTreeMap::new() });
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

/// On which thread a green context is current: one at most.
static CURRENT_GREEN: Mutex<BTreeMap<usize, ThreadId>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Handles, the current context last.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn with_stack<T>(work: impl FnOnce(&mut Vec<usize>) -> T) -> Result<T, CUresult> {
    STACK.try_with(|stack| work(&mut stack.borrow_mut())).map_err(|_| NOT_INITIALIZED)
}

/// Changes the thread's stack, after which `next` is its current context, if that is given.
fn change_stack<T>(next: Option<usize>, work: impl FnOnce(&mut Vec<usize>) -> T) -> Result<T, CUresult> {
    let own = thread::current().id();
    let mut current = CURRENT_GREEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if next.and_then(|next| current.get(&next)).is_some_and(|thread| *thread != own) {
        return Err(INVALID_CONTEXT);
    }
    let (done, top) = with_stack(|stack| (work(stack), stack.last().copied()))?;
    current.retain(|_, thread| *thread != own);
    if let Some(top) = top.filter(|top| primary_of(*top).is_some()) {
        current.insert(top, own);
    }
    Ok(done)
}

/// The primary context behind a green one.
fn primary_of(context: usize) -> Option<usize> {
    lock().all.get(&context)?.primary
}

/// The context to which memory and streams of a context belong: of a green one, the primary context.
pub(crate) fn owner(context: usize) -> usize {
    primary_of(context).unwrap_or(context)
}

/// A green context on a device, whose primary context it keeps.
pub(crate) fn create_green(device: c_int) -> Result<usize, CUresult> {
    let primary = retain(device)?;
    Ok(create(device, 0, Some(primary)))
}

/// Its end.
pub(crate) fn destroy_green(context: usize) -> Result<(), CUresult> {
    let green = find(context)?;
    green.is_alive.store(false, Ordering::Relaxed);
    release(green.device)
}

fn retain(device: c_int) -> Result<usize, CUresult> {
    check_device(device)?;
    let known = lock().primary.get(&device).copied();
    let context = known.map_or_else(|| create(device, 0, None), |(context, _)| context);
    let mut contexts = lock();
    contexts.primary.entry(device).or_insert((context, 0)).1 += 1;
    contexts.all.get(&context).ok_or(INVALID_CONTEXT)?.is_alive.store(true, Ordering::Relaxed);
    Ok(context)
}

fn release(device: c_int) -> Result<(), CUresult> {
    check_device(device)?;
    let mut contexts = lock();
    let (context, count) =
        contexts.primary.get_mut(&device).filter(|(_, count)| *count > 0).ok_or(INVALID_CONTEXT)?;
    *count -= 1;
    let (context, is_last) = (*context, *count == 0);
    drop(contexts);
    if is_last { end(context) } else { Ok(()) }
}

/// A context is not there any more, and what belongs to it goes.
fn end(context: usize) -> Result<(), CUresult> {
    find(context)?.is_alive.store(false, Ordering::Relaxed);
    memory::context_ends(context);
    Ok(())
}

fn lock() -> std::sync::MutexGuard<'static, Contexts> {
    CONTEXTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn find(handle: usize) -> Result<&'static Context, CUresult> {
    let context = lock().all.get(&handle).copied().filter(|c| c.is_alive.load(Ordering::Relaxed));
    context.ok_or(INVALID_CONTEXT)
}

fn create(device: c_int, flags: u32, primary: Option<usize>) -> usize {
    let (flags, is_alive) = (AtomicU32::new(flags), AtomicBool::new(true));
    let context: &'static Context = Box::leak(Box::new(Context { device, flags, is_alive, primary }));
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
    @7000 cuDevicePrimaryCtxRetain(out: *mut Handle, device: c_int) { write(out, handle(retain(device)?)) }
    @11000 cuDevicePrimaryCtxRelease_v2(device: c_int) { release(device) }
    @11000 cuDevicePrimaryCtxReset_v2(device: c_int) {
        check_device(device)?;
        let Some((context, _)) = lock().primary.get(&device).copied().filter(|(_, count)| *count > 0) else { return Ok(()) };
        lock().primary.insert(device, (context, 0));
        end(context)
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
        let context = create(device, flags, None);
        change_stack(None, |stack| stack.push(context))?;
        write(out, handle(context))
    }
    @12050 cuCtxCreate_v4(out: *mut Handle, _params: *mut c_void, flags: u32, device: c_int) {
        match cuCtxCreate_v2(out, flags, device) { 0 => Ok(()), error => Err(error) }
    }
    @4000 cuCtxDestroy_v2(context: Handle) {
        end(context as usize)?;
        change_stack(None, |stack| stack.pop_if(|top| *top == context as usize)).map(|_| ())
    }
    @4000 cuCtxPushCurrent_v2(context: Handle) {
        check_initialized()?;
        find(context as usize)?;
        change_stack(Some(context as usize), |stack| stack.push(context as usize))
    }
    @4000 cuCtxPopCurrent_v2(out: *mut Handle) {
        check_initialized()?;
        let popped = change_stack(None, Vec::pop)?.ok_or(INVALID_CONTEXT)?;
        if out.is_null() { Ok(()) } else { write(out, handle(popped)) }
    }
    @4000 cuCtxSetCurrent(context: Handle) {
        check_initialized()?;
        if !context.is_null() {
            find(context as usize)?;
        }
        change_stack(Some(context as usize), |stack| {
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
