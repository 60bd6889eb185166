//! State that all programs of a process share: the module with the kernels, and memory that programs only
//! read.

use core::ffi::c_uint;
use core::ptr;
use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt as _;

use xsched_differential::program::DEVICES;
use xsched_differential::repertoire::Repertoire;

use crate::error::Error;
use crate::hip::{self, Handle};
use crate::newer;

/// Gates that a program can have.
pub(crate) const GATES: usize = 32;
/// Size of a device allocation without another one behind it.
pub(crate) const SCRATCH_BYTES: usize = 256;

/// The shared state.
pub(crate) struct Process {
    pub(crate) repertoire: Repertoire,
    /// By their origin, see [`Source`], and the kernels' numbers.
    pub(crate) functions: [[Handle; KERNELS.len()]; 3],
    pub(crate) module: Handle,
    /// A word per gate, for streams that wait for values.
    pub(crate) words: Handle,
    /// For mistakes.
    pub(crate) scratch: Handle,
    /// Managed memory, for mistakes as well.
    pub(crate) managed: Handle,
    /// One for each device, in addition to its default pool.
    pub(crate) pools: [Handle; DEVICES],
}

/// The origin of a launched function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `hipModuleGetFunction`
    Module = 0,
    /// `hipGetFuncBySymbol`, if the runtime has it.
    Symbol = 1,
    /// `hipLibraryGetKernel`, if the runtime has it.
    Library = 2,
}

// SAFETY: its addresses are HIP's, which any thread may use.
unsafe impl Sync for Process {}

/// The names that clang generates.
pub(crate) const KERNELS: [&core::ffi::CStr; 4] = [c"diff_mix", c"diff_wide", c"diff_many", c"diff_nothing"];

impl Process {
    pub(crate) fn start(repertoire: Repertoire) -> Result<Self, Error> {
        // The linker puts programs, module and twins into one folder.
        let path = env::current_exe()?.with_file_name("differential.co");
        let path = CString::new(path.into_os_string().into_vec())?;
        let [mut module, mut words, mut scratch, mut managed] = [ptr::null_mut(); 4];
        let mut functions = [ptr::null_mut(); KERNELS.len()];
        let mut pools = [ptr::null_mut(); DEVICES];
        let mut devices = 0;
        // SAFETY: local out-parameters and terminated strings.
        unsafe {
            check("hipGetDeviceCount", hip::hipGetDeviceCount(&raw mut devices))?;
            if devices as usize != repertoire.devices() {
                let wanted = repertoire.devices();
                return Err(format!("there are {devices} devices, not {wanted}: set HIP_SIM_DEVICES").into());
            }
            check("hipModuleLoad", hip::hipModuleLoad(&raw mut module, path.as_ptr()))?;
            for (function, name) in functions.iter_mut().zip(KERNELS) {
                check("hipModuleGetFunction", hip::hipModuleGetFunction(function, module, name.as_ptr()))?;
            }
            check("hipHostMalloc", hip::hipHostMalloc(&raw mut words, GATES * size_of::<u64>(), 0))?;
            check("hipMalloc", hip::hipMalloc(&raw mut scratch, SCRATCH_BYTES))?;
            if repertoire == Repertoire::All {
                check(
                    "hipMallocManaged",
                    hip::hipMallocManaged(&raw mut managed, SCRATCH_BYTES, hip::ATTACH_GLOBAL),
                )?;
                make_pools(&mut pools)?;
            }
        }
        let functions = [functions, newer::of_symbols(functions)?, newer::of_library(&path, functions)?];
        Ok(Self { repertoire, functions, module, words, scratch, managed, pools })
    }

    /// The function to launch.
    pub(crate) fn function(&self, source: Source, kernel: c_uint) -> Handle {
        self.functions[source as usize][kernel as usize]
    }
}

/// A pool for each device.
fn make_pools(pools: &mut [Handle]) -> Result<(), Error> {
    for (device, pool) in pools.iter_mut().enumerate() {
        let (pinned, on_device) = (1, 1);
        let location = [on_device, device as c_uint];
        let props = hip::PoolProps { allocation: pinned, handles: 0, location, rest: [0; 9] };
        // SAFETY: an out-parameter and a structure that live until the call returns.
        check("hipMemPoolCreate", unsafe { hip::hipMemPoolCreate(pool, &raw const props) })?;
    }
    Ok(())
}

pub(crate) fn check(name: &str, code: hip::Code) -> Result<(), Error> {
    if code == hip::SUCCESS { Ok(()) } else { Err(format!("{name} returned {code}").into()) }
}
