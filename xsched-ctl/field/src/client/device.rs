//! A device with a stream and the client's kernels on it.

use core::ffi::{CStr, c_int, c_void};
use std::ffi::CString;
use std::io::Read as _;
use std::path::Path;
use std::ptr;

use super::functions::{Address, Handle, Interface, Runtime, StreamWait};
use super::hiprtc;
use super::trouble::{Trouble, check};

/// For CUDA's driver, which compiles it.
const PTX: &CStr = {
    match CStr::from_bytes_with_nul(concat!(include_str!("../../kernels/kernels.ptx"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the text has a zero byte in it"),
    }
};
/// For HIP: a bundle of code objects.
const BUNDLE: &[u8] = include_bytes!("../../kernels/kernels.hipfb.gz");

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT` and `hipDeviceAttributeMultiprocessorCount`.
const UNITS_OF_CUDA: u32 = 16;
const UNITS_OF_HIP: u32 = 63;
/// Streams that do not wait for the null stream, in both.
const NON_BLOCKING: u32 = 1;
/// Events without times, in both; `BLOCKING` lets a thread sleep that waits for one.
const DISABLE_TIMING: u32 = 2;
const BLOCKING: u32 = 1;
/// `hipMallocSignalMemory`
const SIGNAL_MEMORY: u32 = 2;

/// Where the code of the kernels came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Ptx,
    Bundle,
    Hiprtc,
}

impl Origin {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ptx => "PTX, compiled by the driver",
            Self::Bundle => "code objects of the kit",
            Self::Hiprtc => "compiled by HIPRTC on this node",
        }
    }
}

/// Device 0, one stream on it, and the kernels.
pub(super) struct Device {
    pub(super) runtime: Runtime,
    pub(super) origin: Origin,
    pub(super) stream: Handle,
    /// Compute units, or multiprocessors.
    pub(super) units: u32,
    nothing: Handle,
    step: Handle,
    burn: Handle,
    /// A word on the device.
    pub(super) word: Address,
}

impl Device {
    /// The device of a runtime: of the named library or interface, otherwise of the first that has one. Machines have libraries of
    /// runtimes without a device for them.
    pub(super) fn open(library: Option<&Path>, interface: Option<Interface>) -> Result<Self, Trouble> {
        let of = |interface| {
            let runtime = Runtime::load(interface, library)?;
            make_current(&runtime)?;
            Ok::<_, Trouble>(runtime)
        };
        let runtime = match interface.or(library.map(Interface::of_file)) {
            Some(interface) => of(interface)?,
            None => of(Interface::Hip).or_else(|hip| {
                of(Interface::Cuda)
                    .map_err(|cuda| Trouble::NoRuntime { hip: Box::new(hip), cuda: Box::new(cuda) })
            })?,
        };
        let (module, origin) = load_kernels(&runtime)?;
        let functions = &runtime.functions;
        let function = |name: &CStr| {
            let mut found = ptr::null_mut();
            // SAFETY: a local out-parameter, a loaded module, and a terminated name.
            check("ModuleGetFunction", unsafe {
                (functions.module_function)(&raw mut found, module, name.as_ptr())
            })?;
            Ok::<_, Trouble>(found)
        };
        let (nothing, step, burn) =
            (function(c"field_nothing")?, function(c"field_step")?, function(c"field_burn")?);
        let (mut stream, mut units, mut word) = (ptr::null_mut(), 0, 0);
        let attribute = match functions.interface {
            Interface::Hip => UNITS_OF_HIP,
            Interface::Cuda => UNITS_OF_CUDA,
        };
        // SAFETY: local out-parameters, and device 0, of which `make_current` knows.
        unsafe {
            check("StreamCreate", (functions.stream_create)(&raw mut stream, NON_BLOCKING))?;
            check("DeviceGetAttribute", (functions.device_attribute)(&raw mut units, attribute, 0))?;
            check("MemAlloc", (functions.allocate)(&raw mut word, 4096))?;
            check("MemsetD32", (functions.fill_words)(word, 1, 1024))?;
        }
        Ok(Self {
            runtime,
            origin,
            stream,
            units: u32::try_from(units).unwrap_or(1).max(1),
            nothing,
            step,
            burn,
            word,
        })
    }

    fn launch(
        &self,
        function: Handle,
        blocks: u32,
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), Trouble> {
        // SAFETY: the function is of a loaded module, the arguments are those of its kernel, and both live until the call returns.
        let code = unsafe {
            (self.runtime.functions.launch)(
                function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                self.stream,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("LaunchKernel", code)
    }

    /// An empty kernel of one block.
    pub(super) fn launch_nothing(&self) -> Result<(), Trouble> {
        self.launch(self.nothing, 1, 32, &mut [ptr::null_mut()])
    }

    /// One step of the word.
    pub(super) fn launch_step(&self, mut value: u32) -> Result<(), Trouble> {
        let mut word = self.word;
        self.launch(self.step, 1, 1, &mut [(&raw mut word).cast(), (&raw mut value).cast()])
    }

    /// A kernel of this length.
    pub(super) fn launch_burn(&self, shape: Shape, mut count: u32) -> Result<(), Trouble> {
        let mut word = self.word + 64;
        let (blocks, threads) = shape.extent(self.units);
        self.launch(self.burn, blocks, threads, &mut [(&raw mut count).cast(), (&raw mut word).cast()])
    }

    pub(super) fn synchronize(&self) -> Result<(), Trouble> {
        // SAFETY: the stream was created in `open` and is never destroyed.
        check("StreamSynchronize", unsafe { (self.runtime.functions.stream_synchronize)(self.stream) })
    }

    /// The word that steps change.
    pub(super) fn read_word(&self) -> Result<u32, Trouble> {
        let mut found = 0_u32;
        // SAFETY: the allocation is larger than a word.
        let code = unsafe {
            (self.runtime.functions.copy_to_host)((&raw mut found).cast(), self.word, size_of::<u32>())
        };
        check("MemcpyDtoH", code)?;
        Ok(found)
    }

    /// An event on which a thread can sleep.
    pub(super) fn event(&self) -> Result<Handle, Trouble> {
        let mut event = ptr::null_mut();
        // SAFETY: a local out-parameter.
        check("EventCreate", unsafe {
            (self.runtime.functions.event_create)(&raw mut event, DISABLE_TIMING | BLOCKING)
        })?;
        Ok(event)
    }

    pub(super) fn record(&self, event: Handle) -> Result<(), Trouble> {
        // SAFETY: event and stream were created here and are never destroyed.
        check("EventRecord", unsafe { (self.runtime.functions.event_record)(event, self.stream) })
    }

    pub(super) fn wait_for(&self, event: Handle) -> Result<(), Trouble> {
        // SAFETY: as above.
        check("EventSynchronize", unsafe { (self.runtime.functions.event_synchronize)(event) })
    }

    /// Floating-point numbers on the device, all of this value.
    pub(super) fn numbers(&self, count: usize, value: f32) -> Result<Address, Trouble> {
        let mut address = 0;
        // SAFETY: a local out-parameter, and an allocation of that many words.
        unsafe {
            check("MemAlloc", (self.runtime.functions.allocate)(&raw mut address, count.max(1) * 4))?;
            check("MemsetD32", (self.runtime.functions.fill_words)(address, value.to_bits(), count))?;
        }
        Ok(address)
    }

    /// As many numbers from the device.
    pub(super) fn read_numbers(&self, address: Address, count: usize) -> Result<Vec<f32>, Trouble> {
        let mut numbers = vec![0_f32; count];
        // SAFETY: the caller passes what `numbers` has allocated, and the vector is as long.
        let code =
            unsafe { (self.runtime.functions.copy_to_host)(numbers.as_mut_ptr().cast(), address, count * 4) };
        check("MemcpyDtoH", code)?;
        Ok(numbers)
    }

    /// A gate that stays open.
    pub(super) fn gate(&self) -> Result<Gate<'_>, Trouble> {
        let wait = self.runtime.stream_wait()?;
        let mut word: *mut c_void = ptr::null_mut();
        // SAFETY: the signatures of both functions, in HIP's and CUDA's documentation; a local out-parameter.
        unsafe {
            match wait {
                StreamWait::Hip(_) => {
                    type Allocate = unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> c_int;
                    let allocate: Allocate = self.runtime.optional(&["hipExtMallocWithFlags"])?;
                    check("ExtMallocWithFlags", allocate(&raw mut word, 8, SIGNAL_MEMORY))?;
                }
                StreamWait::Cuda(_) => {
                    type Allocate = unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int;
                    let allocate: Allocate = self.runtime.optional(&["cuMemAllocHost_v2"])?;
                    check("MemAllocHost", allocate(&raw mut word, 4096))?;
                }
            }
            // Signal memory and pinned memory can be written by the host.
            word.cast::<u32>().write_volatile(1);
        }
        Ok(Gate { device: self, wait, word })
    }
}

/// A word for which the stream waits.
pub(super) struct Gate<'a> {
    device: &'a Device,
    wait: StreamWait,
    word: *mut c_void,
}

impl Gate<'_> {
    /// The stream goes on if the word is at least 1, which it is.
    pub(super) fn pass(&self) -> Result<(), Trouble> {
        const AT_LEAST: u32 = 0;
        // SAFETY: the word is never freed; pinned memory has the same address on the device (unified addressing).
        let code = unsafe {
            match self.wait {
                StreamWait::Hip(wait) => wait(self.device.stream, self.word, 1, AT_LEAST, u32::MAX),
                StreamWait::Cuda(wait) => wait(self.device.stream, self.word as Address, 1, AT_LEAST),
            }
        };
        check("StreamWaitValue32", code)
    }
}

/// How much of the device a kernel fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// All of it, as a batch job's.
    Filling,
    /// One small block on each unit, as an urgent request's.
    Small,
}

impl Shape {
    fn extent(self, units: u32) -> (u32, u32) {
        match self {
            Self::Filling => (units * 2, 1024),
            Self::Small => (units, 256),
        }
    }
}

/// Gives this thread device 0.
fn make_current(runtime: &Runtime) -> Result<(), Trouble> {
    let functions = &runtime.functions;
    let mut count = 0;
    // SAFETY: local out-parameters; the signatures are those of CUDA's documentation.
    unsafe {
        check("Init", (functions.init)(0))?;
        check("GetDeviceCount", (functions.device_count)(&raw mut count))?;
        if count == 0 {
            return Err(Trouble::NoDevice(functions.interface));
        }
        if functions.interface == Interface::Cuda {
            type Retain = unsafe extern "C" fn(*mut Handle, c_int) -> c_int;
            type SetCurrent = unsafe extern "C" fn(Handle) -> c_int;
            let mut context = ptr::null_mut();
            let retain: Retain = runtime.optional(&["cuDevicePrimaryCtxRetain"])?;
            let set_current: SetCurrent = runtime.optional(&["cuCtxSetCurrent"])?;
            check("DevicePrimaryCtxRetain", retain(&raw mut context, 0))?;
            check("CtxSetCurrent", set_current(context))?;
        }
    }
    Ok(())
}

/// The module with the kernels: the kit's code, or for a processor that it does not have, what HIPRTC makes.
fn load_kernels(runtime: &Runtime) -> Result<(Handle, Origin), Trouble> {
    let load = |image: *const c_void| {
        let mut module = ptr::null_mut();
        // SAFETY: a local out-parameter, and an image that its own headers or a zero byte end.
        check("ModuleLoadData", unsafe { (runtime.functions.module_load)(&raw mut module, image) })
            .map(|()| module)
    };
    if runtime.functions.interface == Interface::Cuda {
        return Ok((load(PTX.as_ptr().cast())?, Origin::Ptx));
    }
    // The runtime may keep using the image of a loaded module.
    let of_kit = match load(bundle()?.leak().as_ptr().cast()) {
        Ok(module) => return Ok((module, Origin::Bundle)),
        Err(error) => error,
    };
    let compiled = hiprtc::compile().map_err(|error| Trouble::Kernels(format!("{of_kit}; {error}")))?;
    Ok((load(compiled.leak().as_ptr().cast())?, Origin::Hiprtc))
}

/// The code objects, unpacked.
fn bundle() -> Result<Vec<u8>, Trouble> {
    let mut bundle = Vec::new();
    let unpacked = flate2::read::GzDecoder::new(BUNDLE).read_to_end(&mut bundle);
    unpacked.map_err(|error| Trouble::Kernels(error.to_string()))?;
    Ok(bundle)
}

/// What a device says about itself: name, memory, the library's version.
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) devices: i32,
    pub(super) memory: usize,
    pub(super) version: i32,
}

impl Identity {
    pub(super) fn of(device: &Device) -> Result<Self, Trouble> {
        let functions = &device.runtime.functions;
        let mut name = [0_u8; 256];
        let (mut memory, mut version, mut devices) = (0, 0, 0);
        // SAFETY: local out-parameters of these sizes.
        unsafe {
            check("DeviceGetName", (functions.device_name)(name.as_mut_ptr().cast(), 255, 0))?;
            check("DeviceTotalMem", (functions.device_memory)(&raw mut memory, 0))?;
            check("GetVersion", (functions.version)(&raw mut version))?;
            check("GetDeviceCount", (functions.device_count)(&raw mut devices))?;
        }
        let name = CStr::from_bytes_until_nul(&name).map_or_else(|_| CString::default(), CStr::to_owned);
        Ok(Self { name: name.to_string_lossy().into_owned(), devices, memory, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNELS: [&str; 3] = ["field_nothing", "field_step", "field_burn"];

    #[test]
    fn the_bundle_has_every_kernel_for_the_processors_that_the_design_notes_list() {
        let notes = include_str!("../../DESIGN.md");
        let (_, list) = notes.split_once("--offload-arch={").unwrap();
        let processors: Vec<_> = list.split_once('}').unwrap().0.split(',').collect();
        let bundle = bundle().unwrap();
        let count =
            |name: &str| bundle.windows(name.len()).filter(|window| *window == name.as_bytes()).count();
        for processor in &processors {
            assert!(
                count(&format!("amdhsa--{processor}")) >= 2,
                "{processor}: in the bundle, and in its code object"
            );
        }
        for kernel in KERNELS {
            // The kernel's descriptor, in each code object.
            assert!(count(&format!("{kernel}.kd")) >= processors.len(), "{kernel}");
        }
    }

    #[test]
    fn all_forms_of_the_kernels_have_the_same_names() {
        for kernel in KERNELS {
            assert!(PTX.to_str().unwrap().contains(&format!(".visible .entry {kernel}(")), "{kernel}");
            assert!(
                include_str!("../../kernels/kernels.hip").contains(&format!("KERNEL {kernel}(")),
                "{kernel}"
            );
        }
    }
}
