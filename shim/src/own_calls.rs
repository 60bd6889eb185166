//! Launches that the process records itself, for a tracer that has asked the controller.
//!
//! The tracer's probes are on the functions that the runtime exports. Those of a runtime with dispatch tables jump through the
//! table and do nothing else. So a call that came by the shim's export can go on behind the probe, and be recorded here. Whatever
//! cannot be recorded exactly as the probe would goes to the probe: no call takes both ways. `xsched_protocol::calls` has the
//! memory, the tracer's `DESIGN.md` the reasons.

use std::cell::Cell;
use std::os::fd::{AsFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU8, AtomicU64, Ordering};

use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use xsched_protocol::calls::{
    ARGUMENTS, CALLS_OFFSET, CALLS_SIZE, CallMemory, FILE_SIZE, OwnCall, PLACE_COUNT, Recorder, is_prepared,
    walks,
};
use xsched_protocol::return_probe::is_trampoline;
use xsched_xqueue::{check_seals, now, thread_id};

use crate::abi::Frame;
use crate::api::{ApiFunction, Class, Family, Id};
use crate::reentry::inside_hook;
use crate::runtime::copies::Target;
use crate::runtime::sites::Original;
use crate::verdict;

/// Whether launches may be recorded: exports of launches read it in assembly.
pub(crate) static IS_ON: AtomicU8 = AtomicU8::new(0);

/// Where the memory is mapped, if it ever was. As with the verdict page, that of a later recording replaces the first one's at the
/// same address: so no thread that is using it is waited for.
static MAPPED: AtomicPtr<CallMemory> = AtomicPtr::new(ptr::null_mut());

/// The number of the recording. A call that began in another is not recorded, like one that began before probes were there.
static RECORDING: AtomicU64 = AtomicU64::new(0);

/// What the machine's boot time is ahead of the clock here.
static AHEAD_NS: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// The recording in which this thread has gone to a probe: so the tracer has the kernel's word for the thread's id.
    static KNOWN_IN: Cell<u64> = const { Cell::new(0) };
}

/// Registers that hold arguments.
const REGISTERS: usize = 6;

/// A launch that is recorded here.
pub(crate) struct Begun {
    recorder: Recorder<'static>,
    recording: u64,
    place: usize,
    call: OwnCall,
    /// The real function, behind the probe.
    pub(crate) target: Target,
}

/// Calls go to this memory from now on, with times that are so much ahead of the clock here; None: nowhere.
pub(crate) fn record(memory: Option<(&OwnedFd, i64)>) {
    IS_ON.store(0, Ordering::Release);
    let Some((file, ahead_ns)) = memory else { return };
    // A controller of another version has no memory for calls.
    let is_large = fstat(file).is_ok_and(|status| status.st_size >= FILE_SIZE as i64);
    if !is_large || check_seals(file.as_fd()).is_err() || !map(file) {
        return;
    }
    AHEAD_NS.store(ahead_ns, Ordering::Relaxed);
    RECORDING.fetch_add(1, Ordering::AcqRel);
    IS_ON.store(1, Ordering::Release);
}

/// Maps the memory. False if it cannot be used.
fn map(file: &OwnedFd) -> bool {
    let before = MAPPED.load(Ordering::Relaxed);
    let fixed = if before.is_null() { MapFlags::empty() } else { MapFlags::FIXED };
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | fixed);
    // SAFETY: at an address of the kernel's choice, or over the shim's own mapping of the same size, whose users expect words to
    // change.
    let mapped = unsafe { mmap(before.cast(), CALLS_SIZE, access, flags, file, CALLS_OFFSET as u64) };
    let Ok(mapped) = mapped else { return false };
    MAPPED.store(mapped.cast(), Ordering::Release);
    memory().is_some_and(is_prepared)
}

fn memory() -> Option<&'static CallMemory> {
    // SAFETY: null, or mapped for good with this size, by a file that is sealed against shrinking. Any words are values.
    unsafe { MAPPED.load(Ordering::Acquire).as_ref() }
}

