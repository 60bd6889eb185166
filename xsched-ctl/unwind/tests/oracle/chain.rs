//! A program of seven libraries without frame pointers, walked after every single instruction between two breakpoints:
//! prologues, epilogues, linkage tables, the lazy binder, a signal handler on its own stack, an exception on its way.
//!
//! framehop walks the same stack with its own reading of the same sections; each frame's registers must be equal. It
//! follows neither realigned frames nor signals; for these the straight interpretation stands in.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use framehop::{
    Unwinder as _,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use tempfile::TempDir;
use xsched_abi::unwind::{Registers, Rule, Stop};
use xsched_unwind::{End, Frame, Image, Snapshot, Table, Walk, vdso, walk};

use crate::elf::{Library, Section};
use crate::straight::{Caller, caller_at};
use crate::traced::{Code, Halt, Traced};

const DEPTH_MAX: usize = 64;

/// The libraries, outermost first, and what each is compiled from.
const LINKS: [(&str, &str); 7] = [
    ("first", "plain.c"),
    ("second", "realigned.c"),
    ("third", "handled.c"),
    ("fourth", "tail.c"),
    ("fifth", "large.cpp"),
    ("sixth", "plain.c"),
    ("seventh", "last.c"),
];

/// One code mapping, for both walkers.
struct Mapped {
    code: Code,
    table: Table,
    bias: u64,
    eh_frame: Section,
    eh_frame_hdr: Section,
}

