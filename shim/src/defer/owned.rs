//! A call that is made later: everything that the real function will read is its own.

use std::ffi::c_void;

use crate::abi::{Layout, Place};
use crate::gate::Frame;
use crate::kernels::Kernel;
use crate::planted::{Bug, is_planted};
use crate::replay::replay;
use crate::reserve;

/// Words of stack that HIP's functions take at most.
const STACK_WORDS_MAX: usize = 16;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `.._BUFFER_SIZE`, `.._END`
const BUFFER: usize = 1;
const BUFFER_SIZE: usize = 2;
const END: usize = 3;

/// A stopped call, copied, with what its pointers point to.
pub(crate) struct OwnedCall {
    /// On the heap, so that a queue holds little for each call.
    call: Box<Copied>,
    /// What arguments that were pointers point to now. Words on the heap: they stay where they are when this moves.
    memory: Vec<Box<[u64]>>,
}

/// Registers, and the stack behind them, as [`replay`] wants it.
#[repr(C)]
struct Copied {
    frame: Frame,
    stack: [u64; STACK_WORDS_MAX],
    layout: &'static Layout,
    function: *mut c_void,
}

const _: () = assert!(std::mem::offset_of!(Copied, stack) == size_of::<Frame>());

// SAFETY: what the pointers in it point to is its own, or may be used by any thread, as HIP's handles and the memory of
// asynchronous copies may.
unsafe impl Send for OwnedCall {}

impl OwnedCall {
    /// A call with the arguments of a stopped one. None while memory is short: queue and books would grow by it.
    pub(crate) fn new(frame: &Frame, layout: &'static Layout, function: *mut c_void) -> Option<Self> {
        if reserve::is_in_use() {
            return None;
        }
        let mut stack = [0; STACK_WORDS_MAX];
        let words = stack.get_mut(..layout.stack_words)?;
        for (index, word) in words.iter_mut().enumerate() {
            // SAFETY: the function takes as many words of stack, so its caller has put them there.
            *word = unsafe { frame.stack_arguments().add(index).read() };
        }
        let frame = Frame {
            vector: frame.vector,
            base_pointer: 0,
            padding: 0,
            general: frame.general,
            id: frame.id,
            return_address: frame.return_address,
        };
        Some(Self { call: Box::new(Copied { frame, stack, layout, function }), memory: Vec::new() })
    }

    /// Makes the call; returns what the function leaves in `rax`.
    ///
    /// # Safety
    /// The arguments must still be what the function asks for.
    pub(crate) unsafe fn make(&self) -> u64 {
        let copied: *const Copied = &raw const *self.call;
        // SAFETY: a frame of a call to this function with its stack behind it; the rest is the caller's promise.
        unsafe { replay(copied.cast(), self.call.function, self.call.layout.stack_words) }
    }

    /// Makes an argument point to memory of its own, with these contents; its address. None if there is no memory.
    pub(crate) fn own_words(&mut self, argument: usize, words: &[u64]) -> Option<u64> {
        let address = self.keep(words)?;
        match self.call.layout.place(argument) {
            Place::General(register) => self.call.frame.general[register] = address,
            Place::Vector(_) => unreachable!("HIP passes no pointers in vector registers"),
            Place::Stack(word) => self.call.stack[word] = address,
        }
        Some(address)
    }

    /// Memory of its own with these contents; its address. None if there is no memory.
    pub(crate) fn keep(&mut self, words: &[u64]) -> Option<u64> {
        let mut own = room(size_of_val(words))?;
        own.copy_from_slice(words);
        self.keep_box(own)
    }

    fn keep_box(&mut self, own: Box<[u64]>) -> Option<u64> {
        let address = own.as_ptr() as u64;
        self.memory.try_reserve(1).ok()?;
        self.memory.push(own);
        Some(address)
    }

    /// Owns the arguments of a kernel that are given one by one, by an array of pointers. None if there is no memory.
    ///
    /// # Safety
    /// `params` must point to as many pointers to arguments as the kernel has.
    pub(crate) unsafe fn own_params(
        &mut self,
        argument: usize,
        kernel: &Kernel,
        params: *const *const u8,
    ) -> Option<()> {
        let bytes = kernel.parameters.iter().map(|p| p.offset + p.size).max().unwrap_or(0);
        let mut values = room(bytes)?;
        let base = values.as_mut_ptr().cast::<u8>();
        let mut pointers = room(kernel.parameters.len() * size_of::<u64>())?;
        for (index, parameter) in kernel.parameters.iter().enumerate() {
            // SAFETY: the caller's promise; the parameter's place lies within `bytes`.
            unsafe {
                let own = base.add(parameter.offset);
                own.copy_from_nonoverlapping(*params.add(index), parameter.size);
                let shallow = is_planted(Bug::ShallowArguments);
                pointers[index] = if shallow { *params.add(index) as u64 } else { own as u64 };
            }
        }
        self.keep_box(values)?;
        self.own_words(argument, &pointers).map(drop)
    }