/// Whether launches may be recorded here.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire) != 0
}

/// Begins a call that came by an export of a copy with dispatch tables, if it can be recorded here.
#[inline]
pub(crate) fn begin(function: &ApiFunction, frame: &Frame, original: &Original) -> Option<Begun> {
    if !is_recorded(function) || inside_hook() || is_trampoline(frame.return_address) {
        return None;
    }
    let recorder = Recorder::new(memory()?);
    let recording = RECORDING.load(Ordering::Acquire);
    let is_known = KNOWN_IN.try_with(|known| known.replace(recording) == recording).unwrap_or(false);
    if !is_known || original.caller_is_runtime || !recorder.wants() {
        return None;
    }
    let copy = original.copy?;
    let target = Target { address: copy.behind_table(function.id)?, copy: Some(copy) };
    let chain = chain(recorder, frame)?;
    let place = verdict::thread_slot().filter(|&place| place < PLACE_COUNT)?;
    let call = OwnCall {
        probe: verdict::probe(function)?.into(),
        tid: thread_id(),
        caller: frame.return_address,
        chain,
        words: words(function, frame),
        // Last, so that the search does not count as the call's.
        begin_ns: now_ns(),
        end_ns: 0,
        ret: 0,
    };
    recorder.begin(place, &call);
    Some(Begun { recorder, recording, place, call, target })
}

impl Begun {
    /// The call has returned this.
    #[inline]
    pub(crate) fn finish(mut self, ret: u64) {
        let Self { recorder, place, ref mut call, .. } = self;
        (call.end_ns, call.ret) = (now_ns(), ret);
        recorder.end(place);
        if is_on() && RECORDING.load(Ordering::Acquire) == self.recording {
            recorder.write(call);
        }
    }
}

/// Launches whose arguments are words, and in the runtime's table.
fn is_recorded(function: &ApiFunction) -> bool {
    match function.id {
        // What they launch lies in a structure, which the programs copy.
        Id::hipLaunchKernelExC | Id::hipDrvLaunchKernelEx => false,
        Id::hipGraphLaunch | Id::hipGraphLaunch_spt => true,
        _ => function.family == Family::launch && function.class == Class::deferrable,
    }
}

/// The id of the call's chain, if the tracer has published a walk that the stack agrees with.
#[inline]
fn chain(recorder: Recorder<'_>, frame: &Frame) -> Option<u64> {
    let generation = verdict::mapped_code()?;
    if !recorder.holds_under(generation) {
        recorder.has_seen(generation);
        return None;
    }
    let rsp = frame.stack_arguments().addr() as u64;
    let start = walks::Start { rip: frame.return_address, rsp, rbp: frame.base_pointer };
    let below = frame.stack_arguments();
    recorder.find(start, |address| {
        let at = below.wrapping_byte_offset(address.wrapping_sub(rsp).cast_signed() as isize);
        // SAFETY: the stack has all frames of the walk up to this one, as the words of those say, and the walk has read this word of
        // it. It is this thread's stack, of which no caller runs meanwhile.
        unsafe { at.read_volatile() }
    })
}

/// The words of the arguments; those of the stack as far as the function has them.
#[inline]
fn words(function: &ApiFunction, frame: &Frame) -> [u64; ARGUMENTS] {
    let mut words = [0; ARGUMENTS];
    words[..REGISTERS].copy_from_slice(&frame.general);
    let on_stack = function.stack_words.min(ARGUMENTS - REGISTERS);
    for (index, word) in words[REGISTERS..].iter_mut().take(on_stack).enumerate() {
        // SAFETY: the function takes so many words of stack, so its caller has put them there.
        *word = unsafe { frame.stack_arguments().wrapping_add(index).read() };
    }
    words
}

/// The time of records.
#[inline]
fn now_ns() -> u64 {
    now().0.saturating_add_signed(AHEAD_NS.load(Ordering::Relaxed))
}

/// In a forked child: the memory is its parent's.
pub(crate) fn renew_after_fork() {
    IS_ON.store(0, Ordering::Release);
}