struct Chain {
    mapped: Vec<Mapped>,
    framehop: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

#[test]
fn every_frame_at_every_instruction_is_as_others_see_it() {
    let Some((_folder, program)) = build() else { return };
    let Some(mut traced) = Traced::start(&program) else { return };
    assert_eq!(traced.go_on(0), Halt::Trap, "the first breakpoint");
    let mut chain = Chain::of(&traced);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut instructions = 0;
    let mut signal = 0;
    let mut breakpoint = None;
    while let ControlFlow::Continue(()) = reached_end(&traced, &mut breakpoint) {
        match traced.step(signal) {
            Halt::Trap => signal = 0,
            Halt::Signal(number) => signal = number,
            Halt::Exited(status) => panic!("the program has ended early: {status:#x}"),
        }
        instructions += 1;
        let walk = chain.compare(&traced);
        let (innermost, outermost) = (walk.frames[0], walk.frames[walk.frames.len() - 1]);
        let kind = match walk.end {
            End::Outermost => "whole",
            // Its frame address is in rbx.
            End::Stopped(Stop::Unsupported) if chain.library(outermost.address()).starts_with("ld-") => {
                "lazy binder"
            }
            // Within its prologue and epilogue a function that realigns has its frame address in r10.
            End::Stopped(Stop::Unsupported) if walk.frames.len() == 1 => "realigning",
            // While it enters the handler of an exception, the stack is not what its own tables say.
            End::Stopped(Stop::Unsupported) | End::NoTable
                if chain.library(innermost.address()).starts_with("libgcc_s") =>
            {
                "exception"
            }
            end => panic!("{end:?}: {walk:x?} from {}", chain.place(&innermost.registers)),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    println!("{instructions} instructions: {kinds:?}");
    assert!(kinds["whole"] > 10_000, "the program has some more instructions outside of the lazy binder");
    assert!(kinds["lazy binder"] > 10_000, "it looks up six functions");
    assert!(
        kinds.get("exception").is_none_or(|&count| count < 200),
        "some dozen instructions enter a handler"
    );
    assert!(matches!(traced.go_on(0), Halt::Exited(0)));
}

#[test]
fn a_copied_stack_tells_the_whole_chain() {
    let Some((_folder, program)) = build() else { return };
    let Some(mut traced) = Traced::start(&program) else { return };
    assert_eq!(traced.go_on(0), Halt::Trap, "the first breakpoint");
    let halt = traced.go_on(0);
    assert_eq!(halt, Halt::Signal(libc::SIGUSR1), "raised on the way");
    assert_eq!(traced.go_on(libc::SIGUSR1), Halt::Trap, "the innermost function");
    let mut chain = Chain::of(&traced);
    let expected = chain.compare(&traced);
    assert_eq!(expected.end, End::Outermost);

    // The signal handler's stack and the main one.
    let at = traced.registers();
    let interrupted = expected.frames.iter().skip(1).find(|frame| !frame.is_return_address).unwrap();
    let copies = [at.rsp, interrupted.registers.rsp].map(|address| (address, traced.bytes_from(address)));
    let copies = copies.each_ref().map(|(address, bytes)| Snapshot { address: *address, bytes });
    let copied = chain.walk(at, |address| copies.iter().find_map(|copy| copy.word(address)));
    assert_eq!(copied, expected);

    let libraries: Vec<String> = copied.frames.iter().map(|frame| chain.library(frame.address())).collect();
    let mut order = libraries.clone();
    order.dedup();
    let libc = libc_name(&order);
    // The fourth has left by a jump. libc delivers the signal and raises it; it is also what calls main.
    let chain_of_libraries =
        ["seventh", "sixth", "fifth", "third", libc, "third", "second", "first", "main", libc, "main"];
    assert_eq!(order, chain_of_libraries);

    // Cut off within the outer stack, the walk ends there, with the same frames up to that place.
    let cut = copies[1].bytes.len() / 2;
    let cut = Snapshot { bytes: &copies[1].bytes[..cut], ..copies[1] };
    let short = chain.walk(at, |address| copies[0].word(address).or_else(|| cut.word(address)));
    assert!(short.frames.len() <= expected.frames.len());
    assert_eq!(short.frames[..], expected.frames[..short.frames.len()]);
    let lone =
        chain.walk(at, |address| Snapshot { address: at.rsp, bytes: &copies[0].bytes[..64] }.word(address));
    assert_eq!(lone.end, End::Stopped(Stop::Unreadable));
    let shallow = walk(at, 3, |address| chain.lookup(address), |address| traced.word(address));
    assert_eq!((shallow.end, &shallow.frames[..]), (End::Depth, &expected.frames[..3]));
}

#[test]
fn the_chain_has_every_kind_of_rule() {
    let Some((_folder, program)) = build() else { return };
    let Some(traced) = Traced::start(&program).map(|mut traced| {
        traced.go_on(0);
        traced
    }) else {
        return;
    };
    let chain = Chain::of(&traced);
    let met =
        |rule| chain.mapped.iter().any(|mapped| mapped.table.tally().iter().any(|&(has, _)| has == rule));
    for rule in [Rule::Gap, Rule::End, Rule::Rsp, Rule::Rbp, Rule::Plt, Rule::RbpDeref, Rule::Signal] {
        assert!(met(rule), "{rule:?}");
    }
}

fn libc_name(order: &[String]) -> &'static str {
    let libc = order.iter().find(|name| name.starts_with("libc.so") || name.starts_with("libc-"));
    if libc.is_some_and(|name| name == "libc.so.6") {
        "libc.so.6"
    } else {
        panic!("which libc is this: {order:?}")
    }
}

/// Whether the program stands at the second breakpoint of main: an int3 at which it has been stopped twice.
fn reached_end(traced: &Traced, breakpoint: &mut Option<u64>) -> ControlFlow<()> {
    let at = traced.registers();
    let is_breakpoint = traced.word(at.rip.wrapping_sub(1)).is_some_and(|word| word as u8 == 0xcc);
    // The first is where stepping began, the second in the innermost library, the third in main again.
    if is_breakpoint && *breakpoint != Some(at.rip) {
        let first = breakpoint.get_or_insert(at.rip);
        if *first != at.rip && at.rip.abs_diff(*first) < 0x1000 {
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

impl Chain {
    fn of(traced: &Traced) -> Self {
        let mut mapped = Vec::new();
        let mut framehop = UnwinderX86_64::new();
        for code in traced.code() {
            let is_vdso = code.path == "[vdso]";
            let image: Image = if is_vdso {
                vdso().expect("its own memory").expect("another process has one")
            } else {
                File::open(&code.path).expect("a mapped file").into()
            };
            let table = Table::build(&image).unwrap_or_else(|error| panic!("{}: {error}", code.path));
            let bias = table.bias(code.start, code.file_offset).expect("a mapping of its code");
            let library = match image {
                Image::Memory(bytes) => Library::of_memory(&code.path, bytes),
                Image::File(_) => Library::read(Path::new(&code.path)),
            };
            framehop.add_module(module(&code, bias, &library));
            let [eh_frame, eh_frame_hdr] = [".eh_frame", ".eh_frame_hdr"]
                .map(|name| library.section(name).expect("every linker writes it"));
            mapped.push(Mapped { code, table, bias, eh_frame, eh_frame_hdr });
        }
        Self { mapped, framehop, cache: CacheX86_64::new() }
    }

    fn mapped_at(&self, address: u64) -> Option<&Mapped> {
        self.mapped.iter().find(|mapped| (mapped.code.start..mapped.code.end).contains(&address))
    }

    fn lookup(&self, address: u64) -> Option<(&Table, u64)> {
        self.mapped_at(address).map(|mapped| (&mapped.table, mapped.bias))
    }

    fn library(&self, address: u64) -> String {
        let path = Path::new(&self.mapped_at(address).expect("within code").code.path);
        let name = path.file_name().expect("a name").to_string_lossy();
        name.strip_prefix("lib").and_then(|name| name.strip_suffix(".so")).unwrap_or(&name).to_owned()
    }

    fn walk(&self, at: Registers, read: impl FnMut(u64) -> Option<u64>) -> Walk {
        walk(at, DEPTH_MAX, |address| self.lookup(address), read)
    }

    /// Our walk from where the program stands, once every frame of it has been found equal to the others'.
    fn compare(&mut self, traced: &Traced) -> Walk {
        let ours = self.walk(traced.registers(), |address| traced.word(address));
        for (index, pair) in ours.frames.windows(2).enumerate() {
            let theirs = self.step_of_others(&pair[0], traced);
            let at = self.place(&pair[0].registers);
            assert_eq!(theirs, Some(pair[1].registers), "the caller of frame {index} of {ours:x?}, at {at}");
        }
        if ours.end == End::Outermost {
            let beyond = self.step_of_others(ours.frames.last().expect("never empty"), traced);
            assert_eq!(beyond, None, "the others go on behind {ours:x?}");
        }
        ours
    }

    /// The caller of a frame as others see it; None where the walk ends.
    fn step_of_others(&mut self, frame: &Frame, traced: &Traced) -> Option<Registers> {
        let address = frame.address();
        let mapped = self.mapped_at(address).expect("within code");
        let address = address.wrapping_sub(mapped.bias);
        let rule = mapped.table.row_at(address).expect("a row").rule();
        if !matches!(rule, Rule::RbpDeref | Rule::Signal) {
            return self.framehop_step(frame.is_return_address, frame.registers, traced);
        }
        let memory = |place| traced.word(place).expect("a word of the stack");
        match caller_at(&mapped.eh_frame, &mapped.eh_frame_hdr, address, frame.registers, memory) {
            Caller::Is(caller) => Some(caller),
            Caller::None => None,
            Caller::Unknowable => panic!("{} has an inexpressible rule", self.place(&frame.registers)),
        }
    }

    /// framehop's caller of a frame; None where its walk ends.
    fn framehop_step(
        &mut self,
        is_return_address: bool,
        at: Registers,
        traced: &Traced,
    ) -> Option<Registers> {
        let address = if is_return_address {
            framehop::FrameAddress::from_return_address(at.rip).expect("not zero")
        } else {
            framehop::FrameAddress::from_instruction_pointer(at.rip)
        };
        let mut registers = UnwindRegsX86_64::new(at.rip, at.rsp, at.rbp);
        let mut read = |address| traced.word(address).ok_or(());
        let rip =
            self.framehop.unwind_frame(address, &mut registers, &mut self.cache, &mut read).ok().flatten()?;
        Some(Registers { rip, rsp: registers.sp(), rbp: registers.bp() })
    }

    fn place(&self, at: &Registers) -> String {
        let Some((_, bias)) = self.lookup(at.rip) else { return format!("{:#x}", at.rip) };
        format!("{}+{:#x}", self.library(at.rip), at.rip.wrapping_sub(bias))
    }
}

fn module(code: &Code, bias: u64, library: &Library) -> framehop::Module<Vec<u8>> {
    let section = |name| library.section(name).map(|section| (section.addresses, section.bytes)).unzip();
    let (eh_frame_svma, eh_frame) = section(".eh_frame");
    let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr");
    let (text_svma, text) = section(".text");
    let sections = framehop::ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma,
        text,
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..framehop::ExplicitModuleSectionInfo::default()
    };
    framehop::Module::new(code.path.clone(), code.start..code.end, bias, sections)
}

/// Builds the program. None, with the reason printed, without a compiler.
fn build() -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("xsched-unwind-").tempdir().expect("a temporary folder");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/chain");
    let common = ["-O2", "-fomit-frame-pointer", "-Wl,-z,lazy", "-o"];
    for (index, (this, source)) in LINKS.iter().enumerate() {
        let next = LINKS.get(index + 1).map_or("none", |(next, _)| next);
        let mut command = Command::new(if source.contains(".cpp") { "c++" } else { "cc" });
        command.args(["-shared", "-fPIC", &format!("-DTHIS={this}"), &format!("-DNEXT={next}")]).args(common);
        command.arg(folder.path().join(format!("lib{this}.so"))).arg(sources.join(source));
        run(&mut command)?;
    }
    let program = folder.path().join("main");
    let mut command = Command::new("cc");
    command.args(common).arg(&program).arg(sources.join("main.c")).arg("-L").arg(folder.path());
    command
        .args(LINKS.map(|(this, _)| format!("-l{this}")))
        .arg(format!("-Wl,-rpath,{}", folder.path().display()));
    run(&mut command)?;
    Some((folder, program))
}

fn run(command: &mut Command) -> Option<()> {
    match command.output() {
        Ok(done) if done.status.success() => Some(()),
        Ok(done) => panic!("{command:?}: {}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            println!("skipped: {} does not start: {error}", command.get_program().display());
            None
        }
    }
}
