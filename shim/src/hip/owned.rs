//! A call that is made later, and owns everything that the real function will read.

use std::ffi::c_void;
use std::slice;

use xsched_preload::memory;

use crate::abi::{ArgumentLocation, Frame, Layout, replay};
use crate::kernels::Kernel;
use crate::planted::{Bug, is_planted};
use crate::runtime::stopped::Stopped;

/// The most words of stack that HIP's functions take.
const STACK_WORDS_MAX: usize = 16;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `.._BUFFER_SIZE`, `.._END`
const BUFFER: usize = 1;
const BUFFER_SIZE: usize = 2;
const END: usize = 3;

/// Words for general registers.
const REGISTERS: usize = 6;

/// A stopped call, copied, with what its pointers point to.
///
/// ```text
///   | registers | words of stack | what arguments that were pointers point to now ... |
///   0           6                                                             capacity
/// ```
///
/// One allocation, which never grows: its contents keep their addresses.
pub(crate) struct OwnedCall {
    words: Vec<u64>,
    layout: &'static Layout,
    function: *mut c_void,
}

/// The owner of a call's arguments: an [`OwnedCall`], which copies them; or [`Certain`], which copies nothing, to ask
/// only whether the runtime is certain to take the call.
pub(crate) trait Owner: Sized {
    /// The stopped call, with capacity for this many words that its arguments point to.
    fn of(call: &Stopped<'_>, capacity: usize) -> Option<Self>;

    /// Makes an argument point to memory of the call's own, with these contents; its address. None if the capacity is
    /// used up.
    fn own_words(&mut self, argument: usize, words: &[u64]) -> Option<u64>;

    /// Memory of the call's own with these contents; its address. None if the capacity is used up.
    fn keep(&mut self, words: &[u64]) -> Option<u64>;

    /// Owns the arguments of a kernel that are given one by one, by an array of pointers. None if the capacity is
    /// used up.
    ///
    /// # Safety
    /// `params` must point to as many pointers to arguments as the kernel has.
    unsafe fn own_params(&mut self, argument: usize, kernel: &Kernel, params: *const *const u8)
    -> Option<()>;

    /// Owns the arguments of a kernel that are given as one buffer. None if the capacity is used up.
    ///
    /// # Safety
    /// The buffer must be as large as it says.
    unsafe fn own_extra(&mut self, argument: usize, extra: Extra) -> Option<()>;
}

/// A call that the runtime is certain to take. Its arguments stay the caller's.
pub(crate) struct Certain;

impl Owner for Certain {
    fn of(_: &Stopped<'_>, _: usize) -> Option<Self> {
        Some(Self)
    }

    fn own_words(&mut self, _: usize, words: &[u64]) -> Option<u64> {
        Some(words.as_ptr() as u64)
    }

    fn keep(&mut self, words: &[u64]) -> Option<u64> {
        Some(words.as_ptr() as u64)
    }

    unsafe fn own_params(&mut self, _: usize, _: &Kernel, _: *const *const u8) -> Option<()> {
        Some(())
    }

    unsafe fn own_extra(&mut self, _: usize, _: Extra) -> Option<()> {
        Some(())
    }
}

/// Registers, and the stack behind them, as [`replay`] takes them.
#[repr(C)]
struct Passed {
    frame: Frame,
    stack: [u64; STACK_WORDS_MAX],
}

const _: () = assert!(std::mem::offset_of!(Passed, stack) == size_of::<Frame>());

// SAFETY: its pointers point to memory of its own, or to memory and objects that any thread may use, as HIP's handles
// and the memory of asynchronous copies are.
unsafe impl Send for OwnedCall {}

impl OwnedCall {
    /// A call with the arguments of a stopped one, and capacity for so many words that they point to. None while
    /// memory is short, since queues and their records would grow with it, and for a function with arguments in
    /// vector registers.
    pub(crate) fn new(
        frame: &Frame,
        layout: &'static Layout,
        function: *mut c_void,
        capacity: usize,
    ) -> Option<Self> {
        let own = REGISTERS + layout.stack_words;
        if memory::is_short() || layout.has_vectors || layout.stack_words > STACK_WORDS_MAX {
            return None;
        }
        let mut words = Vec::new();
        words.try_reserve_exact(own.checked_add(capacity)?).ok()?;
        // The reserve is for small allocations only.
        if memory::is_reserve(&words) {
            return None;
        }
        words.extend_from_slice(&frame.general);
        // SAFETY: the function takes so many words of stack, so its caller has put them there.
        words
            .extend_from_slice(unsafe { slice::from_raw_parts(frame.stack_arguments(), layout.stack_words) });
        Some(Self { words, layout, function })
    }

