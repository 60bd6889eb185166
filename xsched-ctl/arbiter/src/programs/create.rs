//! Loads the programs and pins them.

use std::io;
use std::os::fd::AsFd as _;

use aya::maps::{Array, Map, MapData};
use aya::programs::links::FdLink;
use aya::programs::{ProgramError, RawTracePoint, UProbe};
use aya::{Ebpf, EbpfLoader};
use xsched_bpf::sys;
use xsched_programs::{ARBITER, KernelTypes};
use xsched_protocol::arbiter_page::{AtomicWords, KernelOffsets, PAGE_MAGIC, PAGE_VERSION, Word, Words as _};

use super::error::ProgramsError;
use super::pins::Pins;
use crate::page::Page;
use crate::times::Times;

/// The last pin: if it exists, all pins exist.
pub(super) const LAST: &str = "exit";

const UPROBES: [&str; 2] = ["report", "control"];

/// Programs, their tracepoints, and the names of their links.
const TRACEPOINTS: [(&str, &str, &str); 2] =
    [("process_exec", "sched_process_exec", "exec"), ("process_exit", "sched_process_exit", LAST)];

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Offsets(KernelOffsets);

// SAFETY: the struct has two numbers of 32 bits and no padding, and all values are valid.
unsafe impl aya::Pod for Offsets {}

/// A hash that distinguishes builds of the programs (FNV-1a).
pub(super) fn fingerprint() -> u64 {
    ARBITER
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Loads and attaches the programs for a moment, beside those of a controller that may be running. What `serve` would find.
///
/// # Errors
///
/// What would keep `serve` from using programs.
pub fn try_programs() -> Result<(), ProgramsError> {
    super::pins::check()?;
    let (mut object, _) = load()?;
    super::control::probe(program(&mut object, "control"))?;
    for (name, tracepoint, _) in TRACEPOINTS {
        let program: &mut RawTracePoint = program(&mut object, name);
        program.attach(tracepoint).map_err(|cause| refused(name, cause))?;
    }
    Ok(())
}

/// Loads the programs, and finds out what they need to know of this kernel.
fn load() -> Result<(Ebpf, KernelOffsets), ProgramsError> {
    let mut object = EbpfLoader::new().load(ARBITER)?;
    // Before the maps are taken out of the object, because loading a program needs them there.
    for name in UPROBES {
        program::<UProbe>(&mut object, name).load().map_err(|cause| refused(name, cause))?;
    }
    for (name, ..) in TRACEPOINTS {
        program::<RawTracePoint>(&mut object, name).load().map_err(|cause| refused(name, cause))?;
    }
    Ok((object, KernelTypes::read()?.thread_count_offsets()?))
}

/// Creates all pins, in an order in which an incomplete set lacks the last one.
pub(super) fn create(pins: &Pins, times: &Times) -> Result<(), ProgramsError> {
    let (mut object, offsets) = load()?;
    let mut kernel: Array<_, Offsets> = take(&mut object, "KERNEL")
        .try_into()
        .map_err(|cause| ProgramsError::Map { map: "KERNEL", cause })?;
    kernel.set(0, Offsets(offsets), 0).map_err(|cause| ProgramsError::Map { map: "KERNEL", cause })?;
    let Map::Array(page) = take(&mut object, "PAGE") else { unreachable!("the page is an array") };
    initialise(&page, times).map_err(ProgramsError::Page)?;
    let maps = [
        ("EXPECTED", "expected"),
        ("OWNERS", "owners"),
        ("EVENTS", "events"),
        ("GATES", "gates"),
        ("WAKE_UPS", "wake_ups"),
    ];
    for (map, name) in maps {
        let (Map::HashMap(data) | Map::RingBuf(data) | Map::ArrayOfMaps(data)) = take(&mut object, map)
        else {
            unreachable!("the maps have these types")
        };
        pin_map(pins, &data, name)?;
    }
    pin_map(pins, &page, "page")?;
    for name in UPROBES {
        let program: &mut UProbe = program(&mut object, name);
        program.pin(pins.path(name)).map_err(|error| ProgramsError::pin(name, error))?;
    }
    for (name, tracepoint, pin) in TRACEPOINTS {
        let program: &mut RawTracePoint = program(&mut object, name);
        let link = program.attach(tracepoint).and_then(|id| program.take_link(id));
        let link: FdLink = link.map_err(|cause| refused(name, cause))?.into();
        link.pin(pins.path(pin)).map_err(|error| ProgramsError::pin(pin, error))?;
    }
    Ok(())
}

/// Initialises the page and freezes it: from now on only the programs can write it.
fn initialise(map: &MapData, times: &Times) -> io::Result<()> {
    {
        let page = Page::map(map.fd().as_fd(), true)?;
        let words = AtomicWords::new(page.words());
        words.store(Word::MAGIC, PAGE_MAGIC);
        words.store(Word::VERSION, PAGE_VERSION);
        words.store(Word::PROGRAMS, fingerprint());
        words.store(Word::LEASE, times.lease_ns());
        words.store(Word::LINGER, times.linger_ns());
        words.store(Word::SILENCE, times.silence_ns());
    }
    sys::freeze(map.fd().as_fd())
}

fn take(object: &mut Ebpf, name: &str) -> Map {
    object.take_map(name).expect("the object has all maps")
}

fn program<'a, P>(object: &'a mut Ebpf, name: &str) -> &'a mut P
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let program = object.program_mut(name).expect("the object has all programs");
    program.try_into().expect("the object's programs have fixed types")
}

fn refused(program: &'static str, cause: ProgramError) -> ProgramsError {
    ProgramsError::Program { program, cause: Box::new(cause) }
}

fn pin_map(pins: &Pins, map: &MapData, name: &str) -> Result<(), ProgramsError> {
    map.pin(pins.path(name)).map_err(|error| ProgramsError::pin(name, error))
}
