//! Work that the shim puts on streams in the program's place.

use std::ffi::c_void;
use std::ptr;

use super::{Code, INVALID_VALUE, NOT_FOUND, SUCCESS, given, handle, library};
use crate::api::{DeviceCopy, Element, Fill, Handle, LaunchAttribute, LaunchConfig, Shape};

/// Where a parameter lies among all parameters of its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// More parameters than a kernel has.
const PARAMETERS_MAX: usize = 4096;

/// The parameters of a function, or of a library's kernel; None if the driver does not tell, as before CUDA 12.4.
pub(crate) fn parameters_of(function: usize) -> Option<Vec<Parameter>> {
    let function = handle(function);
    let name = given(ptr::null(), |out| ask!(cuFuncGetName(out: *mut *const i8, function: Handle)));
    let ask = |index: usize, offset: *mut usize, size: *mut usize| {
        if name.is_some() {
            ask!(cuFuncGetParamInfo(function: Handle, index: usize, offset: *mut usize, size: *mut usize))
        } else {
            ask!(cuKernelGetParamInfo(function: Handle, index: usize, offset: *mut usize, size: *mut usize))
        }
    };
    let mut parameters = Vec::new();
    for index in 0..PARAMETERS_MAX {
        let (mut offset, mut size) = (0, 0);
        match ask(index, &raw mut offset, &raw mut size) {
            SUCCESS => parameters.push(Parameter { offset, size }),
            // There are no more.
            INVALID_VALUE => return Some(parameters),
            _ => return None,
        }
    }
    None
}

/// Launches a kernel on a stream of the current context. The parameters are valid.
pub(crate) fn launch(
    function: usize,
    shape: Shape,
    stream: usize,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    let (function, stream) = (handle(function), handle(stream));
    let Shape { grid: [blocks_x, blocks_y, blocks_z], block: [width, height, depth], shared } = shape;
    ask!(cuLaunchKernel(function: Handle, blocks_x: u32, blocks_y: u32, blocks_z: u32, width: u32, height: u32,
        depth: u32, shared: u32, stream: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void))
}

/// The same for one whose blocks wait for each other.
pub(crate) fn launch_cooperative(
    function: usize,
    shape: Shape,
    stream: usize,
    parameters: *mut *mut c_void,
) -> Code {
    let (function, stream) = (handle(function), handle(stream));
    let Shape { grid: [blocks_x, blocks_y, blocks_z], block: [width, height, depth], shared } = shape;
    ask!(cuLaunchCooperativeKernel(function: Handle, blocks_x: u32, blocks_y: u32, blocks_z: u32, width: u32,
        height: u32, depth: u32, shared: u32, stream: Handle, parameters: *mut *mut c_void))
}

/// The same with attributes.
pub(crate) fn launch_configured(
    function: usize,
    shape: Shape,
    stream: usize,
    attributes: &[LaunchAttribute],
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    let Shape { grid, block, shared } = shape;
    let config = LaunchConfig {
        grid,
        block,
        shared,
        stream: handle(stream),
        attributes: attributes.as_ptr(),
        count: attributes.len() as u32,
    };
    let (function, config) = (handle(function), &raw const config);
    ask!(cuLaunchKernelEx(config: *const LaunchConfig, function: Handle, parameters: *mut *mut c_void,
        extra: *mut *mut c_void))
}

/// Launches an executable graph on a stream of the current context.
pub(crate) fn launch_graph(executable: usize, stream: usize) -> Code {
    let (executable, stream) = (handle(executable), handle(stream));
    ask!(cuGraphLaunch(executable: Handle, stream: Handle))
}

/// Fills memory, on a stream of the current context.
pub(crate) fn fill(fill: Fill, stream: usize) -> Code {
    let (Fill { to, element, width, rows }, stream) = (fill, handle(stream));
    match (element, rows) {
        (Element::Byte(value), None) => {
            ask!(cuMemsetD8Async(to: u64, value: u8, width: usize, stream: Handle))
        }
        (Element::Half(value), None) => {
            ask!(cuMemsetD16Async(to: u64, value: u16, width: usize, stream: Handle))
        }
        (Element::Word(value), None) => {
            ask!(cuMemsetD32Async(to: u64, value: u32, width: usize, stream: Handle))
        }
        (Element::Byte(value), Some((pitch, rows))) => {
            ask!(cuMemsetD2D8Async(to: u64, pitch: usize, value: u8, width: usize, rows: usize, stream: Handle))
        }
        (Element::Half(value), Some((pitch, rows))) => {
            ask!(cuMemsetD2D16Async(to: u64, pitch: usize, value: u16, width: usize, rows: usize, stream: Handle))
        }
        (Element::Word(value), Some((pitch, rows))) => {
            ask!(cuMemsetD2D32Async(to: u64, pitch: usize, value: u32, width: usize, rows: usize, stream: Handle))
        }
    }
}

/// Copies within devices, on a stream of the current context.
pub(crate) fn copy(copy: DeviceCopy, stream: usize) -> Code {
    let (DeviceCopy { to, from, size }, stream) = (copy, handle(stream));
    ask!(cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: Handle))
}
