//! One call each of two libraries of the vendors: a matrix product (hipBLAS, cuBLAS) and a convolution (MIOpen).
//!
//! Their operands have one value everywhere, so every element of a result is known.

use core::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr;

use libloading::os::unix::Library;

use super::device::Device;
use super::functions::{Address, Handle, Interface, open, symbol};
use super::trouble::{Trouble, check};

/// Opens the first of these that is along the loader's path or in one of the folders.
fn open_first(names: &[&str], folders: &[PathBuf]) -> Result<(Library, String), Trouble> {
    let mut last = None;
    for name in names {
        let paths =
            std::iter::once(PathBuf::from(name)).chain(folders.iter().map(|folder| folder.join(name)));
        for path in paths {
            match open(&path) {
                Ok(library) => return Ok((library, (*name).to_owned())),
                // The loader's own path comes first, and its message names what is missing.
                Err(cause) => {
                    last.get_or_insert_with(|| Trouble::NoLibrary { name: (*name).to_owned(), cause });
                }
            }
        }
    }
    Err(last.unwrap_or_else(|| Trouble::Usage("no library to try".to_owned())))
}

/// Something that can be done again and again, and whose result can be checked.
pub(super) trait Operation {
    /// The library's file name.
    fn library(&self) -> &str;
    fn launch(&self) -> Result<(), Trouble>;
    /// How many elements of the result are wrong, of how many.
    fn wrong(&self) -> Result<(usize, usize), Trouble>;
}

/// Single-precision matrices of ones and twos.
pub(super) struct MatrixProduct<'a> {
    device: &'a Device,
    /// Keeps its functions valid.
    _library: Library,
    name: String,
    sgemm: Sgemm,
    handle: Handle,
    normal: c_int,
    size: c_int,
    operands: [Address; 3],
}

type Sgemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f32,
    Address,
    c_int,
    Address,
    c_int,
    *const f32,
    Address,
    c_int,
) -> c_int;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type SetStream = unsafe extern "C" fn(Handle, Handle) -> c_int;

impl<'a> MatrixProduct<'a> {
    /// Matrices of `size` rows and columns.
    pub(super) fn new(device: &'a Device, folders: &[PathBuf], size: u16) -> Result<Self, Trouble> {
        let is_hip = device.runtime.functions.interface == Interface::Hip;
        let names: &[&str] = if is_hip {
            &["libhipblas.so.3", "libhipblas.so.2", "libhipblas.so.1", "libhipblas.so.0", "libhipblas.so"]
        } else {
            &["libcublas.so.13", "libcublas.so.12", "libcublas.so.11"]
        };
        let (library, name) = open_first(names, folders)?;
        // `HIPBLAS_OP_N` and `CUBLAS_OP_N`
        let normal = if is_hip { 111 } else { 0 };
        let elements = usize::from(size) * usize::from(size);
        let operands =
            [device.numbers(elements, 1.0)?, device.numbers(elements, 2.0)?, device.numbers(elements, 0.0)?];
        let mut handle = ptr::null_mut();
        // SAFETY: the signatures of both libraries' documentation; a local out-parameter.
        let sgemm = unsafe {
            let create: Create = symbol(&library, &["hipblasCreate", "cublasCreate_v2"])?;
            let set_stream: SetStream = symbol(&library, &["hipblasSetStream", "cublasSetStream_v2"])?;
            check("blasCreate", create(&raw mut handle))?;
            check("blasSetStream", set_stream(handle, device.stream))?;
            symbol(&library, &["hipblasSgemm", "cublasSgemm_v2"])?
        };
        Ok(Self { device, _library: library, name, sgemm, handle, normal, size: size.into(), operands })
    }
}

impl Operation for MatrixProduct<'_> {
    fn library(&self) -> &str {
        &self.name
    }

    fn launch(&self) -> Result<(), Trouble> {
        let (one, zero) = (1.0_f32, 0.0_f32);
        let (n, [a, b, c]) = (self.size, self.operands);
        // SAFETY: a handle of this library, and matrices of n x n elements.
        let code = unsafe {
            (self.sgemm)(
                self.handle,
                self.normal,
                self.normal,
                n,
                n,
                n,
                &raw const one,
                a,
                n,
                b,
                n,
                &raw const zero,
                c,
                n,
            )
        };
        check("blasSgemm", code)
    }

    fn wrong(&self) -> Result<(usize, usize), Trouble> {
        let count = (self.size * self.size) as usize;
        let found = self.device.read_numbers(self.operands[2], count)?;
        let expected = 2.0 * self.size as f32;
        // Every sum on the way is a whole number below 2^24.
        Ok((found.iter().filter(|element| (**element - expected).abs() > 0.5).count(), count))
    }
}

/// A convolution of ones with twos, 3 x 3, without padding.
pub(super) struct Convolution<'a> {
    device: &'a Device,
    _library: Library,
    name: String,
    forward: Forward,
    handle: Handle,
    descriptors: [Handle; 4],
    operands: [Address; 3],
    workspace: (Address, usize),
    algorithm: c_int,
}

type Forward = unsafe extern "C" fn(
    Handle,
    *const f32,
    Handle,
    Address,
    Handle,
    Address,
    Handle,
    c_int,
    *const f32,
    Handle,
    Address,
    Address,
    usize,
) -> c_int;
type Set4d = unsafe extern "C" fn(Handle, c_int, c_int, c_int, c_int, c_int) -> c_int;
type SetConvolution = unsafe extern "C" fn(Handle, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
type WorkspaceSize = unsafe extern "C" fn(Handle, Handle, Handle, Handle, Handle, *mut usize) -> c_int;
type FindAlgorithm = unsafe extern "C" fn(
    Handle,
    Handle,
    Address,
    Handle,
    Address,
    Handle,
    Handle,
    Address,
    c_int,
    *mut c_int,
    *mut Performance,
    Address,
    usize,
    bool,
) -> c_int;

/// `miopenConvAlgoPerf_t`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Performance {
    algorithm: c_int,
    time: f32,
    memory: usize,
}

