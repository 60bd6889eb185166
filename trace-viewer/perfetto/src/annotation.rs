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

macro_rules! from {
    ($($type:ty => $kind:ident),*) => {$(
        impl From<$type> for Value<'_> {
            fn from(value: $type) -> Self {
                Self::$kind(value.into())
            }
        }
    )*};
}

from!(u64 => U64, u32 => U64, i64 => I64, i32 => I64, f64 => F64, bool => Bool);