    /// Makes the call; returns what the function leaves in `rax`.
    ///
    /// # Safety
    /// The arguments must still be valid for the function.
    pub(crate) unsafe fn make(&self) -> u64 {
        let frame = Frame {
            vector: [[0; 2]; 8],
            base_pointer: 0,
            padding: 0,
            general: std::array::from_fn(|register| self.words[register]),
            id: 0,
            return_address: 0,
        };
        let mut passed = Passed { frame, stack: [0; STACK_WORDS_MAX] };
        let stack_words = self.layout.stack_words;
        passed.stack[..stack_words].copy_from_slice(&self.words[REGISTERS..][..stack_words]);
        // SAFETY: a frame of a call to this function with its stack behind it; the rest is the caller's promise.
        unsafe { replay((&raw const passed).cast(), self.function, stack_words) }
    }

    /// Takes a part of the capacity.
    fn take(&mut self, words: usize) -> Option<&mut [u64]> {
        let begin = self.words.len();
        let is_there = words <= self.words.capacity() - begin;
        debug_assert!(is_there, "the caller of `of` knows what the call needs");
        is_there.then(|| {
            self.words.resize(begin + words, 0);
            &mut self.words[begin..]
        })
    }

    fn set(&mut self, argument: usize, word: u64) {
        let index = match self.layout.location(argument) {
            ArgumentLocation::General(register) => register,
            ArgumentLocation::Vector(_) => unreachable!("HIP passes no pointers in vector registers"),
            ArgumentLocation::Stack(word) => REGISTERS + word,
        };
        self.words[index] = word;
    }
}

impl Owner for OwnedCall {
    fn of(call: &Stopped<'_>, capacity: usize) -> Option<Self> {
        Self::new(call.frame, call.layout, call.target.address, capacity)
    }

    fn own_words(&mut self, argument: usize, words: &[u64]) -> Option<u64> {
        let address = self.keep(words)?;
        self.set(argument, address);
        Some(address)
    }

    fn keep(&mut self, words: &[u64]) -> Option<u64> {
        let own = self.take(words.len())?;
        own.copy_from_slice(words);
        Some(own.as_ptr() as u64)
    }

    unsafe fn own_params(
        &mut self,
        argument: usize,
        kernel: &Kernel,
        params: *const *const u8,
    ) -> Option<()> {
        let len = values_len(kernel);
        let (values, pointers) = self.take(params_words(kernel))?.split_at_mut(len);
        let base = values.as_mut_ptr().cast::<u8>();
        for (index, (pointer, parameter)) in pointers.iter_mut().zip(&kernel.parameters).enumerate() {
            // SAFETY: the caller's promise; the parameter lies within the values.
            unsafe {
                let own = base.add(parameter.offset);
                let given = *params.add(index);
                own.copy_from_nonoverlapping(given, parameter.size);
                *pointer = if is_planted(Bug::ShallowArguments) { given } else { own.cast_const() } as u64;
            }
        }
        let pointers = pointers.as_ptr() as u64;
        self.set(argument, pointers);
        Some(())
    }

    unsafe fn own_extra(&mut self, argument: usize, extra: Extra) -> Option<()> {
        let Extra { buffer, size } = extra;
        let own = self.take(size.div_ceil(WORD))?;
        // SAFETY: the caller's promise.
        unsafe { own.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(buffer, size) };
        let own = own.as_ptr() as u64;
        let own_size = self.keep(&[size as u64])?;
        let values = if is_planted(Bug::ShallowBuffer) { buffer as u64 } else { own };
        self.own_words(argument, &[BUFFER as u64, values, BUFFER_SIZE as u64, own_size, END as u64]).map(drop)
    }
}

const WORD: usize = size_of::<u64>();

/// Words that a kernel's arguments need if they are given one by one.
pub(crate) fn params_words(kernel: &Kernel) -> usize {
    values_len(kernel) + kernel.parameters.len()
}

/// Words that the values of a kernel's arguments take, laid out as the kernel reads them.
fn values_len(kernel: &Kernel) -> usize {
    let ends = kernel.parameters.iter().map(|parameter| parameter.offset + parameter.size);
    ends.max().unwrap_or(0).div_ceil(WORD)
}

/// Arguments of a kernel in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extra {
    buffer: *const u8,
    /// In bytes.
    size: usize,
}

impl Extra {
    /// The contents of a launch's `extra`; None if it is malformed.
    ///
    /// # Safety
    /// It must be an array that ends in its end mark.
    pub(crate) unsafe fn read(extra: *const usize) -> Option<Self> {
        // SAFETY: the caller's promise; it is read as far as it is well-formed.
        unsafe {
            let word = |index| extra.add(index).read();
            let is_formed =
                word(0) == BUFFER && word(1) != 0 && word(2) == BUFFER_SIZE && word(3) != 0 && word(4) == END;
            is_formed.then(|| Self { buffer: word(1) as *const u8, size: (word(3) as *const usize).read() })
        }
    }