/// Images, channels, height and width of input and output; the filters are 3 x 3.
const IMAGES: c_int = 16;
const CHANNELS: c_int = 64;
const SIDE: c_int = 58;
const OUT: c_int = SIDE - 2;

impl<'a> Convolution<'a> {
    pub(super) fn new(device: &'a Device, folders: &[PathBuf]) -> Result<Self, Trouble> {
        let interface = device.runtime.functions.interface;
        if interface == Interface::Cuda {
            return Err(Trouble::NotHere("MIOpen is ROCm's; the torch ladder has a convolution by cuDNN"));
        }
        let (library, name) = open_first(&["libMIOpen.so.1", "libMIOpen.so"], folders)?;
        let elements = |extents: [c_int; 4]| extents.iter().map(|extent| *extent as usize).product::<usize>();
        let (input, filters, output) =
            ([IMAGES, CHANNELS, SIDE, SIDE], [CHANNELS, CHANNELS, 3, 3], [IMAGES, CHANNELS, OUT, OUT]);
        let operands = [
            device.numbers(elements(input), 1.0)?,
            device.numbers(elements(filters), 2.0)?,
            device.numbers(elements(output), 0.0)?,
        ];
        let mut handle = ptr::null_mut();
        let mut descriptors = [ptr::null_mut::<c_void>(); 4];
        let mut size = 0;
        let mut performance = Performance::default();
        let mut count = 0;
        // SAFETY: the signatures of MIOpen's documentation; local out-parameters; one result is asked for.
        unsafe {
            let create: unsafe extern "C" fn(*mut Handle, Handle) -> c_int =
                symbol(&library, &["miopenCreateWithStream"])?;
            check("miopenCreateWithStream", create(&raw mut handle, device.stream))?;
            let new_tensor: Create = symbol(&library, &["miopenCreateTensorDescriptor"])?;
            let set_tensor: Set4d = symbol(&library, &["miopenSet4dTensorDescriptor"])?;
            for (descriptor, [n, c, h, w]) in descriptors.iter_mut().zip([input, filters, output]) {
                // `miopenFloat`
                const FLOAT: c_int = 1;
                check("miopenCreateTensorDescriptor", new_tensor(&raw mut *descriptor))?;
                check("miopenSet4dTensorDescriptor", set_tensor(*descriptor, FLOAT, n, c, h, w))?;
            }
            let new_convolution: Create = symbol(&library, &["miopenCreateConvolutionDescriptor"])?;
            let set_convolution: SetConvolution = symbol(&library, &["miopenInitConvolutionDescriptor"])?;
            check("miopenCreateConvolutionDescriptor", new_convolution(&raw mut descriptors[3]))?;
            check("miopenInitConvolutionDescriptor", set_convolution(descriptors[3], 0, 0, 0, 1, 1, 1, 1))?;
            let [x, w, y, convolution] = descriptors;
            let workspace_size: WorkspaceSize =
                symbol(&library, &["miopenConvolutionForwardGetWorkSpaceSize"])?;
            check(
                "miopenConvolutionForwardGetWorkSpaceSize",
                workspace_size(handle, w, x, convolution, y, &raw mut size),
            )?;
        }
        let workspace = (device.numbers(size.div_ceil(4), 0.0)?, size);
        let [x, w, y, convolution] = descriptors;
        // SAFETY: as above, with memory of the sizes that the descriptors say.
        let forward = unsafe {
            let find: FindAlgorithm = symbol(&library, &["miopenFindConvolutionForwardAlgorithm"])?;
            check(
                "miopenFindConvolutionForwardAlgorithm",
                find(
                    handle,
                    x,
                    operands[0],
                    w,
                    operands[1],
                    convolution,
                    y,
                    operands[2],
                    1,
                    &raw mut count,
                    &raw mut performance,
                    workspace.0,
                    workspace.1,
                    false,
                ),
            )?;
            symbol(&library, &["miopenConvolutionForward"])?
        };
        let Performance { algorithm, .. } = performance;
        Ok(Self {
            device,
            _library: library,
            name,
            forward,
            handle,
            descriptors,
            operands,
            workspace,
            algorithm,
        })
    }
}

impl Operation for Convolution<'_> {
    fn library(&self) -> &str {
        &self.name
    }

    fn launch(&self) -> Result<(), Trouble> {
        let (one, zero) = (1.0_f32, 0.0_f32);
        let ([x, w, y, convolution], operands) = (self.descriptors, self.operands);
        // SAFETY: handle, descriptors and memory were made for each other in `new`.
        let code = unsafe {
            (self.forward)(
                self.handle,
                &raw const one,
                x,
                operands[0],
                w,
                operands[1],
                convolution,
                self.algorithm,
                &raw const zero,
                y,
                operands[2],
                self.workspace.0,
                self.workspace.1,
            )
        };
        check("miopenConvolutionForward", code)
    }

    fn wrong(&self) -> Result<(usize, usize), Trouble> {
        let count = (IMAGES * CHANNELS * OUT * OUT) as usize;
        let found = self.device.read_numbers(self.operands[2], count)?;
        let expected = (2 * 9 * CHANNELS) as f32;
        // Winograd's algorithm does not compute exactly.
        let wrong = found.iter().filter(|element| (**element - expected).abs() > expected * 1e-3).count();
        Ok((wrong, count))
    }
}
