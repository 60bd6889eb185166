//! Launches: all of HIP's launch functions, and the single path that runs a kernel.

use core::ffi::{c_char, c_void};
use core::ptr;
use std::sync::Arc;

use crate::abi::{dim3, hipError_t, hipEvent_t, hipFunction_t, hipLaunchConfig_t, hipStream_t};
use crate::boundary::{self, write};
use crate::engine::{Command, clock};
use crate::error::HipError;
use crate::kernel::{Kernel, Passed};
use crate::operation::Operation;
use crate::properties::{self, MAX_THREADS_PER_BLOCK};
use crate::stream::Stream;
use crate::{capture, config, counters, event, fat_binary, kernel, stream};

mod checks;
mod configuration;
mod dispatch;
mod geometry;
mod legacy;
mod repeatable;

use checks::{Residency, check};
pub(crate) use configuration::{pop_call_configuration, push_call_configuration};
use geometry::Geometry;
pub(crate) use legacy::{
    by_driver_config, by_pointer, configure_call, cooperative_functions_on_devices, cooperative_on_devices,
    on_devices, setup_argument,
};
pub(crate) use repeatable::Launch;

/// Events that a launch records; null for none.
struct Events {
    start: hipEvent_t,
    stop: hipEvent_t,
}

const NO_EVENTS: Events = Events { start: ptr::null_mut(), stop: ptr::null_mut() };

/// Checks and submits one kernel.
///
/// # Safety
///
/// `passed` is as HIP's launch functions require.
unsafe fn submit(
    kernel: &Arc<Kernel>,
    geometry: &Geometry,
    passed: Passed,
    stream: &Stream,
    events: &Events,
    residency: Residency,
) -> Result<(), HipError> {
    let launched_ns = clock::now_ns();
    let (start, stop) = (event::resolve_optional(events.start)?, event::resolve_optional(events.stop)?);
    check(kernel, geometry, passed, residency)?;
    // SAFETY: the caller upholds this function's contract.
    let launch = unsafe { Launch::new(kernel, geometry, passed) }?;
    if stream.is_captured()? {
        let start = start.map(Operation::Record);
        let stop = stop.map(Operation::Record);
        let nodes = start.into_iter().chain([Operation::Kernel(Arc::new(launch))]).chain(stop);
        return nodes.into_iter().try_for_each(|node| capture::add(stream, node));
    }
    if let Some(start) = start {
        start.bind_to_launch(stream.submit(Command::marker()));
    }
    let completion = stream.submit(launch.command(stream.device()));
    spin_for_launch_cost(launched_ns);
    if let Some(stop) = stop {
        stop.bind_to_launch(completion);
    }
    Ok(())
}

/// Keeps the caller busy, as the genuine runtime does, until the launch has taken the configured time.
fn spin_for_launch_cost(launched_ns: u64) {
    let until_ns = launched_ns + config::get().launch_cost.as_nanos() as u64;
    while clock::now_ns() < until_ns {
        core::hint::spin_loop();
    }
}

/// In null mode a launch looks up, checks and does nothing.
fn is_null_mode() -> bool {
    let is_null_mode = config::get().null;
    if is_null_mode {
        counters::launched_in_null_mode();
    }
    is_null_mode
}

/// Launches the kernel that is registered for a host address.
///
/// # Safety
///
/// `arguments` is an array with the address of each argument.
unsafe fn launch_host_function(
    host: *const c_void,
    (grid, block, lds_size): (dim3, dim3, usize),
    arguments: *mut *mut c_void,
    stream: hipStream_t,
    events: &Events,
    residency: Residency,
) -> Result<(), HipError> {
    if is_null_mode() {
        return Ok(());
    }
    let stream = stream::resolve(stream).ok_or(HipError::InvalidValue)?;
    let kernel = fat_binary::registered().kernel(host)?;
    let geometry = Geometry::of_blocks(grid, block, lds_size)?;
    // SAFETY: the caller upholds this function's contract.
    unsafe { submit(&kernel, &geometry, Passed::Pointers(arguments), &stream, events, residency) }
}

/// Launches a function of a module.
///
/// # Safety
///
/// `pointers` and `extra` are as HIP's module launches require.
unsafe fn launch_function(
    function: hipFunction_t,
    geometry: impl FnOnce() -> Result<Geometry, HipError>,
    (pointers, extra): (*mut *mut c_void, *mut *mut c_void),
    stream: hipStream_t,
    events: &Events,
    residency: Residency,
) -> Result<(), HipError> {
    if is_null_mode() {
        return Ok(());
    }
    let stream = stream::resolve(stream).ok_or(HipError::InvalidValue)?;
    let geometry = geometry()?;
    let kernel = kernel::listed().get(function).ok_or(HipError::InvalidHandle)?;
    let passed = Passed::from_module_launch(&kernel, pointers, extra)?;
    // SAFETY: the caller upholds this function's contract.
    unsafe { submit(&kernel, &geometry, passed, &stream, events, residency) }
}

