//! Batches: arrays of copies, of boxes, or of operations on words, which the deferred call owns.

use std::slice;

use crate::abi::boxes::BoxOperation;
use crate::api::Id;
use crate::defer::deferrable::boxes::check_operation;
use crate::defer::deferrable::copies::{DEFAULT, End, check_copy};
use crate::defer::deferrable::signal::is_word;
use crate::hip::owned::Owner;
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::{Stopped, StreamName};

/// A longer batch waits in place: all of it is checked before the call returns.
const COUNT_MAX: usize = 256;

/// Whether a function copies in batches.
pub(super) fn is_batch(id: Id) -> bool {
    matches!(id, Id::hipMemcpyBatchAsync | Id::hipMemcpy3DBatchAsync)
}

pub(super) fn own<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<O> {
    match call.id() {
        Id::hipMemcpyBatchAsync => copies(call, copy),
        Id::hipMemcpy3DBatchAsync => boxes(call, copy),
        Id::hipStreamBatchMemOp => operations(call, copy),
        _ => None,
    }
}

/// Words of `hipMemcpyAttributes`, whose first four bytes are a `hipMemcpySrcAccessOrder`.
const ATTRIBUTE_WORDS: usize = 3;
/// `hipMemcpySrcAccessOrderStream`, `hipMemcpySrcAccessOrderAny`: the source may still be read after the call has
/// returned.
const ORDERS_OF_LATER: [u32; 2] = [1, 3];

/// `hipMemcpyBatchAsync`: targets, sources, sizes and their number; attributes, the copy at which each begins to
/// apply, and their number; where the index of the first failure is written; the stream.
fn copies<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<O> {
    let (count, attributes) = (call.size(3), call.size(6));
    let is_formed = (1..=COUNT_MAX).contains(&count) && (1..=count).contains(&attributes);
    if !is_formed || !matches!(call.stream_name(), StreamName::Created(_)) {
        return None;
    }
    let mut owned = O::of(call, 3 * count + (ATTRIBUTE_WORDS + 1) * attributes + 1)?;
    // SAFETY: the application gives arrays of so many elements. Owned arrays are not written again, and do not move
    // while the call exists. The checks read what the call owns, in case another thread changes the original.
    unsafe {
        let [to, from, sizes] = [0, 1, 2].map(|argument| own_array(&mut owned, call, argument, count));
        let (to, from, sizes) = (to?, from?, sizes?);
        let given = own_array(&mut owned, call, 4, ATTRIBUTE_WORDS * attributes)?;
        own_array(&mut owned, call, 5, attributes)?;
        if call.size(7) != 0 {
            // The caller's variable may be gone when the call is made, and the stream's next call returns its
            // failure.
            owned.own_words(7, &[0])?;
        }
        let orders = given.get().iter().step_by(ATTRIBUTE_WORDS).map(|word| *word as u32);
        if !orders.into_iter().all(|order| ORDERS_OF_LATER.contains(&order)) {
            return None;
        }
        for ((&to, &from), &bytes) in to.get().iter().zip(from.get()).zip(sizes.get()) {
            let memory = |address: u64| End::Memory { address: address as usize, bytes: bytes as usize };
            check_copy(copy, memory(to), memory(from), DEFAULT)?;
        }
    }
    shallow_if_planted(call, owned)
}

/// `hipMemcpy3DBatchAsync`: number of copies, the copies, where the index of the first failure is written, flags, the
/// stream.
fn boxes<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<O> {
    const WORDS: usize = size_of::<BoxOperation>() / size_of::<u64>();
    let count = call.size(0);
    let is_formed = (1..=COUNT_MAX).contains(&count) && call.word(3) == 0;
    if !is_formed || !matches!(call.stream_name(), StreamName::Created(_)) {
        return None;
    }
    let mut owned = O::of(call, WORDS * count + 1)?;
    // SAFETY: as above.
    let operations = unsafe { own_array(&mut owned, call, 1, WORDS * count)?.get() };
    if call.size(2) != 0 {
        owned.own_words(2, &[0])?;
    }
    // SAFETY: the array has the words of `count` operations, and any words are an operation.
    let operations = unsafe { slice::from_raw_parts(operations.as_ptr().cast::<BoxOperation>(), count) };
    for operation in operations {
        if !ORDERS_OF_LATER.contains(&operation.order) {
            return None;
        }
        check_operation(copy, operation)?;
    }
    if is_planted(Bug::ShallowBoxes) {
        return O::of(call, 0);
    }
    shallow_if_planted(call, owned)
}

/// Words of `hipStreamBatchMemOpParams`: operation, address, value, flags, and two that are not read.
const OPERATION_WORDS: usize = 6;
/// `hipStreamMemOpWaitValue32`, `.. WriteValue32`, `.. WaitValue64`, `.. WriteValue64`
const WAIT_32: u32 = 1;
const WRITE_32: u32 = 2;
const WAIT_64: u32 = 4;
const WRITE_64: u32 = 5;

/// `hipStreamBatchMemOp`: the stream, number of operations, the operations, flags.
fn operations<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<O> {
    let count = call.int(1) as usize;
    if !(1..=COUNT_MAX).contains(&count) || call.int(3) != 0 {
        return None;
    }
    let mut owned = O::of(call, OPERATION_WORDS * count)?;
    // SAFETY: as above.
    let words = unsafe { own_array(&mut owned, call, 2, OPERATION_WORDS * count)?.get() };
    for operation in words.as_chunks::<OPERATION_WORDS>().0 {
        let [operation, address, _, flags, ..] = *operation;
        let (bytes, flags_max) = shape(operation as u32)?;
        is_word(copy, address as usize, bytes).filter(|()| flags as u32 <= flags_max)?;
    }
    shallow_if_planted(call, owned)
}

/// Bytes of the word, and the largest flag that does not change what the operation does. None for other operations.
fn shape(operation: u32) -> Option<(usize, u32)> {
    match operation {
        WAIT_32 => Some((4, 3)),
        WRITE_32 => Some((4, 0)),
        WAIT_64 => Some((8, 3)),
        WRITE_64 => Some((8, 0)),
        _ => None,
    }
}

/// An array that a call owns.
#[derive(Clone, Copy)]
struct OwnArray {
    address: u64,
    words: usize,
}

impl OwnArray {
    /// # Safety
    /// The call must exist for as long, and no more memory be made its own.
    unsafe fn get<'a>(self) -> &'a [u64] {
        // SAFETY: so many words, by the caller's promise.
        unsafe { slice::from_raw_parts(self.address as *const u64, self.words) }
    }
}

/// Makes the call own an argument that is an array of words; None if it is null.
///
/// # Safety
/// The argument must be null or point to `words` words.
unsafe fn own_array<O: Owner>(
    owned: &mut O,
    call: &Stopped<'_>,
    argument: usize,
    words: usize,
) -> Option<OwnArray> {
    let given = call.size(argument) as *const u64;
    if given.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let address = owned.own_words(argument, unsafe { slice::from_raw_parts(given, words) })?;
    Some(OwnArray { address, words })
}

/// The call, or with a planted bug one with the caller's arrays.
fn shallow_if_planted<O: Owner>(call: &Stopped<'_>, owned: O) -> Option<O> {
    if is_planted(Bug::ShallowStructure) { O::of(call, 0) } else { Some(owned) }
}
