//! A recorded call to the driver, decoded.

use std::borrow::Cow;
use std::sync::Arc;

use xsched_abi::{
    Device, Ioctl,
    driver::{STRUCT_LEN_MAX, command_number},
};

use super::command::{self, Command, Field, Kind, Side};
use super::errno;

/// One ioctl of one thread on one of the driver's devices. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Debug)]
pub(crate) struct DriverCall {
    pub(crate) device: Device,
    /// Its path, if the device number is known.
    pub(crate) path: Option<Arc<str>>,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) begin_ns: u64,
    /// When it returned; none for a call that was still in progress when recording ended.
    pub(crate) end_ns: Option<u64>,
    /// When its process ended or executed another program during the call.
    pub(crate) cut_ns: Option<u64>,
    /// What it returned: 0 or more, or a negated errno.
    pub(crate) ret: i64,
    /// The stream whose call contains this one, where that is meaningful (see [`Queues`](super::Queues)).
    pub(crate) stream: Option<u64>,
    value: u32,
    passed: Bytes,
    returned: Bytes,
}

/// The beginning of a command's struct.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    bytes: [u8; STRUCT_LEN_MAX],
    len: usize,
}

/// A field, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Number(i64),
    /// An address or handle.
    Pointer(u64),
    /// Names for bits or for a value.
    Text(Cow<'static, str>),
}

impl DriverCall {
    /// From a record. `device` is the device behind the descriptor.
    pub(crate) fn new(ioctl: &Ioctl, device: Device, path: Option<Arc<str>>) -> Self {
        let entered = &ioctl.entered;
        Self {
            device,
            path,
            pid: entered.tgid,
            tid: entered.tid,
            begin_ns: entered.begin_ns,
            end_ns: Some(ioctl.end_ns),
            cut_ns: None,
            ret: ioctl.ret,
            stream: None,
            value: entered.command,
            passed: Bytes { bytes: entered.before, len: entered.before_len as usize },
            returned: Bytes { bytes: ioctl.after, len: ioctl.after_len as usize },
        }
    }

    pub(crate) fn name(&self) -> Cow<'static, str> {
        command::name(self.device, self.value)
    }

    /// The command's number within its type.
    pub(super) fn number(&self) -> u8 {
        command_number(self.value)
    }

    /// Category in traces.
    pub(crate) fn category(&self) -> &'static str {
        match self.device {
            Device::Dri => "driver.drm",
            Device::Kfd | Device::Untold => "driver.kfd",
        }
    }

    pub(crate) fn duration_ns(&self) -> Option<u64> {
        Some(self.end_ns?.saturating_sub(self.begin_ns))
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.end_ns.is_some() && self.ret < 0
    }

    /// The name of the error that it returned, or its number if that is unknown.
    pub(crate) fn error(&self) -> Option<Cow<'static, str>> {
        self.has_failed().then(|| match errno::name(-self.ret) {
            Some(name) => name.into(),
            None => format!("errno {}", -self.ret).into(),
        })
    }

    /// The fields worth showing, in the struct's order. Fields that the driver fills in are shown only if the call
    /// succeeded.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, Shown)> {
        let command: Option<&'static Command> = command::find(self.device, self.value);
        let fields = command.map_or(&[][..], |command| command.fields);
        fields.iter().filter_map(|field| Some((field.name, self.field(*field)?)))
    }

    fn field(&self, field: Field) -> Option<Shown> {
        let bytes = match field.side {
            Side::Passed => &self.passed,
            Side::Returned if self.end_ns.is_some() && self.ret >= 0 => &self.returned,
            Side::Returned => return None,
        };
        Some(match field.kind {
            Kind::U32 => Shown::Number(bytes.u32(field.offset)?.into()),
            Kind::I32 => Shown::Number((bytes.u32(field.offset)? as i32).into()),
            Kind::U64 => Shown::Number(bytes.u64(field.offset)? as i64),
            Kind::Pointer => Shown::Pointer(bytes.u64(field.offset)?),
            Kind::Flags(names) => Shown::Text(flags(bytes.u32(field.offset)?, names)),
            Kind::Name(names) => Shown::Text(value_name(bytes.u32(field.offset)?, names)),
        })
    }

    /// A `__u32` that the caller has passed.
    pub(super) fn passed_u32(&self, offset: u8) -> Option<u32> {
        self.passed.u32(offset)
    }

    /// A `__u32` that the driver has given back.
    pub(super) fn returned_u32(&self, offset: u8) -> Option<u32> {
        self.returned.u32(offset)
    }
}

impl Bytes {
    fn get<const N: usize>(&self, offset: u8) -> Option<[u8; N]> {
        let recorded = self.bytes.get(..self.len)?;
        recorded.get(usize::from(offset)..)?.first_chunk().copied()
    }

    fn u32(&self, offset: u8) -> Option<u32> {
        self.get(offset).map(u32::from_ne_bytes)
    }

    fn u64(&self, offset: u8) -> Option<u64> {
        self.get(offset).map(u64::from_ne_bytes)
    }
}

fn value_name(value: u32, names: &[(u32, &'static str)]) -> Cow<'static, str> {
    match names.iter().find(|(known, _)| *known == value) {
        Some((_, name)) => (*name).into(),
        None => value.to_string().into(),
    }
}

/// `VRAM, writable, 0x400`
fn flags(value: u32, names: &[(u32, &'static str)]) -> Cow<'static, str> {
    let mut parts: Vec<Cow<'static, str>> =
        names.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| (*name).into()).collect();
    let rest = names.iter().fold(value, |rest, (bit, _)| rest & !bit);
    if rest != 0 || parts.is_empty() {
        parts.push(format!("{rest:#x}").into());
    }
    parts.join(", ").into()
}

#[cfg(test)]
pub(super) mod tests;
