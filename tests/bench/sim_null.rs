//! The simulated runtime in null mode: the cost of an asynchronous call without effect, including trampoline
//! and table.
//!
//! Every other measurement on this runtime includes this cost. The last row is the same from several threads
//! at once.

use std::{
    env,
    error::Error,
    ffi::{c_int, c_uint, c_void},
    ptr::null_mut,
    sync::Barrier,
    time::Instant,
};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use xsched_tests::{
    artifacts::hip_sim,
    bench::{Goal, Row, repeated},
};

const BENCH: &str = "sim-null";
const ROUNDS: usize = 41;
const CALLS: u32 = 50_000;
const THREADS: usize = 2;
const GOAL_NS: Goal = Goal::ValueAtMost(100.0);

const BYTES: usize = 4096;
const DEVICE_TO_DEVICE: c_uint = 3;

type Handle = *mut c_void;
type HipError = c_int;

#[repr(C)]
#[derive(Clone, Copy)]
struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

const ONE: Dim3 = Dim3 { x: 1, y: 1, z: 1 };

/// Host address, grid, block, arguments, shared memory, stream.
type LaunchKernel = unsafe extern "C" fn(*const c_void, Dim3, Dim3, *mut Handle, usize, Handle) -> HipError;
/// Function, grid and block by axis, shared memory, stream, arguments, extra.
type ModuleLaunchKernel = unsafe extern "C" fn(
    Handle,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Handle,
    *mut Handle,
    *mut Handle,
) -> HipError;

struct Hip {
    malloc: Symbol<unsafe extern "C" fn(*mut Handle, usize) -> HipError>,
    launch_kernel: Symbol<LaunchKernel>,
    module_launch_kernel: Symbol<ModuleLaunchKernel>,
    memcpy_async: Symbol<unsafe extern "C" fn(Handle, *const c_void, usize, c_uint, Handle) -> HipError>,
    memset_async: Symbol<unsafe extern "C" fn(Handle, c_int, usize, Handle) -> HipError>,
}

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: no other thread runs yet. The library reads the variable at its first call.
    unsafe { env::set_var("HIP_SIM_NULL", "1") };
    // SAFETY: the simulator's initialisers have no requirements; it stays loaded.
    let library = unsafe { Library::open(Some(hip_sim(6).join("libamdhip64.so.6")), RTLD_NOW | RTLD_LOCAL)? };
    // SAFETY: the types are those of HIP's declarations for these names.
    let hip = unsafe {
        Hip {
            malloc: library.get("hipMalloc")?,
            launch_kernel: library.get("hipLaunchKernel")?,
            module_launch_kernel: library.get("hipModuleLaunchKernel")?,
            memcpy_async: library.get("hipMemcpyAsync")?,
            memset_async: library.get("hipMemsetAsync")?,
        }
    };
    let (mut to, mut from) = (null_mut(), null_mut());
    // SAFETY: local out-parameters.
    unsafe {
        check((hip.malloc)(&raw mut to, BYTES))?;
        check((hip.malloc)(&raw mut from, BYTES))?;
    }

    let launch = || {
        // SAFETY: null mode uses no kernel, so any address will do.
        unsafe { (hip.launch_kernel)(main as *const c_void, ONE, ONE, null_mut(), 0, null_mut()) }
    };
    row("hipLaunchKernel", launch)?;
    row("hipModuleLaunchKernel", || {
        let (none, list) = (null_mut(), null_mut());
        // SAFETY: as above.
        unsafe { (hip.module_launch_kernel)(none, 1, 1, 1, 1, 1, 1, 0, none, list, list) }
    })?;
    row("hipMemcpyAsync", || {
        // SAFETY: both have `BYTES` bytes.
        unsafe { (hip.memcpy_async)(to, from, BYTES, DEVICE_TO_DEVICE, null_mut()) }
    })?;
    row("hipMemsetAsync", || {
        // SAFETY: it has `BYTES` bytes.
        unsafe { (hip.memset_async)(to, 0, BYTES, null_mut()) }
    })?;
    let together = repeated(ROUNDS, || time_together_ns(&launch))?;
    Row::single(BENCH, format!("hipLaunchKernel, {THREADS} threads"), "ns", &together).print()?;
    Ok(())
}

fn row(metric: &str, call: impl Fn() -> HipError) -> Result<(), Box<dyn Error>> {
    let times = repeated(ROUNDS, || time_ns(&call))?;
    Row::single(BENCH, metric, "ns", &times).with_goal(GOAL_NS).print()?;
    Ok(())
}

/// Time of one call, in a loop.
fn time_ns(call: &impl Fn() -> HipError) -> Result<f64, Box<dyn Error>> {
    let started = Instant::now();
    for _ in 0..CALLS {
        check(call())?;
    }
    Ok(started.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS))
}

/// Time of one call while other threads call too: the slowest thread's.
fn time_together_ns(call: &(impl Fn() -> HipError + Sync)) -> Result<f64, Box<dyn Error>> {
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let thread = || {
            start.wait();
            time_ns(call).map_err(|error| error.to_string())
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(thread)).collect();
        let times = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        times.collect::<Result<Vec<_>, _>>().map(|times| times.into_iter().fold(0.0, f64::max))
    })
    .map_err(Into::into)
}

fn check(error: HipError) -> Result<(), Box<dyn Error>> {
    if error == 0 { Ok(()) } else { Err(format!("a call returned {error}").into()) }
}
