//! The saved state of a call that comes in: the registers that may hold arguments, and where the stack arguments lie.

use std::ptr;

/// Where one argument begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentLocation {
    /// In this general register, counted in the order that arguments take them; a pair takes the next as well.
    General(usize),
    /// In this vector register.
    Vector(usize),
    /// In this word of the caller's stack, and those that follow.
    Stack(usize),
}

/// What the entry code saves of a call, as it lies on the stack; the caller's stack arguments follow.
#[repr(C, align(16))]
pub(crate) struct Frame {
    /// xmm0 to xmm7
    pub(crate) vector: [[u64; 2]; 8],
    /// rbp, which is the caller's
    pub(crate) base_pointer: u64,
    /// Keeps the stack aligned.
    pub(crate) padding: u64,
    /// rdi, rsi, rdx, rcx, r8, r9
    pub(crate) general: [u64; 6],
    /// which function, see [`crate::api::Id`]
    pub(crate) id: u64,
    /// where in the caller the call returns to
    pub(crate) return_address: u64,
}

impl Frame {
    /// The first word of arguments on the caller's stack.
    pub(crate) fn stack_arguments(&self) -> *const u64 {
        ptr::from_ref(self).wrapping_add(1).cast()
    }

    /// The first word of an argument.
    #[inline]
    pub(crate) fn argument(&self, location: ArgumentLocation) -> *const u64 {
        match location {
            ArgumentLocation::General(register) => &raw const self.general[register],
            ArgumentLocation::Vector(register) => self.vector[register].as_ptr(),
            ArgumentLocation::Stack(word) => self.stack_arguments().wrapping_add(word),
        }
    }
}