/// `hipLaunchKernel`
pub(crate) unsafe extern "C" fn kernel(
    host: *const c_void,
    grid: dim3,
    block: dim3,
    arguments: *mut *mut c_void,
    lds_size: usize,
    stream: hipStream_t,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe {
        launch_host_function(host, (grid, block, lds_size), arguments, stream, &NO_EVENTS, Residency::Any)
    })
}

/// `hipLaunchKernel_spt`
pub(crate) unsafe extern "C" fn kernel_spt(
    host: *const c_void,
    grid: dim3,
    block: dim3,
    arguments: *mut *mut c_void,
    lds_size: usize,
    stream: hipStream_t,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { kernel(host, grid, block, arguments, lds_size, stream::or_per_thread(stream)) }
}

/// `hipExtLaunchKernel`
pub(crate) unsafe extern "C" fn kernel_with_events(
    host: *const c_void,
    grid: dim3,
    block: dim3,
    arguments: *mut *mut c_void,
    lds_size: usize,
    stream: hipStream_t,
    start: hipEvent_t,
    stop: hipEvent_t,
    _flags: i32,
) -> hipError_t {
    let events = Events { start, stop };
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe {
        launch_host_function(host, (grid, block, lds_size), arguments, stream, &events, Residency::Any)
    })
}

/// `hipLaunchKernelExC`
pub(crate) unsafe extern "C" fn kernel_by_config(
    config: *const hipLaunchConfig_t,
    host: *const c_void,
    arguments: *mut *mut c_void,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes null or a valid configuration.
        let config = unsafe { config.as_ref() }.ok_or(HipError::InvalidConfiguration)?;
        let (grid, block, lds_size) = (config.gridDim, config.blockDim, config.dynamicSmemBytes);
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            launch_host_function(
                host,
                (grid, block, lds_size),
                arguments,
                config.stream,
                &NO_EVENTS,
                Residency::from_attributes(config.attrs, config.numAttrs)?,
            )
        }
    })
}

/// `hipLaunchCooperativeKernel`: its errors for a bad stream, function or size differ from
/// `hipLaunchKernel`'s.
pub(crate) unsafe extern "C" fn cooperative(
    host: *const c_void,
    grid: dim3,
    block: dim3,
    arguments: *mut *mut c_void,
    lds_size: u32,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| {
        if is_null_mode() {
            return Ok(());
        }
        let stream = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        let kernel = fat_binary::registered().kernel(host)?;
        let geometry = Geometry::of_blocks(grid, block, lds_size as usize)?;
        if geometry.threads_per_block() > u64::from(MAX_THREADS_PER_BLOCK) {
            return Err(HipError::InvalidConfiguration);
        }
        if geometry.lds_size > properties::lds_size() {
            return Err(HipError::CooperativeLaunchTooLarge);
        }
        let passed = Passed::Pointers(arguments);
        // SAFETY: the caller upholds this function's contract.
        unsafe { submit(&kernel, &geometry, passed, &stream, &NO_EVENTS, Residency::Cooperative) }
    })
}

/// `hipLaunchCooperativeKernel_spt`
pub(crate) unsafe extern "C" fn cooperative_spt(
    host: *const c_void,
    grid: dim3,
    block: dim3,
    arguments: *mut *mut c_void,
    lds_size: u32,
    stream: hipStream_t,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { cooperative(host, grid, block, arguments, lds_size, stream::or_per_thread(stream)) }
}

/// `hipModuleLaunchKernel`: the grid's size is in blocks.
pub(crate) unsafe extern "C" fn function(
    function: hipFunction_t,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    lds_size: u32,
    stream: hipStream_t,
    pointers: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> hipError_t {
    let grid = dim3 { x: grid_x, y: grid_y, z: grid_z };
    let block = dim3 { x: block_x, y: block_y, z: block_z };
    let geometry = || Geometry::of_module_launch(grid, block, lds_size as usize);
    let passed = (pointers, extra);
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe {
        launch_function(function, geometry, passed, stream, &NO_EVENTS, Residency::Any)
    })
}

/// `hipModuleLaunchCooperativeKernel`
pub(crate) unsafe extern "C" fn cooperative_function(
    function: hipFunction_t,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    lds_size: u32,
    stream: hipStream_t,
    pointers: *mut *mut c_void,
) -> hipError_t {
    let grid = dim3 { x: grid_x, y: grid_y, z: grid_z };
    let block = dim3 { x: block_x, y: block_y, z: block_z };
    let geometry = || Geometry::of_blocks(grid, block, lds_size as usize);
    let passed = (pointers, ptr::null_mut());
    boundary::call(|| {
        // SAFETY: the caller upholds this function's contract.
        unsafe { launch_function(function, geometry, passed, stream, &NO_EVENTS, Residency::Cooperative) }
    })
}

