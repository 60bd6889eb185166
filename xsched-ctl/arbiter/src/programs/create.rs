//! Loads the programs and pins them.

use std::io;
use std::os::fd::AsFd as _;

use aya::maps::{Array, Map, MapData};
use aya::pin::PinError;
use aya::programs::links::FdLink;
use aya::programs::{ProgramError, RawTracePoint, UProbe};
use aya::{Ebpf, EbpfLoader};
use xsched_bpf::sys;
use xsched_programs::{ARBITER, KernelTypes};
use xsched_protocol::arbiter_page::{AtomicWords, KernelOffsets, PAGE_MAGIC, PAGE_VERSION, Word, Words as _};

use super::ProgramsError;
use super::pins::Pins;
use crate::page::Page;
use crate::times::Times;

/// What is pinned last: where it is, everything is.
pub(super) const LAST: &str = "exit";

const UPROBES: [&str; 2] = ["report", "control"];

/// Programs, where they are attached, and how their links are called, in this order.
const TRACEPOINTS: [(&str, &str, &str); 2] =
    [("process_exec", "sched_process_exec", "exec"), ("process_exit", "sched_process_exit", LAST)];

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Offsets(KernelOffsets);

// SAFETY: two numbers of 32 bits without padding, of which any values are valid.
unsafe impl aya::Pod for Offsets {}

/// Tells builds of the programs apart (FNV-1a).
pub(super) fn fingerprint() -> u64 {
    ARBITER
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Makes everything, in an order in which what is there only half is known by its missing end.
pub(super) fn create(pins: &Pins, times: &Times) -> Result<(), ProgramsError> {
    let mut object = EbpfLoader::new().load(ARBITER)?;
    // Programs must be loaded before the maps are taken out of the object.
    for name in UPROBES {
        program::<UProbe>(&mut object, name).load().map_err(|cause| refused(name, cause))?;
    }
    for (name, ..) in TRACEPOINTS {
        program::<RawTracePoint>(&mut object, name).load().map_err(|cause| refused(name, cause))?;
    }
    let offsets = KernelTypes::read()?.thread_count_offsets()?;
    let mut kernel: Array<_, Offsets> = take(&mut object, "KERNEL")
        .try_into()
        .map_err(|cause| ProgramsError::Map { map: "KERNEL", cause })?;
    kernel.set(0, Offsets(offsets), 0).map_err(|cause| ProgramsError::Map { map: "KERNEL", cause })?;
    let Map::Array(page) = take(&mut object, "PAGE") else { unreachable!("the page is an array") };
    begin(&page, times).map_err(ProgramsError::Page)?;
    let maps = [
        ("EXPECTED", "expected"),
        ("OWNERS", "owners"),
        ("EVENTS", "events"),
        ("CALLS", "calls"),
        ("GATES", "gates"),
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
        program.pin(pins.path(name)).map_err(|error| pin_error(name, error))?;
    }
    for (name, tracepoint, pin) in TRACEPOINTS {
        let program: &mut RawTracePoint = program(&mut object, name);
        let link = program.attach(tracepoint).and_then(|id| program.take_link(id));
        let link: FdLink = link.map_err(|cause| refused(name, cause))?.into();
        link.pin(pins.path(pin)).map_err(|error| pin_error(pin, error))?;
    }
    Ok(())
}

/// Fills the page in and freezes it: nobody but the programs writes it from now on.
fn begin(map: &MapData, times: &Times) -> io::Result<()> {
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
    map.pin(pins.path(name)).map_err(|error| pin_error(name, error))
}

pub(super) fn pin_error(name: &str, error: PinError) -> ProgramsError {
    let cause = match error {
        PinError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    };
    ProgramsError::Pin { name: name.to_owned(), cause }
}
