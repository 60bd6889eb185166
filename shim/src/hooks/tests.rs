use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::abi::{Dim3, Extent, HipError, PitchedPtr, Stream};
use crate::api::{Class, Id, TABLE};
use crate::defer::finding_tests::{is_known, with_failure};
use crate::hooks::list::HOOKS;
use crate::runtime::copies::{ORIGINALS, RuntimeCopy};

/// A stopped call with its stack arguments behind it, as on a real stack.
#[repr(C)]
struct Stopped {
    frame: Frame,
    stack: [u64; 16],
}

impl Stopped {
    fn new(general: [u64; 6], stack: &[u64]) -> Self {
        let mut words = [0xdead_beef_dead_beef; 16];
        words[..stack.len()].copy_from_slice(stack);
        let vector =
            std::array::from_fn(|n| [u64::from((n as f32 + 0.5).to_bits()) | 0xffff << 32, u64::MAX]);
        let frame = Frame { vector, base_pointer: 0, padding: 0, general, id: 0, return_address: 0 };
        Self { frame, stack: words }
    }

    /// # Safety
    /// The call must have these arguments.
    unsafe fn read<A: Args>(&self) -> A {
        // A pointer to the whole value, so that the reader may go on from the frame into the stack.
        let frame = std::ptr::from_ref(self).cast::<Frame>();
        // SAFETY: the frame is the first field; the arguments are the caller's promise.
        unsafe { A::read(&*frame, Box::leak(Box::new(Layout::new(A::PASSED, None)))) }
    }
}

type Launch = unsafe extern "C" fn(u32, Stream) -> HipError;

/// These hooks decide without the real function.
fn nowhere() -> Target {
    Target { address: std::ptr::null_mut(), copy: None }
}

