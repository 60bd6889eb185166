//! Launches of kernels and host functions.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::context::enter;
use crate::export::{exports, or_per_thread};
use crate::hip;
use crate::module::function_of;
use crate::result::{CUresult, Handle, INVALID_HANDLE, INVALID_VALUE, of_hip};

type HostFunction = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// `CUlaunchConfig`
#[repr(C)]
pub(crate) struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    attributes: *const Attribute,
    count: u32,
}

/// `CUlaunchAttribute`: its number, and a union of 64 bytes.
#[repr(C)]
struct Attribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

const _: () = assert!(size_of::<Config>() == 56 && size_of::<Attribute>() == 72);

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`
const COOPERATIVE: u32 = 2;

/// CUDA's array of `extra` in HIP's form, which ends with another tag.
///
/// # Safety
///
/// `extra` is null, or an array as `cuLaunchKernel` requires.
unsafe fn hip_extra(extra: *mut *mut c_void) -> Option<[*mut c_void; 5]> {
    if extra.is_null() {
        return None;
    }
    let (mut buffer, mut size, mut at) = (ptr::null_mut(), ptr::null_mut(), extra);
    // SAFETY: the array ends with a null, and each tag before it is followed by its value.
    unsafe {
        while !(*at).is_null() {
            match *at as usize {
                1 => buffer = *at.add(1),
                _ => size = *at.add(1),
            }
            at = at.add(2);
        }
    }
    let tag = ptr::without_provenance_mut;
    Some([tag(1), buffer, tag(2), size, tag(3)])
}

/// `CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES`
const OUT_OF_RESOURCES: CUresult = 701;

/// So many of the next launches of kernels are refused.
static REFUSALS: AtomicU32 = AtomicU32::new(0);

/// Refuses so many of the next launches of kernels, as a driver does that runs out of something.
///
/// C: `void cuda_sim_refuse_launches(unsigned count)`.
#[unsafe(no_mangle)]
extern "C" fn cuda_sim_refuse_launches(count: u32) {
    REFUSALS.store(count, Ordering::SeqCst);
}

fn check_not_refused() -> Result<(), CUresult> {
    let left = |count: u32| count.checked_sub(1);
    match REFUSALS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left) {
        Ok(_) => Err(OUT_OF_RESOURCES),
        Err(_) => Ok(()),
    }
}

/// # Safety
///
/// The contract of `cuLaunchKernel`.
unsafe fn launch(
    function: Handle,
    [grid, block]: [[u32; 3]; 2],
    shared: u32,
    stream: Handle,
    (parameters, extra): (*mut *mut c_void, *mut *mut c_void),
    is_cooperative: bool,
) -> Result<(), CUresult> {
    enter()?;
    check_not_refused()?;
    let function = function_of(function).ok_or(INVALID_HANDLE)?;
    let [[gx, gy, gz], [bx, by, bz]] = [grid, block];
    // SAFETY: the caller upholds this function's contract.
    unsafe {
        if is_cooperative {
            return of_hip(hip::hipModuleLaunchCooperativeKernel(
                function, gx, gy, gz, bx, by, bz, shared, stream, parameters,
            ));
        }
        let mut hip_extra = hip_extra(extra);
        let extra = hip_extra.as_mut().map_or(ptr::null_mut(), |array| array.as_mut_ptr());
        of_hip(hip::hipModuleLaunchKernel(
            function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra,
        ))
    }
}

/// # Safety
///
/// The contract of `cuLaunchKernelEx`.
unsafe fn launch_configured(
    config: *const Config,
    function: Handle,
    passed: (*mut *mut c_void, *mut *mut c_void),
    stream: impl FnOnce(Handle) -> Handle,
) -> Result<(), CUresult> {
    // SAFETY: the caller passes null or a valid configuration, whose array has that many elements.
    let config = unsafe { config.as_ref() }.ok_or(INVALID_VALUE)?;
    let count = if config.attributes.is_null() { 0 } else { config.count as usize };
    // SAFETY: as above.
    let mut attributes = (0..count).map(|index| unsafe { &*config.attributes.add(index) });
    let is_cooperative = attributes.any(|a| a.id == COOPERATIVE && a.value[0] != 0);
    // SAFETY: the caller upholds this function's contract.
    unsafe {
        launch(
            function,
            [config.grid, config.block],
            config.shared,
            stream(config.stream),
            passed,
            is_cooperative,
        )
    }
}

exports! {
    @4000 [stream: cuLaunchKernel_ptsz] cuLaunchKernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let extents = [[grid_x, grid_y, grid_z], [block_x, block_y, block_z]];
        launch(function, extents, shared, stream, (parameters, extra), false)
    }
    @9000 [stream: cuLaunchCooperativeKernel_ptsz] cuLaunchCooperativeKernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: Handle, parameters: *mut *mut c_void,
    ) {
        let extents = [[grid_x, grid_y, grid_z], [block_x, block_y, block_z]];
        launch(function, extents, shared, stream, (parameters, ptr::null_mut()), true)
    }
    @11060 cuLaunchKernelEx(
        config: *const Config, function: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        launch_configured(config, function, (parameters, extra), |stream| stream)
    }
    @11060 cuLaunchKernelEx_ptsz(
        config: *const Config, function: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        launch_configured(config, function, (parameters, extra), or_per_thread)
    }
    @10000 [stream: cuLaunchHostFunc_ptsz] cuLaunchHostFunc(stream: Handle, function: HostFunction, user: *mut c_void) {
        enter()?;
        of_hip(hip::hipLaunchHostFunc(stream, function, user))
    }
}
