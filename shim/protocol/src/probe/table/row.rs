//! Shorthands for the rows of the table.

use crate::probe::function::stem;
use crate::probe::{Category, Param, ParamKind, Pointee, Probe, Return, Runtime};

pub(super) const fn param(name: &'static str, kind: ParamKind, word: u8) -> Param {
    Param { name, kind, offset: word * 8 }
}

/// A field of the struct that replaces the stack arguments ([`Probe::pointee`]), by its offset there.
pub(super) const fn field(name: &'static str, kind: ParamKind, offset: u8) -> Param {
    Param { name, kind, offset: 48 + offset }
}

pub(super) const fn kernel(word: u8) -> Param {
    param("kernel", ParamKind::Kernel, word)
}

pub(super) const fn stream(word: u8) -> Param {
    param("stream", ParamKind::Stream, word)
}

pub(super) const fn bytes(word: u8) -> Param {
    param("bytes", ParamKind::Size, word)
}

pub(super) const fn dst(word: u8) -> Param {
    param("dst", ParamKind::Pointer, word)
}

pub(super) const fn src(word: u8) -> Param {
    param("src", ParamKind::Pointer, word)
}

pub(super) const fn copy_kind(word: u8) -> Param {
    param("kind", ParamKind::CopyKind, word)
}

pub(super) const fn size(name: &'static str, word: u8) -> Param {
    param(name, ParamKind::Size, word)
}

pub(super) const fn pointer(name: &'static str, word: u8) -> Param {
    param(name, ParamKind::Pointer, word)
}

pub(super) const fn flags(word: u8) -> Param {
    param("flags", ParamKind::U32, word)
}

pub(super) const fn device(word: u8) -> Param {
    param("device", ParamKind::I32, word)
}

pub(super) const fn value(word: u8) -> Param {
    param("value", ParamKind::I32, word)
}

impl Probe {
    pub(super) const fn new(name: &'static str, category: Category, params: &'static [Param]) -> Self {
        Self {
            name,
            runtime: Runtime::of_function(name),
            stem: stem(name),
            aliases: &[],
            category,
            params,
            text: None,
            is_text_returned: false,
            out: None,
            pointee: None,
            ret: Return::Error,
            is_vital: false,
        }
    }

    pub(super) const fn vital(self) -> Self {
        Self { is_vital: true, ..self }
    }

    pub(super) const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(super) const fn text(self, argument: u8) -> Self {
        Self { text: Some(argument), ..self }
    }

    /// The argument points to where a pointer to a name is returned.
    pub(super) const fn returned_text(self, argument: u8) -> Self {
        Self { text: Some(argument), is_text_returned: true, ..self }
    }

    pub(super) const fn out(self, argument: u8) -> Self {
        Self { out: Some(argument), ..self }
    }

    /// `offset` is in bytes, a multiple of eight.
    pub(super) const fn pointee(self, argument: u8, offset: u16) -> Self {
        Self { pointee: Some(Pointee { argument, offset }), ..self }
    }

    /// `offset` is in bytes, a multiple of eight, from the first stack argument.
    pub(super) const fn stack(self, offset: u16) -> Self {
        self.pointee(Pointee::STACK, offset)
    }

    pub(super) const fn returns(self, ret: Return) -> Self {
        Self { ret, ..self }
    }
}