fn run_launch(hook: fn(&Call<'_, Launch>) -> Outcome<HipError>) -> Outcome<u64> {
    let stopped = Stopped::new([7, 0x5000, 0, 0, 0, 0], &[]);
    // SAFETY: the frame is made for this signature; the function's name is all that is used.
    unsafe { run(&TABLE[Id::hipLaunchKernel as usize], &stopped.frame, nowhere(), hook) }
}

#[test]
fn a_result_goes_to_the_caller() {
    let outcome = run_launch(|call| {
        assert_eq!(call.args.0, 7);
        assert_eq!(call.args.1.0.addr(), 0x5000);
        Outcome::Done(HipError(719))
    });
    assert_eq!(outcome, Outcome::Done(719));
}

#[test]
fn a_panic_passes_the_call_on_and_leaves_the_hook() {
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(run_launch(|_| panic!("on purpose")), Outcome::Pass(Reason::Panicked));
    let _ = std::panic::take_hook();
    assert_eq!(run_launch(|_| Outcome::Done(HipError(0))), Outcome::Done(0));
}

#[test]
fn a_call_from_inside_a_hook_is_passed_on() {
    let outer = run_launch(|_| {
        assert_eq!(run_launch(|_| Outcome::Done(HipError(0))), Outcome::Pass(Reason::Reentered));
        Outcome::Done(HipError(1))
    });
    assert_eq!(outer, Outcome::Done(1));
}

#[test]
fn a_call_while_thread_locals_are_destroyed_still_has_an_answer() {
    struct CallsHip;
    impl Drop for CallsHip {
        fn drop(&mut self) {
            let outcome = run_launch(|_| Outcome::Done(HipError(0)));
            assert_eq!(outcome, Outcome::Done(0));
        }
    }
    thread_local!(static LAST: CallsHip = const { CallsHip });
    std::thread::spawn(|| LAST.with(|_| ())).join().unwrap();
}

#[test]
fn arguments_go_on_the_stack_when_registers_run_out() {
    // hipExtLaunchKernel's order: a pointer, two dim3 in pairs, a pointer, then words on the stack.
    let stopped = Stopped::new([0x10, 0x2_0000_0001, 3, 0x5_0000_0004, 6, 0x20], &[64, 0x7000]);
    // SAFETY: any words are values of these types.
    let (function, grid, block, args, shared_bytes, stream): (u64, Dim3, Dim3, u64, usize, Stream) =
        unsafe { stopped.read() };
    assert_eq!((function, grid, block), (0x10, Dim3 { x: 1, y: 2, z: 3 }, Dim3 { x: 4, y: 5, z: 6 }));
    assert_eq!((args, shared_bytes, stream.0.addr()), (0x20, 64, 0x7000));
}

#[test]
fn a_pair_is_not_split_and_leaves_its_register_to_the_next() {
    let stopped = Stopped::new([1, 2, 3, 4, 5, 6], &[0x8_0000_0007, 9, 10]);
    // SAFETY: as above.
    let (_, _, _, _, fifth, pair, last, stack): (u64, u64, u64, u64, u64, Dim3, u64, u64) =
        unsafe { stopped.read() };
    assert_eq!(fifth, 5);
    assert_eq!(pair, Dim3 { x: 7, y: 8, z: 9 });
    assert_eq!((last, stack), (6, 10));
}

#[test]
fn large_structures_lie_on_the_stack_between_words_in_registers() {
    // hipMemset3DAsync: a structure, a word, a structure, a word.
    let stopped = Stopped::new([0xab, 0x9000, 0, 0, 0, 0], &[0x1000, 512, 100, 4, 100, 4, 2]);
    // SAFETY: as above.
    let (pitched, value, extent, stream): (PitchedPtr, u32, Extent, Stream) = unsafe { stopped.read() };
    assert_eq!((pitched.address, pitched.pitch, pitched.xsize, pitched.ysize), (0x1000, 512, 100, 4));
    assert_eq!(extent, Extent { width: 100, height: 4, depth: 2 });
    assert_eq!((value, stream.0.addr()), (0xab, 0x9000));
}

#[test]
fn floats_come_from_vector_registers_and_narrow_words_lose_their_upper_bits() {
    let stopped = Stopped::new([0x77ff_ffff_ffff_ff41, 2, 0, 0, 0, 0], &[]);
    // SAFETY: as above.
    let (byte, first, second, word): (u8, f32, f32, u64) = unsafe { stopped.read() };
    assert_eq!((byte, first, second, word), (0x41, 0.5, 1.5, 2));
}

#[test]
fn kinds_of_streams_are_distinguished() {
    let stopped = Stopped::new([0; 6], &[]);
    let kind = |id: Id, stream: usize| {
        let args = (0, Stream(std::ptr::without_provenance_mut(stream)));
        Call::<Launch> { function: &TABLE[id as usize], target: nowhere(), frame: &stopped.frame, args }
            .stream_kind()
    };
    assert_eq!(kind(Id::hipLaunchKernel, 0), StreamKind::Legacy);
    assert_eq!(kind(Id::hipLaunchKernel, 1), StreamKind::Legacy);
    assert_eq!(kind(Id::hipLaunchKernel, 2), StreamKind::PerThread);
    assert_eq!(kind(Id::hipLaunchKernel, 0x5555_0000), StreamKind::Created);
    assert_eq!(kind(Id::hipLaunchKernel_spt, 0), StreamKind::PerThread);
    assert_eq!(kind(Id::hipLaunchKernel_spt, 1), StreamKind::PerThread, "as in ROCm 6.4 and 7.2");
    assert_eq!(kind(Id::hipLaunchKernel_spt, 2), StreamKind::PerThread);
}

/// After that the handle may be another stream's at once.
#[test]
fn a_stream_is_forgotten_before_its_handle_is_given_back() {
    // No other test uses this copy.
    const COPY: usize = 1;
    static WAS_KNOWN: AtomicBool = AtomicBool::new(true);
    extern "C" fn first_device(device: &mut i32) -> u32 {
        *device = 0;
        0
    }
    extern "C" fn destroy(stream: Stream) -> u32 {
        WAS_KNOWN.store(is_known(RuntimeCopy::at(COPY), stream), Ordering::SeqCst);
        0
    }
    let copy = RuntimeCopy::at(COPY);
    ORIGINALS[COPY][Id::hipGetDevice as usize].store(first_device as *mut _, Ordering::Release);
    with_failure(copy, Stream(std::ptr::without_provenance_mut(0x5000)), 719);
    let stopped = Stopped::new([0x5000, 0, 0, 0, 0, 0], &[]);
    let target = Target { address: destroy as *mut _, copy: Some(copy) };
    let function = &TABLE[Id::hipStreamDestroy as usize];
    let hook = stream::drains::<unsafe extern "C" fn(Stream) -> HipError>;
    // SAFETY: the frame is made for this signature, which the function has.
    let outcome = unsafe { run(function, &stopped.frame, target, hook) };
    assert_eq!((outcome, WAS_KNOWN.load(Ordering::SeqCst)), (Outcome::Done(719), false));
}

#[test]
fn every_function_that_does_not_pass_has_a_hook() {
    for (function, hook) in TABLE.iter().zip(&HOOKS) {
        assert_eq!(hook.is_none(), function.class == Class::passes, "{:?}", function.name);
    }
}
