//! The rows of the table, one module a family.

mod copy;
mod device;
mod event;
mod graph;
mod launch;
mod memory;
mod module;
mod set;
mod stream;

use super::{Category, Param, ParamKind, Pointee, Probe, Return};

const fn param(name: &'static str, kind: ParamKind, word: u8) -> Param {
    Param { name, kind, offset: word * 8 }
}

/// A field of what takes the place of the stack arguments ([`Probe::pointee`]), by its offset there.
const fn field(name: &'static str, kind: ParamKind, offset: u8) -> Param {
    Param { name, kind, offset: 48 + offset }
}

const fn kernel(word: u8) -> Param {
    param("kernel", ParamKind::Kernel, word)
}

const fn stream(word: u8) -> Param {
    param("stream", ParamKind::Stream, word)
}

const fn bytes(word: u8) -> Param {
    param("bytes", ParamKind::Size, word)
}

const fn dst(word: u8) -> Param {
    param("dst", ParamKind::Pointer, word)
}

const fn src(word: u8) -> Param {
    param("src", ParamKind::Pointer, word)
}

const fn copy_kind(word: u8) -> Param {
    param("kind", ParamKind::CopyKind, word)
}

const fn size(name: &'static str, word: u8) -> Param {
    param(name, ParamKind::Size, word)
}

const fn pointer(name: &'static str, word: u8) -> Param {
    param(name, ParamKind::Pointer, word)
}

const fn flags(word: u8) -> Param {
    param("flags", ParamKind::U32, word)
}

const fn device(word: u8) -> Param {
    param("device", ParamKind::I32, word)
}

const fn value(word: u8) -> Param {
    param("value", ParamKind::I32, word)
}

impl Probe {
    const fn new(name: &'static str, category: Category, params: &'static [Param]) -> Self {
        Self {
            name,
            aliases: &[],
            category,
            params,
            text: None,
            out: None,
            pointee: None,
            ret: Return::Error,
            is_vital: false,
        }
    }

    const fn vital(self) -> Self {
        Self { is_vital: true, ..self }
    }

    const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn text(self, argument: u8) -> Self {
        Self { text: Some(argument), ..self }
    }

    const fn out(self, argument: u8) -> Self {
        Self { out: Some(argument), ..self }
    }

    /// `offset` is in bytes, a multiple of eight.
    const fn pointee(self, argument: u8, offset: u16) -> Self {
        Self { pointee: Some(Pointee { argument, offset }), ..self }
    }

    /// `offset` is in bytes, a multiple of eight, from the first stack argument.
    const fn stack(self, offset: u16) -> Self {
        self.pointee(Pointee::STACK, offset)
    }

    const fn returns(self, ret: Return) -> Self {
        Self { ret, ..self }
    }
}

const FAMILIES: [&[Probe]; 9] = [
    launch::PROBES,
    copy::PROBES,
    set::PROBES,
    memory::PROBES,
    module::PROBES,
    stream::PROBES,
    event::PROBES,
    graph::PROBES,
    device::PROBES,
];

const fn count() -> usize {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
}

#[expect(clippy::large_stack_arrays, reason = "the compiler evaluates it")]
const fn join() -> [Probe; count()] {
    let mut rows = [launch::PROBES[0]; count()];
    let (mut at, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut row = 0;
        while row < FAMILIES[family].len() {
            rows[at] = FAMILIES[family][row];
            at += 1;
            row += 1;
        }
        family += 1;
    }
    rows
}

/// Every function that is probed. Its index is part of the ABI between the programs and user space.
pub const PROBES: &[Probe] = &join();
