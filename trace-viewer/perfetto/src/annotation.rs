//! Named values attached to a slice or an instant: Perfetto's debug annotations.

use std::{fmt, sync::Arc};

/// One named value. In SQL it is the argument `debug.<name>` of the slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Annotation<'a> {
    /// Interned, so it should come from a small set.
    pub name: &'a str,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Annotation<'a> {
    /// Pairs a name with anything that converts into a [`Value`].
    pub fn new(name: &'a str, value: impl Into<Value<'a>>) -> Self {
        Self { name, value: value.into() }
    }
}

/// The value of an [`Annotation`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Interned: cheap when the text repeats. Each distinct text costs a table entry.
    Str(&'a str),
    /// Like [`Value::Str`], for long texts that many events share: looked up by address.
    Shared(&'a Arc<str>),
    /// An unsigned number. SQL has only `int64`, so larger values appear as negative numbers there.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// A floating-point number.
    F64(f64),
    /// An address or handle; shown in hexadecimal.
    Pointer(u64),
    /// A truth value.
    Bool(bool),
}

/// As text, for fields that can only hold text.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Str(text) => f.write_str(text),
            Self::Shared(text) => f.write_str(text),
            Self::U64(number) => number.fmt(f),
            Self::I64(number) => number.fmt(f),
            Self::F64(number) => number.fmt(f),
            Self::Pointer(address) => write!(f, "{address:#x}"),
            Self::Bool(truth) => truth.fmt(f),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Str(text)
    }
}

impl<'a> From<&'a Arc<str>> for Value<'a> {
    fn from(text: &'a Arc<str>) -> Self {
        Self::Shared(text)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::U64(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::U64(number.into())
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::I64(number)
    }
}

impl From<i32> for Value<'_> {
    fn from(number: i32) -> Self {
        Self::I64(number.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::F64(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}
