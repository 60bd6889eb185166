//! HIPRTC, the compiler that ROCm has at run time: for processors of which the kit has no code object.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use super::functions::{open, symbol};
use super::trouble::{Trouble, check};

/// Its library since ROCm 5; before, the runtime had its functions.
const LIBRARIES: [&str; 5] =
    ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so", "libamdhip64.so.5"];

const SOURCE: &CStr = {
    match CStr::from_bytes_with_nul(concat!(include_str!("../../kernels/kernels.hip"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the text has a zero byte in it"),
    }
};

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Code = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// The kernels, for the processor of the current device: HIPRTC takes that one where no other is named.
pub(super) fn compile() -> Result<Vec<u8>, Trouble> {
    let mut last = None;
    let library = LIBRARIES.iter().find_map(|name| {
        let opened = open(Path::new(name));
        opened.map_err(|cause| last = Some(Trouble::NoLibrary { name: (*name).to_owned(), cause })).ok()
    });
    let Some(library) = library else { return Err(last.expect("there are names, and each was tried")) };
    // SAFETY: the signatures of HIPRTC's documentation; a terminated source, and local out-parameters.
    unsafe {
        let create: Create = symbol(&library, &["hiprtcCreateProgram"])?;
        let compile: Compile = symbol(&library, &["hiprtcCompileProgram"])?;
        let code_size: Size = symbol(&library, &["hiprtcGetCodeSize"])?;
        let get_code: Code = symbol(&library, &["hiprtcGetCode"])?;
        let mut program = ptr::null_mut();
        let source = SOURCE.as_ptr();
        check(
            "hiprtcCreateProgram",
            create(&raw mut program, source, c"kernels.hip".as_ptr(), 0, ptr::null(), ptr::null()),
        )?;
        check("hiprtcCompileProgram", compile(program, 0, ptr::null()))?;
        let mut size = 0;
        check("hiprtcGetCodeSize", code_size(program, &raw mut size))?;
        let mut code = vec![0_u8; size];
        check("hiprtcGetCode", get_code(program, code.as_mut_ptr().cast()))?;
        // The library stays loaded: the runtime may use it, too.
        std::mem::forget(library);
        Ok(code)
    }
}
