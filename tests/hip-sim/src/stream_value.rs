//! Words in memory that a stream waits for or writes, one by one or in batches.

use core::ffi::c_void;

use crate::abi::{hipError_t, hipStream_t, hipStreamBatchMemOpParams};
use crate::error::HipError;
use crate::operation::Operation;
use crate::{boundary, capture, config, stream};

mod batch;

pub(crate) use batch::Batch;
use batch::{Action, Word, condition};

fn submit(stream: hipStream_t, batch: Batch) -> Result<(), HipError> {
    let stream = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
    if stream.is_captured()? {
        return capture::add(&stream, Operation::Values(batch));
    }
    if !config::get().null {
        stream.submit(batch.command(stream.device()));
    }
    Ok(())
}

fn wait(
    stream: hipStream_t,
    address: *mut c_void,
    is_64_bit: bool,
    value: u64,
    flags: u32,
    mask: u64,
) -> Result<(), HipError> {
    let action = Action::Wait { condition: condition(flags)?, mask };
    submit(stream, Batch(vec![Word::new(address, is_64_bit, value, action)?]))
}

fn write(stream: hipStream_t, address: *mut c_void, is_64_bit: bool, value: u64) -> Result<(), HipError> {
    submit(stream, Batch(vec![Word::new(address, is_64_bit, value, Action::Write)?]))
}

/// `hipStreamWaitValue32`
pub(crate) unsafe extern "C" fn wait_32(
    stream: hipStream_t,
    address: *mut c_void,
    value: u32,
    flags: u32,
    mask: u32,
) -> hipError_t {
    boundary::call(|| wait(stream, address, false, u64::from(value), flags, u64::from(mask)))
}

/// `hipStreamWaitValue64`
pub(crate) unsafe extern "C" fn wait_64(
    stream: hipStream_t,
    address: *mut c_void,
    value: u64,
    flags: u32,
    mask: u64,
) -> hipError_t {
    boundary::call(|| wait(stream, address, true, value, flags, mask))
}

/// `hipStreamWriteValue32`: flags are ignored, as in the genuine runtime.
pub(crate) unsafe extern "C" fn write_32(
    stream: hipStream_t,
    address: *mut c_void,
    value: u32,
    _flags: u32,
) -> hipError_t {
    boundary::call(|| write(stream, address, false, u64::from(value)))
}

/// `hipStreamWriteValue64`
pub(crate) unsafe extern "C" fn write_64(
    stream: hipStream_t,
    address: *mut c_void,
    value: u64,
    _flags: u32,
) -> hipError_t {
    boundary::call(|| write(stream, address, true, value))
}

