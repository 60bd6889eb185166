//! A program of seven libraries without frame pointers, walked at every instruction between two breakpoints: prologues,
//! epilogues, linkage tables, the lazy binder, a signal handler on its own stack, an exception in propagation.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use xsched_abi::unwind::{Rule, Stop};
use xsched_unwind::{End, Snapshot, walk};

use crate::program::{Build, USUAL};
use crate::traced::{Binding, Halt, Traced};
use crate::walkers::Walkers;

#[test]
fn every_frame_at_every_instruction_agrees_with_the_oracles() {
    let kinds = kinds_of_walks(&USUAL);
    assert!(kinds["whole"] > 10_000, "the program has some more instructions outside of the lazy binder");
    assert!(kinds["lazy binder"] > 10_000, "it looks up six functions");
    assert!(kinds["realigning"] < 20, "two functions' first and last instructions");
}

#[test]
fn other_compilers_and_flags_agree_as_well() {
    let build = |compilers, flags| Build { compilers, flags, binding: Binding::Now };
    let builds = [
        // Frame pointers, everything in memory.
        build(["cc", "c++"], &["-O0"]),
        // Another layout of linkage tables.
        build(["cc", "c++"], &["-O3", "-fcf-protection", "-Wl,-z,lazy,-z,ibtplt"]),
        build(["clang-19", "clang++-19"], &["-O2", "-fomit-frame-pointer"]),
    ];
    for build in builds {
        let kinds = kinds_of_walks(&build);
        assert!(kinds["whole"] > 10_000, "{build:?}");
        assert_eq!(kinds.get("lazy binder"), None, "{build:?}");
    }
}

/// The ends of the walks from every instruction, after all their frames have been checked.
fn kinds_of_walks(build: &Build) -> BTreeMap<&'static str, usize> {
    let (_folder, program) = build.program();
    let mut traced = Traced::start(&program, build.binding);
    assert_eq!(traced.go_on(0), Halt::Trap, "the first breakpoint");
    let mut walkers = Walkers::of(&traced);
    let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
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
        let walk = walkers.compare(&traced);
        let (innermost, outermost) = (walk.frames[0], walk.frames[walk.frames.len() - 1]);
        let kind = match walk.end {
            End::Outermost => "whole",
            // Its frame address is in rbx.
            End::Stopped(Stop::Unsupported) if walkers.library(outermost.address()).starts_with("ld-") => {
                "lazy binder"
            }
            // In its prologue and epilogue a function that realigns the stack has its frame address in r10.
            End::Stopped(Stop::Unsupported) if walk.frames.len() == 1 => "realigning",
            // On the entry to the handler of an exception, the stack does not match the tables of the unwinder.
            End::Stopped(Stop::Unsupported) | End::NoTable
                if walkers.library(innermost.address()).starts_with("libgcc_s") =>
            {
                "exception"
            }
            end => panic!("{end:?}: {walk:x?} from {}", walkers.location(&innermost.registers)),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    println!("{build:?}: {instructions} instructions: {kinds:?}");
    assert!(
        kinds.get("exception").is_none_or(|&count| count < 200),
        "some dozen instructions enter a handler"
    );
    assert!(matches!(traced.go_on(0), Halt::Exited(0)));
    kinds
}

#[test]
fn a_copied_stack_gives_the_whole_chain() {
    let (_folder, program) = USUAL.program();
    let mut traced = Traced::start(&program, USUAL.binding);
    assert_eq!(traced.go_on(0), Halt::Trap, "the first breakpoint");
    let halt = traced.go_on(0);
    assert_eq!(halt, Halt::Signal(libc::SIGUSR1), "raised on the way");
    assert_eq!(traced.go_on(libc::SIGUSR1), Halt::Trap, "the innermost function");
    let mut walkers = Walkers::of(&traced);
    let expected = walkers.compare(&traced);
    assert_eq!(expected.end, End::Outermost);

    // The signal handler's stack and the main one.
    let at = traced.registers();
    let interrupted = expected.frames.iter().skip(1).find(|frame| !frame.is_return_address).unwrap();
    let copies = [at.rsp, interrupted.registers.rsp].map(|address| (address, traced.bytes_from(address)));
    let copies = copies.each_ref().map(|(address, bytes)| Snapshot { address: *address, bytes });
    let copied = walkers.walk(at, |address| copies.iter().find_map(|copy| copy.word(address)));
    assert_eq!(copied, expected);

    let libraries: Vec<String> = copied.frames.iter().map(|frame| walkers.library(frame.address())).collect();
    let mut order = libraries.clone();
    order.dedup();
    let libc = libc_name(&order);
    // The fourth library has left by a jump. libc raises and delivers the signal, and it also calls main.
    let chain_of_libraries =
        ["seventh", "sixth", "fifth", "third", libc, "third", "second", "first", "main", libc, "main"];
    assert_eq!(order, chain_of_libraries);

    // If the copy is cut off inside the outer stack, the walk ends there, with the same frames before.
    let cut = copies[1].bytes.len() / 2;
    let cut = Snapshot { bytes: &copies[1].bytes[..cut], ..copies[1] };
    let short = walkers.walk(at, |address| copies[0].word(address).or_else(|| cut.word(address)));
    assert!(short.frames.len() <= expected.frames.len());
    assert_eq!(short.frames[..], expected.frames[..short.frames.len()]);
    let lone =
        walkers.walk(at, |address| Snapshot { address: at.rsp, bytes: &copies[0].bytes[..64] }.word(address));
    assert_eq!(lone.end, End::Stopped(Stop::Unreadable));
    let shallow = walk(at, 3, |address| walkers.lookup(address), |address| traced.word(address));
    assert_eq!((shallow.end, &shallow.frames[..]), (End::Depth, &expected.frames[..3]));
}

#[test]
fn the_chain_has_every_kind_of_rule() {
    let (_folder, program) = USUAL.program();
    let mut traced = Traced::start(&program, USUAL.binding);
    traced.go_on(0);
    let walkers = Walkers::of(&traced);
    let met =
        |rule| walkers.mapped.iter().any(|mapped| mapped.table.tally().iter().any(|&(has, _)| has == rule));
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

/// Whether the program is at the second breakpoint of main: an int3 at which it has been stopped twice.
fn reached_end(traced: &Traced, breakpoint: &mut Option<u64>) -> ControlFlow<()> {
    let at = traced.registers();
    let is_breakpoint = traced.word(at.rip.wrapping_sub(1)).is_some_and(|word| word as u8 == 0xcc);
    // The first stop is where stepping began, the second in the innermost library, the third in main again.
    if is_breakpoint && *breakpoint != Some(at.rip) {
        let first = breakpoint.get_or_insert(at.rip);
        if *first != at.rip && at.rip.abs_diff(*first) < 0x1000 {
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}