/// `hipExtModuleLaunchKernel`: the grid's size is in threads.
pub(crate) unsafe extern "C" fn function_with_events(
    function: hipFunction_t,
    global_x: u32,
    global_y: u32,
    global_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    lds_size: usize,
    stream: hipStream_t,
    pointers: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: hipEvent_t,
    stop: hipEvent_t,
    _flags: u32,
) -> hipError_t {
    let global = dim3 { x: global_x, y: global_y, z: global_z };
    let block = dim3 { x: block_x, y: block_y, z: block_z };
    let geometry = || Ok(Geometry::of_threads(global, block, lds_size));
    let (passed, events) = ((pointers, extra), Events { start, stop });
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { launch_function(function, geometry, passed, stream, &events, Residency::Any) })
}

/// `hipHccModuleLaunchKernel`: the old name of the same function, without flags.
pub(crate) unsafe extern "C" fn function_with_events_hcc(
    function: hipFunction_t,
    global_x: u32,
    global_y: u32,
    global_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    lds_size: usize,
    stream: hipStream_t,
    pointers: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: hipEvent_t,
    stop: hipEvent_t,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe {
        function_with_events(
            function, global_x, global_y, global_z, block_x, block_y, block_z, lds_size, stream, pointers,
            extra, start, stop, 0,
        )
    }
}

/// `hipGetFuncBySymbol`
pub(crate) unsafe extern "C" fn function_of_symbol(
    function: *mut hipFunction_t,
    host: *const c_void,
) -> hipError_t {
    boundary::call(|| {
        let kernel = fat_binary::registered().kernel(host).map_err(|_| HipError::InvalidDeviceFunction)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(function, kernel::listed().insert(&kernel)) }
    })
}

/// `hipKernelNameRef`: null for an invalid function. Valid as long as the function.
pub(crate) unsafe extern "C" fn function_name(function: hipFunction_t) -> *const c_char {
    boundary::value(ptr::null(), || {
        kernel::listed().get(function).map_or(ptr::null(), |kernel| kernel.name.as_ptr())
    })
}

/// `hipKernelNameRefByPtr`: null for an unknown kernel. Valid as long as the kernel is registered.
pub(crate) unsafe extern "C" fn function_name_by_symbol(
    host: *const c_void,
    _stream: hipStream_t,
) -> *const c_char {
    boundary::value(ptr::null(), || {
        fat_binary::registered().kernel(host).map_or(ptr::null(), |kernel| kernel.name.as_ptr())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Argument, Resources};
    use crate::twin::Twin;

    fn cube(x: u32, y: u32, z: u32) -> dim3 {
        dim3 { x, y, z }
    }

    fn bounded_kernel() -> Kernel {
        Kernel {
            name: c"bounded".to_owned(),
            arguments: vec![Argument { offset: 0, size: 8 }],
            max_threads_per_block: 256,
            lds_size: 1024,
            resources: Resources::default(),
            twin: Twin::default(),
        }
    }

    fn checked(grid: dim3, block: dim3, lds_size: usize, residency: Residency) -> Result<(), HipError> {
        let mut list = [ptr::null_mut()];
        let geometry = Geometry::of_blocks(grid, block, lds_size)?;
        check(&bounded_kernel(), &geometry, Passed::Pointers(list.as_mut_ptr()), residency)
    }

    #[test]
    fn a_launch_is_checked_as_the_genuine_runtime_does() {
        let one = cube(1, 1, 1);
        let any = |grid, block, lds_size| checked(grid, block, lds_size, Residency::Any);
        assert_eq!(any(one, cube(256, 1, 1), 0), Ok(()));
        assert_eq!(any(one, cube(1025, 1, 1), 0), Err(HipError::InvalidValue));
        assert_eq!(any(one, cube(512, 1, 1), 0), Err(HipError::LaunchFailure));
        assert_eq!(any(one, one, properties::lds_size()), Err(HipError::InvalidValue));
        assert_eq!(any(cube(1 << 30, 1, 1), cube(8, 1, 1), 0), Err(HipError::InvalidConfiguration));
    }

    #[test]
    fn a_cooperative_grid_must_fit_at_once() {
        let fits = |blocks| checked(cube(blocks, 1, 1), cube(256, 1, 1), 0, Residency::Cooperative);
        assert_eq!(fits(8 * 304), Ok(()));
        assert_eq!(fits(8 * 304 + 1), Err(HipError::CooperativeLaunchTooLarge));
    }

    #[test]
    fn a_kernel_with_arguments_needs_them_passed() {
        let geometry = Geometry::of_blocks(cube(1, 1, 1), cube(1, 1, 1), 0).unwrap();
        let passed = Passed::Pointers(ptr::null_mut());
        assert_eq!(check(&bounded_kernel(), &geometry, passed, Residency::Any), Err(HipError::InvalidValue));
    }

    #[test]
    fn an_unregistered_kernel_is_error_98() {
        let bogus = ptr::without_provenance(0x1234);
        // SAFETY: the address is looked up, not dereferenced.
        let code =
            unsafe { kernel(bogus, cube(1, 1, 1), cube(1, 1, 1), ptr::null_mut(), 0, ptr::null_mut()) };
        assert_eq!(code, 98);
    }
}