    /// Words that it needs.
    pub(crate) fn words(self) -> usize {
        /// Its marks with their values, and its size.
        const MARKS: usize = 5 + 1;
        self.size.div_ceil(WORD) + MARKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{HipError, Ret, Signature};
    use crate::kernels::Parameter;

    /// A function with arguments in registers and on the stack, like hipModuleLaunchKernel.
    #[expect(clippy::many_single_char_names, reason = "what is tested is their number")]
    unsafe extern "C" fn sum(
        a: u64,
        b: u32,
        c: u32,
        d: u32,
        e: u32,
        f: u32,
        g: u32,
        h: u32,
        params: *const *const u32,
        extra: *const usize,
    ) -> HipError {
        // SAFETY: as the test makes them.
        let (param, from_extra) = unsafe {
            let param = if params.is_null() { 0 } else { **params.add(1) };
            let from_extra = if extra.is_null() { 0 } else { **extra.add(1).cast::<*const u32>() };
            (param, from_extra)
        };
        HipError((a as u32) + b + c + d + e + f + g + h + param + from_extra)
    }

    type Sum = unsafe extern "C" fn(
        u64,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> HipError;

    #[repr(C)]
    struct CallOnStack {
        frame: Frame,
        stack: [u64; 4],
    }

    fn call(stack: [u64; 4]) -> (CallOnStack, &'static Layout) {
        const { assert!(<<Sum as Signature>::Ret as Ret>::PASSED.is_some()) };
        let frame = Frame {
            vector: [[0; 2]; 8],
            base_pointer: 0,
            padding: 0,
            general: [1, 2, 3, 4, 5, 6],
            id: 0,
            return_address: 0,
        };
        (CallOnStack { frame, stack }, Layout::of::<Sum>())
    }

    fn owned(stopped: &CallOnStack, layout: &'static Layout, capacity: usize) -> OwnedCall {
        // A pointer to the whole value: the stack lies behind the frame.
        let frame = std::ptr::from_ref(stopped).cast::<Frame>();
        // SAFETY: the frame is its first field.
        OwnedCall::new(unsafe { &*frame }, layout, sum as *const () as *mut c_void, capacity).unwrap()
    }

    #[test]
    fn a_call_is_repeated_with_registers_and_stack() {
        let (stopped, layout) = call([7, 8, 0, 0]);
        let owned = owned(&stopped, layout, 0);
        // SAFETY: the function reads no pointers here.
        assert_eq!(unsafe { owned.make() } as u32, 36);
    }

    #[test]
    fn a_call_that_is_only_checked_keeps_its_callers_memory() {
        let words = [1, 2, 3];
        let address = Some(words.as_ptr() as u64);
        assert_eq!((Certain.own_words(0, &words), Certain.keep(&words)), (address, address));
    }

    #[test]
    fn arguments_of_a_kernel_outlive_their_caller() {
        let parameters = vec![Parameter { offset: 0, size: 8 }, Parameter { offset: 8, size: 4 }];
        let kernel = Kernel { parameters, threads_max: 1024, shared_bytes: 0 };
        let (first, mut second) = (1_u64, 100_u32);
        let params = [(&raw const first).cast::<u8>(), (&raw const second).cast::<u8>()];
        let (stopped, layout) = call([0, 0, params.as_ptr() as u64, 0]);
        let mut owned = owned(&stopped, layout, params_words(&kernel));
        // SAFETY: two arguments, as the kernel has.
        unsafe { owned.own_params(8, &kernel, params.as_ptr()).unwrap() };
        second = 9000;
        assert_eq!(second, 9000);
        // SAFETY: the arguments are its own.
        assert_eq!(unsafe { owned.make() } as u32, 21 + 100);
    }

    #[test]
    fn an_argument_buffer_outlives_its_caller() {
        let (mut buffer, mut size) = ([1000_u32, 5], size_of::<[u32; 2]>());
        let extra = [BUFFER, buffer.as_mut_ptr() as usize, BUFFER_SIZE, &raw mut size as usize, END];
        let (stopped, layout) = call([0, 0, 0, extra.as_ptr() as u64]);
        // SAFETY: well-formed.
        let given = unsafe { Extra::read(extra.as_ptr()).unwrap() };
        let mut owned = owned(&stopped, layout, given.words());
        // SAFETY: the buffer is as large as it says.
        unsafe { owned.own_extra(9, given).unwrap() };
        (buffer, size) = ([0; 2], 0);
        assert_eq!((buffer[0], size), (0, 0));
        // SAFETY: the buffer is its own.
        assert_eq!(unsafe { owned.make() } as u32, 21 + 1000);
        let malformed = [BUFFER, 0, BUFFER_SIZE, 0, END];
        // SAFETY: as long as a well-formed one.
        assert!(unsafe { Extra::read(malformed.as_ptr()) }.is_none());
    }
}
