//! A kernel as the runtime knows it: its name and the layout of its arguments in the buffer that the device
//! reads.

use core::ffi::c_void;

use crate::error::HipError;
use crate::handles::Handles;
use crate::runtime::table;
use crate::twin::Twin;

table! {
    /// The objects that `hipFunction_t` points to.
    pub(crate) listed: Handles<Kernel> = Handles::default()
}

/// One explicit argument, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// Resources of a kernel besides local data share: reported, but not modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Private memory of a thread, in bytes.
    pub(crate) scratch_size: usize,
    /// Registers of a thread.
    pub(crate) vector_registers: u32,
}

/// A kernel, from the code object's metadata.
pub(crate) struct Kernel {
    /// Mangled, as in the code object.
    pub(crate) name: std::ffi::CString,
    /// Explicit arguments in the order of the kernel's parameters.
    pub(crate) arguments: Vec<Argument>,
    /// Maximal number of threads in a block.
    pub(crate) max_threads_per_block: u32,
    /// Static local data share, in bytes.
    pub(crate) lds_size: usize,
    pub(crate) resources: Resources,
    pub(crate) twin: Twin,
}

impl Kernel {
    pub(crate) fn name(&self) -> &str {
        self.name.to_str().expect("it was made from a str")
    }

    /// Size up to the end of the last explicit argument, in bytes.
    fn explicit_size(&self) -> usize {
        self.arguments.iter().map(|a| a.offset + a.size).max().unwrap_or(0)
    }
}

/// How a launch passes its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passed {
    /// An array with the address of each argument.
    Pointers(*mut *mut c_void),
    /// A complete buffer: `extra` of module launches.
    Extra(*mut *mut c_void),
}

impl Passed {
    /// From the two parameters of a module launch. Exactly one must be given, or none for a kernel without
    /// arguments.
    pub(crate) fn from_module_launch(
        kernel: &Kernel,
        pointers: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Result<Self, HipError> {
        match (pointers.is_null(), extra.is_null()) {
            (false, false) => Err(HipError::InvalidValue),
            (true, true) if !kernel.arguments.is_empty() => Err(HipError::InvalidValue),
            (true, false) => Ok(Self::Extra(extra)),
            _ => Ok(Self::Pointers(pointers)),
        }
    }

    /// Address of an argument's value.
    ///
    /// # Safety
    ///
    /// The argument exists and is passed as HIP requires.
    unsafe fn source(self, index: usize, offset: usize) -> *const u8 {
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            match self {
                Self::Pointers(pointers) => (*pointers.add(index)).cast::<u8>(),
                Self::Extra(extra) => (*extra.add(1)).cast::<u8>().add(offset),
            }
        }
    }
}

const EXTRA_END: usize = 3;
const EXTRA_POINTER: usize = 1;
const EXTRA_SIZE: usize = 2;

/// The buffer from which a kernel reads its arguments, aligned for any of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ArgumentBuffer {
    words: Box<[u128]>,
    size: usize,
}