    /// Owns the arguments of a kernel that are given as one buffer, by `extra`. None if that is not formed as HIP
    /// wants it, or if there is no memory.
    ///
    /// # Safety
    /// `extra` must be null or an array that ends in its end mark.
    pub(crate) unsafe fn own_extra(&mut self, argument: usize, extra: *const usize) -> Option<()> {
        // SAFETY: the caller's promise, read as far as it is formed.
        let (buffer, size) = unsafe {
            let word = |index| extra.add(index).read();
            if word(0) != BUFFER || word(2) != BUFFER_SIZE || word(4) != END || word(1) == 0 || word(3) == 0 {
                return None;
            }
            (word(1) as *const u8, (word(3) as *const usize).read())
        };
        let mut own = room(size)?;
        // SAFETY: the buffer is as large as its size says.
        unsafe { own.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(buffer, size) };
        let (own, own_size) = (self.keep_box(own)?, self.keep(&[size as u64])?);
        let values = if is_planted(Bug::ShallowBuffer) { buffer as u64 } else { own };
        self.own_words(argument, &[BUFFER as u64, values, BUFFER_SIZE as u64, own_size, END as u64]).map(drop)
    }
}

/// Room for so many bytes, aligned as arguments want it; None if there is no memory, which the reserve is not for.
fn room(bytes: usize) -> Option<Box<[u64]>> {
    let len = bytes.div_ceil(size_of::<u64>());
    let mut room = Vec::new();
    room.try_reserve_exact(len).ok()?;
    room.resize(len, 0);
    let room = room.into_boxed_slice();
    (!reserve::holds(&room)).then_some(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{HipError, Ret, Signature};
    use crate::kernels::Parameter;

    /// Arguments on registers and stack, as hipModuleLaunchKernel has them.
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
    struct Stopped {
        frame: Frame,
        stack: [u64; 4],
    }

    fn call(stack: [u64; 4]) -> (Stopped, &'static Layout) {
        const { assert!(<<Sum as Signature>::Ret as Ret>::PASSED.is_some()) };
        let frame = Frame {
            vector: [[0; 2]; 8],
            base_pointer: 0,
            padding: 0,
            general: [1, 2, 3, 4, 5, 6],
            id: 0,
            return_address: 0,
        };
        (Stopped { frame, stack }, Layout::of::<Sum>())
    }

    fn owned(stopped: &Stopped, layout: &'static Layout) -> OwnedCall {
        // Through the whole value: the stack lies behind the frame.
        let frame = std::ptr::from_ref(stopped).cast::<Frame>();
        // SAFETY: the frame is its first field.
        OwnedCall::new(unsafe { &*frame }, layout, sum as *const () as *mut c_void).unwrap()
    }

    #[test]
    fn a_call_is_repeated_with_registers_and_stack() {
        let (stopped, layout) = call([7, 8, 0, 0]);
        let owned = owned(&stopped, layout);
        // SAFETY: the function reads no pointers here.
        assert_eq!(unsafe { owned.make() } as u32, 36);
    }

    #[test]
    fn arguments_of_a_kernel_outlive_their_caller() {
        let parameters = vec![Parameter { offset: 0, size: 8 }, Parameter { offset: 8, size: 4 }];
        let kernel = Kernel { parameters, threads_max: 1024, shared_bytes: 0 };
        let (first, mut second) = (1_u64, 100_u32);
        let params = [(&raw const first).cast::<u8>(), (&raw const second).cast::<u8>()];
        let (stopped, layout) = call([0, 0, params.as_ptr() as u64, 0]);
        let mut owned = owned(&stopped, layout);
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
        let mut owned = owned(&stopped, layout);
        // SAFETY: formed as HIP wants it.
        unsafe { owned.own_extra(9, extra.as_ptr()).unwrap() };
        (buffer, size) = ([0; 2], 0);
        assert_eq!((buffer[0], size), (0, 0));
        // SAFETY: the buffer is its own.
        assert_eq!(unsafe { owned.make() } as u32, 21 + 1000);
        let malformed = [BUFFER, 0, BUFFER_SIZE, 0, END];
        // SAFETY: as long as a well-formed one.
        assert!(unsafe { owned.own_extra(9, malformed.as_ptr()) }.is_none());
    }
}