/// `hipStreamBatchMemOp`
pub(crate) unsafe extern "C" fn batch(
    stream: hipStream_t,
    count: u32,
    params: *mut hipStreamBatchMemOpParams,
    flags: u32,
) -> hipError_t {
    boundary::call(|| {
        if flags != 0 {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller upholds this function's contract.
        submit(stream, unsafe { Batch::new(count, params) }?)
    })
}

#[cfg(test)]
mod tests {
    use core::ptr;
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::engine::{Command, Condition, Queue, Work, clock};
    use crate::memory::{self, Kind};
    use crate::{devices, isolated, stream};

    #[test]
    fn a_stream_waits_for_a_word_that_another_writes() {
        let memory = memory::known().allocate(16, Kind::Host, 0).unwrap();
        let (mut waiting, mut writing) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: local out-parameters, a live allocation, live handles.
        unsafe {
            assert_eq!(stream::create_with_flags(&raw mut waiting, 1), 0);
            assert_eq!(stream::create_with_flags(&raw mut writing, 1), 0);
            assert_eq!(wait_64(waiting, memory, 7, 1, u64::MAX), 0);
            assert_eq!(write_64(waiting, memory.wrapping_byte_add(8), 1, 0), 0);
            assert_eq!(stream::query(waiting), HipError::NotReady.code());
            assert_eq!(write_64(writing, memory, 7, 0), 0);
            assert_eq!(stream::synchronize(waiting), 0);
            assert_eq!(memory.cast::<u64>().add(1).read(), 1);
        }
    }

    /// A stream that shares its hardware queue with others waits; the others continue after the host has
    /// written. `allocate` provides the memory for the word.
    fn waits_with_all_of_its_hardware_queue(allocate: fn() -> *mut c_void) {
        let memory = allocate();
        let [waiting, other] = [(), ()].map(|()| {
            let mut stream = ptr::null_mut();
            // SAFETY: a local out-parameter.
            assert_eq!(unsafe { stream::create_with_flags(&raw mut stream, 1) }, 0);
            stream
        });
        let submit = |stream| {
            let work = Work::Kernel { units: 1, duration_ns: 1000 };
            let stream = stream::resolve(stream).unwrap();
            stream.submit(Command::on_device(work, || ()))
        };
        // SAFETY: live handles, a live allocation.
        unsafe {
            assert_eq!(wait_32(waiting, memory, 1, 0, u32::MAX), 0);
            let own = submit(waiting);
            let others = submit(other);
            thread::sleep(Duration::from_millis(20));
            assert_eq!((own.poll(), others.poll()), (None, None));
            let written_ns = clock::now_ns();
            AtomicU32::from_ptr(memory.cast()).store(1, Ordering::Release);
            assert!(own.wait().start_ns >= written_ns && others.wait().start_ns >= written_ns);
        }
    }

    #[test]
    fn a_wait_for_the_host_blocks_the_whole_hardware_queue() {
        isolated::run(&[("HIP_SIM_QUEUES", "1")], || {
            waits_with_all_of_its_hardware_queue(|| memory::known().allocate(8, Kind::Host, 0).unwrap());
        });
    }

    /// A memfd, mapped twice; the first mapping is registered with HIP.
    fn new_registered() -> [*mut c_void; 2] {
        // SAFETY: new mappings of a new file, which stay; a local out-parameter.
        unsafe {
            let file = libc::memfd_create(c"words".as_ptr(), 0);
            assert_eq!(libc::ftruncate(file, 4096), 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let mappings =
                [(); 2].map(|()| libc::mmap(ptr::null_mut(), 4096, access, libc::MAP_SHARED, file, 0));
            assert!(!mappings.contains(&libc::MAP_FAILED));
            let _ = mappings[0].expose_provenance();
            assert_eq!(memory::host_register(mappings[0], 4096, 2), 0);
            let mut device = ptr::null_mut();
            assert_eq!(memory::host_device_pointer(&raw mut device, mappings[0], 0), 0);
            [device, mappings[1]]
        }
    }

    #[test]
    fn a_wait_for_registered_memory_blocks_the_whole_hardware_queue() {
        isolated::run(&[("HIP_SIM_QUEUES", "1")], || {
            waits_with_all_of_its_hardware_queue(|| new_registered()[0]);
        });
    }

    /// Isolated, because other threads must not change mappings meanwhile.
    #[test]
    fn memory_is_registered_with_any_flags_and_forgotten_and_only_if_it_is_writable() {
        isolated::run(&[], registering);
    }

    fn registering() {
        let memory = new_registered()[0];
        // SAFETY: addresses are looked up, not dereferenced; the mapping that is removed is this test's.
        unsafe {
            for flags in [0, 1, 2, 3] {
                assert_eq!(memory::host_unregister(memory), 0);
                assert_eq!(memory::host_register(memory, 4096, flags), 0);
            }
            let again = memory::host_register(memory, 4096, 0);
            assert_eq!(again, HipError::HostMemoryAlreadyRegistered.code());
            assert_eq!(memory::host_unregister(memory), 0);
            let wait = || wait_64(ptr::null_mut(), memory, 0, 0, u64::MAX);
            assert_eq!(wait(), HipError::InvalidValue.code());
            assert_eq!(libc::mprotect(memory, 4096, libc::PROT_READ), 0);
            assert_eq!(memory::host_register(memory, 4096, 0), HipError::InvalidValue.code());
            assert_eq!(libc::munmap(memory, 4096), 0);
            for (address, size) in [(memory, 4096), (memory.wrapping_byte_add(8), 8)] {
                assert_eq!(memory::host_register(address, size, 0), HipError::InvalidValue.code());
            }
        }
    }

    /// Each kind of wait ends by a write through another mapping, of which HIP is not notified.
    #[test]
    fn registered_words_open_gates_however_they_are_written() {
        let [registered, elsewhere] = new_registered();
        let mut stream = ptr::null_mut();
        // SAFETY: a local out-parameter.
        assert_eq!(unsafe { stream::create_with_flags(&raw mut stream, 1) }, 0);
        let cases: [(u32, u64, u64, &[u64]); 4] = [
            (0, 5, u64::MAX, &[4, 5]),
            (1, 5, 0xff, &[5 << 8, 1 << 40 | 5]),
            (2, 6, u64::MAX, &[9, 2]),
            (3, 1, 3, &[2, 1]),
        ];
        for (flags, value, mask, written) in cases {
            for is_64_bit in [true, false] {
                // SAFETY: this test's mappings, live handles.
                unsafe {
                    let word = AtomicU64::from_ptr(elsewhere.cast());
                    word.store(written[0], Ordering::Release);
                    let waiting = if is_64_bit {
                        wait_64(stream, registered, value, flags, mask)
                    } else {
                        wait_32(stream, registered, value as u32, flags, mask as u32)
                    };
                    assert_eq!(waiting, 0);
                    thread::sleep(Duration::from_millis(2));
                    assert_eq!(stream::query(stream), HipError::NotReady.code(), "{flags} {written:?}");
                    word.store(written[1], Ordering::Release);
                    assert_eq!(stream::synchronize(stream), 0);
                }
            }
        }
    }

    fn new_signal() -> *mut c_void {
        let mut signal = ptr::null_mut();
        // SAFETY: a local out-parameter.
        assert_eq!(unsafe { memory::malloc_with_flags(&raw mut signal, 8, 2) }, 0);
        signal
    }

    #[test]
    fn a_wait_for_a_signal_blocks_the_whole_hardware_queue() {
        isolated::run(&[("HIP_SIM_QUEUES", "1")], || waits_with_all_of_its_hardware_queue(new_signal));
    }

    #[test]
    fn a_signal_can_be_used_like_other_memory() {
        let signal = new_signal();
        // SAFETY: a live allocation, then one that is freed.
        unsafe {
            assert_eq!(signal.cast::<u64>().read(), 0);
            assert_eq!(write_64(ptr::null_mut(), signal, 7, 0), 0);
            assert_eq!(stream::synchronize(ptr::null_mut()), 0);
            assert_eq!(signal.cast::<u64>().read(), 7);
            assert_eq!(memory::free(signal), 0);
            assert_eq!(memory::free(signal), HipError::InvalidValue.code());
        }
    }

    /// The gap between two kernels with an open gate between them.
    fn gap_ns(memory: *mut c_void) -> u64 {
        let queue = Queue::new(0, Arc::clone(&devices::all()[0].engine), 0);
        let kernel = || Command::kernel(300_000, || ());
        let action = Action::Wait { condition: Condition::AtLeast, mask: u64::MAX };
        let open = Word::new(memory, true, 0, action).unwrap();
        // All commands are submitted before the first begins.
        let (hold, go) = Command::gate();
        queue.submit(hold);
        let before = queue.submit(kernel());
        queue.submit(Batch(vec![open]).command(0));
        let behind = queue.submit(kernel());
        drop(go);
        behind.wait().start_ns - before.wait().end_ns
    }

    #[test]
    fn an_open_gate_leaves_no_gap_between_kernels() {
        isolated::run(&[], || {
            assert_eq!(gap_ns(memory::known().allocate(8, Kind::Host, 0).unwrap()), 0);
            assert_eq!(gap_ns(new_signal()), 0);
            assert_eq!(gap_ns(new_registered()[0]), 0);
        });
    }

    #[test]
    fn a_word_must_lie_in_memory_that_hip_knows() {
        let mut local = 0_u64;
        let address = (&raw mut local).cast();
        // SAFETY: the address is looked up, not dereferenced.
        let code = unsafe { write_64(ptr::null_mut(), address, 1, 0) };
        assert_eq!(code, HipError::InvalidValue.code());
    }
}
