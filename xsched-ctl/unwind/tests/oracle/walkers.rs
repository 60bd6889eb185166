//! A program's stack, walked with our tables and with an independent implementation.
//!
//! The other implementation is framehop. It supports neither realigned frames nor signals, so for these the direct evaluation
//! (`straight`) is used.

use std::fs::File;
use std::path::Path;

use framehop::{
    Unwinder as _,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use xsched_abi::unwind::{Registers, Rule};
use xsched_unwind::{End, Frame, Image, Table, Walk, vdso, walk};

use crate::elf::{Library, Section};
use crate::straight::{Caller, caller_at};
use crate::traced::{Code, Traced};

const DEPTH_MAX: usize = 64;

/// One code mapping, for both walkers.
pub(crate) struct Mapped {
    code: Code,
    pub(crate) table: Table,
    bias: u64,
    eh_frame: Section,
    eh_frame_hdr: Section,
}

pub(crate) struct Walkers {
    pub(crate) mapped: Vec<Mapped>,
    framehop: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl Walkers {
    pub(crate) fn of(traced: &Traced) -> Self {
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

    pub(crate) fn lookup(&self, address: u64) -> Option<(&Table, u64)> {
        self.mapped_at(address).map(|mapped| (&mapped.table, mapped.bias))
    }

    pub(crate) fn library(&self, address: u64) -> String {
        let path = Path::new(&self.mapped_at(address).expect("within code").code.path);
        let name = path.file_name().expect("a name").to_string_lossy();
        name.strip_prefix("lib").and_then(|name| name.strip_suffix(".so")).unwrap_or(&name).to_owned()
    }

    pub(crate) fn walk(&self, at: Registers, read: impl FnMut(u64) -> Option<u64>) -> Walk {
        walk(at, DEPTH_MAX, |address| self.lookup(address), read)
    }

    /// Our walk from the program's current instruction, after checking that every frame equals that of the oracles.
    pub(crate) fn compare(&mut self, traced: &Traced) -> Walk {
        let ours = self.walk(traced.registers(), |address| traced.word(address));
        for (index, pair) in ours.frames.windows(2).enumerate() {
            let theirs = self.step_of_others(&pair[0], traced);
            let at = self.location(&pair[0].registers);
            assert_eq!(theirs, Some(pair[1].registers), "the caller of frame {index} of {ours:x?}, at {at}");
        }
        if ours.end == End::Outermost {
            let beyond = self.step_of_others(ours.frames.last().expect("never empty"), traced);
            assert_eq!(beyond, None, "the others go on behind {ours:x?}");
        }
        ours
    }

    /// The caller of a frame according to the oracles; None if the walk ends.
    fn step_of_others(&mut self, frame: &Frame, traced: &Traced) -> Option<Registers> {
        let address = frame.address();
        let mapped = self.mapped_at(address).expect("within code");
        let address = address.wrapping_sub(mapped.bias);
        let rule = mapped.table.row_at(address).expect("a row").rule();
        if !matches!(rule, Rule::RbpDeref | Rule::Signal) {
            return self.framehop_step(frame.is_return_address, frame.registers, traced);
        }
        let memory = |address| traced.word(address).expect("a word of the stack");
        match caller_at(&mapped.eh_frame, &mapped.eh_frame_hdr, address, frame.registers, memory) {
            Caller::Is(caller) => Some(caller),
            Caller::None => None,
            Caller::Unknowable => panic!("{} has an inexpressible rule", self.location(&frame.registers)),
        }
    }

    /// The caller of a frame according to framehop; None if its walk ends.
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

    pub(crate) fn location(&self, at: &Registers) -> String {
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