impl ArgumentBuffer {
    fn zeroed(size: usize) -> Self {
        Self { words: vec![0; size.div_ceil(16)].into_boxed_slice(), size }
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    /// An argument as an unsigned integer, if it has an integer's size.
    pub(crate) fn integer(&self, argument: Argument) -> Option<u64> {
        let mut bytes = [0; 8];
        let to = bytes.get_mut(..argument.size).filter(|to| !to.is_empty())?;
        to.copy_from_slice(self.bytes().get(argument.offset..argument.offset + argument.size)?);
        Some(u64::from_le_bytes(bytes))
    }

    fn bytes(&self) -> &[u8] {
        &zerocopy::IntoBytes::as_bytes(&*self.words)[..self.size]
    }

    /// In bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Copies each explicit argument to its offset from the metadata, as the genuine runtime does.
    ///
    /// # Safety
    ///
    /// The arguments are passed as HIP's launch functions require: an address for each argument, or an
    /// `extra` array whose buffer has the size that it states.
    pub(crate) unsafe fn marshal(kernel: &Kernel, passed: Passed) -> Result<Self, HipError> {
        let mut buffer = Self::zeroed(kernel.explicit_size());
        let to = buffer.words.as_mut_ptr().cast::<u8>();
        if let Passed::Extra(extra) = passed {
            // SAFETY: the caller guarantees an `extra` array.
            unsafe { check_extra(extra, buffer.size)? };
        }
        for (index, argument) in kernel.arguments.iter().enumerate() {
            // SAFETY: the target has space for all arguments; the caller guarantees a valid source.
            unsafe {
                let from = passed.source(index, argument.offset);
                to.add(argument.offset).copy_from_nonoverlapping(from, argument.size);
            }
        }
        Ok(buffer)
    }
}

/// Checks for exactly {1, buffer, 2, &size, 3}. The genuine runtime trusts the size; here a buffer that is
/// too short is an error.
///
/// # Safety
///
/// `extra` has five elements. If the tags are as required, its fourth element points to a size.
unsafe fn check_extra(extra: *mut *mut c_void, needed: usize) -> Result<(), HipError> {
    // SAFETY: the caller upholds this function's contract.
    let tags = unsafe { [*extra, *extra.add(2), *extra.add(4)] }.map(|tag| tag as usize);
    if tags != [EXTRA_POINTER, EXTRA_SIZE, EXTRA_END] {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the tag before it marks it as the size's address.
    let size = unsafe { *(*extra.add(3)).cast::<usize>() };
    if size < needed { Err(HipError::InvalidValue) } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use core::ptr;

    use super::*;

    /// A kernel with an argument of four bytes and one of eight.
    pub(crate) fn kernel() -> Kernel {
        Kernel {
            name: c"k".to_owned(),
            arguments: vec![Argument { offset: 0, size: 4 }, Argument { offset: 8, size: 8 }],
            max_threads_per_block: 1024,
            lds_size: 0,
            resources: Resources::default(),
            twin: Twin::default(),
        }
    }

    fn bytes(buffer: &ArgumentBuffer) -> &[u8] {
        // SAFETY: the buffer's own size.
        unsafe { core::slice::from_raw_parts(buffer.as_ptr(), buffer.size()) }
    }

    #[test]
    fn pointed_to_arguments_are_copied_to_their_offsets() {
        let (mut small, mut large) = (0x0403_0201_u32, 0x0807_0605_0403_0201_u64);
        let mut pointers = [(&raw mut small).cast(), (&raw mut large).cast()];
        // SAFETY: one pointer for each argument.
        let buffer =
            unsafe { ArgumentBuffer::marshal(&kernel(), Passed::Pointers(pointers.as_mut_ptr())) }.unwrap();
        assert_eq!(bytes(&buffer), [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    fn marshalled_from_buffer(mut size: usize) -> Result<Vec<u8>, HipError> {
        let mut packed = [9_u8; 16];
        let tag = ptr::without_provenance_mut;
        let mut extra = [tag(1), packed.as_mut_ptr().cast(), tag(2), (&raw mut size).cast(), tag(3)];
        // SAFETY: five elements, as the function requires.
        let buffer = unsafe { ArgumentBuffer::marshal(&kernel(), Passed::Extra(extra.as_mut_ptr())) };
        buffer.map(|buffer| bytes(&buffer).to_vec())
    }

    #[test]
    fn a_complete_buffer_is_copied_without_its_padding() {
        assert_eq!(marshalled_from_buffer(16).unwrap(), [9, 9, 9, 9, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn a_complete_buffer_must_hold_every_argument() {
        assert_eq!(marshalled_from_buffer(8), Err(HipError::InvalidValue));
    }

    #[test]
    fn arguments_are_read_as_integers_of_their_size() {
        let (mut small, mut large) = (0x8000_0001_u32, u64::MAX);
        let mut pointers = [(&raw mut small).cast(), (&raw mut large).cast()];
        // SAFETY: one pointer for each argument.
        let buffer =
            unsafe { ArgumentBuffer::marshal(&kernel(), Passed::Pointers(pointers.as_mut_ptr())) }.unwrap();
        let read = kernel().arguments.iter().map(|argument| buffer.integer(*argument)).collect::<Vec<_>>();
        assert_eq!(read, [Some(0x8000_0001), Some(u64::MAX)]);
        assert_eq!(buffer.integer(Argument { offset: 0, size: 16 }), None);
        assert_eq!(buffer.integer(Argument { offset: 12, size: 8 }), None);
    }

    #[test]
    fn arguments_must_be_passed_in_exactly_one_way() {
        let mut list = [ptr::null_mut(); 5];
        let given = list.as_mut_ptr();
        let check = |pointers, extra| Passed::from_module_launch(&kernel(), pointers, extra).map(drop);
        assert_eq!(check(given, given), Err(HipError::InvalidValue));
        assert_eq!(check(ptr::null_mut(), ptr::null_mut()), Err(HipError::InvalidValue));
        assert_eq!(check(given, ptr::null_mut()), Ok(()));
    }
}
