//! The verifier's work for each program: it gives up after a million instructions, which it counts on every path that it follows.
//!
//! How many it follows differs from kernel to kernel. A program that takes 315,000 on Linux 6.18 was refused from 7.2 on, so each
//! has to stay far below the limit here.

use aya::programs::{Program, ProgramError};
use aya::{Btf, EbpfLoader};

use crate::{ARBITER, ORIGIN, TRACER, TRACER_WITH_LOGS};

/// `BPF_COMPLEXITY_LIMIT_INSNS`.
const LIMIT: u32 = 1_000_000;

/// A kernel may refuse programs at its functions altogether, even to root.
fn is_refused_kind(program: &Program, error: &ProgramError) -> bool {
    let is_not_permitted = matches!(error, ProgramError::LoadError { io_error, .. }
        if io_error.kind() == std::io::ErrorKind::PermissionDenied);
    is_not_permitted && matches!(program, Program::FEntry(_) | Program::FExit(_))
}

/// A function of the kernel with the parameters of the driver's ioctl functions, which this machine may lack.
const LIKE_IOCTL: &str = "pipe_ioctl";

fn load(program: &mut Program, btf: &Btf) -> Result<(), ProgramError> {
    match program {
        Program::UProbe(program) => program.load(),
        Program::TracePoint(program) => program.load(),
        Program::RawTracePoint(program) => program.load(),
        Program::FEntry(program) => program.load(LIKE_IOCTL, btf),
        Program::FExit(program) => program.load(LIKE_IOCTL, btf),
        other => panic!("no object has programs of type {:?}", other.prog_type()),
    }
}

fn loader() -> EbpfLoader<'static> {
    let mut loader = EbpfLoader::new();
    // The other maps have the sizes that they need.
    for (map, size) in [("EVENTS", 1 << 16), ("SNAPSHOTS", 1 << 16), ("COUNTERS", 1)] {
        loader.map_max_entries(map, size);
    }
    loader
}

/// Messages cost the programs of most users nothing, since they are not in them.
#[test]
fn only_the_object_with_logs_has_messages() {
    const MAP: &str = "AYA_LOGS";
    let has_messages = |object| aya_obj::Object::parse(object).unwrap().maps.contains_key(MAP);
    assert_eq!([TRACER, ARBITER, ORIGIN, TRACER_WITH_LOGS].map(has_messages), [false, false, false, true]);
}

#[test]
#[ignore = "needs root"]
fn every_program_takes_at_most_a_quarter_of_the_verifiers_limit() {
    let btf = Btf::from_sys_fs().unwrap();
    let mut counts = Vec::new();
    for object in [TRACER, TRACER_WITH_LOGS, ARBITER, ORIGIN] {
        let mut object = loader().load(object).unwrap();
        for (name, program) in object.programs_mut() {
            match load(program, &btf) {
                Err(error) if is_refused_kind(program, &error) => continue,
                loaded => loaded.unwrap_or_else(|error| panic!("{name}: {error}")),
            }
            let info = program.info().unwrap();
            counts.push((info.verified_instruction_count().unwrap(), name.to_owned()));
        }
    }
    counts.sort_unstable();
    let names: Vec<_> = counts.iter().map(|(_, name)| &**name).collect();
    assert!(["call_enter", "open_enter", "report", "classify"].iter().all(|name| names.contains(name)));
    assert!(counts.iter().all(|&(count, _)| count <= LIMIT / 4), "{counts:?}");
}
