//! A recorded call to the driver, decoded.

use std::borrow::Cow;
use std::sync::Arc;

use xsched_abi::driver::{STRUCT_LEN_MAX, command_number};
use xsched_abi::{Device, Ioctl};

use super::command::{self, Command, Field, Kind, Side};
use super::errno;

/// One ioctl of one thread on one of the driver's devices. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Debug)]
pub(crate) struct DriverCall {
    /// Which device.
    pub(crate) device: Device,
    /// Its path, if the device number is known.
    pub(crate) path: Option<Arc<str>>,
    /// Process.
    pub(crate) pid: u32,
    /// Thread.
    pub(crate) tid: u32,
    /// When it was entered.
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
    /// A number.
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

    /// The command's name.
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

    /// The duration of the call, if it has returned.
    pub(crate) fn duration_ns(&self) -> Option<u64> {
        Some(self.end_ns?.saturating_sub(self.begin_ns))
    }

    /// Whether it has returned an error.
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
pub(super) mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    /// A call whose struct had the words `before` at entry, and the others at return.
    pub(in super::super) fn call(
        device: Device,
        value: u32,
        ret: i64,
        before: &[(usize, u32)],
        after: &[(usize, u32)],
    ) -> DriverCall {
        let size = xsched_abi::driver::command_size(value).min(STRUCT_LEN_MAX) as u32;
        let mut ioctl = Ioctl::new_zeroed();
        (ioctl.entered.tgid, ioctl.entered.tid, ioctl.end_ns, ioctl.ret) = (1, 1, 20, ret);
        (ioctl.entered.begin_ns, ioctl.entered.command) = (10, value);
        (ioctl.entered.before_len, ioctl.after_len) = (size, size);
        for (bytes, words) in [(&mut ioctl.entered.before, before), (&mut ioctl.after, after)] {
            for &(offset, word) in words {
                bytes[offset..offset + 4].copy_from_slice(&word.to_ne_bytes());
            }
        }
        DriverCall::new(&ioctl, device, None)
    }

    fn shown(call: &DriverCall) -> String {
        let fields = call.fields().map(|(name, shown)| match shown {
            Shown::Number(number) => format!("{name}={number}"),
            Shown::Pointer(address) => format!("{name}={address:#x}"),
            Shown::Text(text) => format!("{name}={text}"),
        });
        fields.collect::<Vec<_>>().join(" ")
    }

    /// `_IOWR('K', 0x02, struct kfd_ioctl_create_queue_args)`
    const CREATE_QUEUE: u32 = 0xc058_4b02;

    #[test]
    fn a_queue_is_shown_with_what_was_asked_for_and_what_came_back() {
        let before = [(0, 0x1000), (32, 65536), (36, 4711), (40, 2), (44, 100), (48, 7), (80, 4096)];
        let after = [(8, 0x2000), (16, 0x3000), (24, 0x4000), (52, 3)];
        let call = call(Device::Kfd, CREATE_QUEUE, 0, &before, &after);
        assert_eq!(call.name(), "AMDKFD_IOC_CREATE_QUEUE");
        assert_eq!(
            shown(&call),
            "ring_base_address=0x1000 write_pointer_address=0x2000 read_pointer_address=0x3000 \
             doorbell_offset=0x4000 ring_size=65536 gpu_id=4711 queue_type=compute AQL queue_percentage=100 \
             queue_priority=7 queue_id=3 ctx_save_restore_size=4096"
        );
    }

    #[test]
    fn a_failed_call_has_an_error_and_returns_nothing() {
        let call = call(Device::Kfd, 0xc020_4b08, -22, &[(12, 8), (16, 1)], &[(24, 5)]);
        assert_eq!(shown(&call), "event_type=memory auto_reset=1");
        assert_eq!(call.error().as_deref(), Some("EINVAL"));
    }

    #[test]
    fn flags_without_a_name_are_shown_too() {
        let call = call(Device::Kfd, 0xc028_4b16, 0, &[(8, 4096), (36, 0x8000_0401)], &[]);
        assert_eq!(shown(&call), "va_addr=0x0 size=4096 handle=0x0 gpu_id=0 flags=VRAM, writable, 0x400");
        assert_eq!(flags(0, &[(1, "a")]), "0x0");
    }

    #[test]
    fn what_the_driver_overwrites_is_shown_as_it_was_passed() {
        // union drm_amdgpu_gem_create: bo_size goes in where the handle comes out.
        let call = call(Device::Dri, 0xc020_6440, 0, &[(0, 8192), (8, 4096), (16, 2)], &[(0, 77)]);
        assert_eq!(shown(&call), "bo_size=8192 alignment=4096 domains=GTT domain_flags=0x0 handle=77");
    }

    #[test]
    fn priorities_are_signed() {
        let call = call(Device::Dri, 0xc010_6442, 0, &[(0, 1), (12, -512_i32 as u32)], &[]);
        assert_eq!(shown(&call), "op=allocate flags=0 ctx_id=0 priority=-512");
    }

    #[test]
    fn fields_beyond_what_was_read_are_left_out() {
        let mut call = call(Device::Kfd, CREATE_QUEUE, 0, &[(0, 0x1000)], &[]);
        call.passed.len = 8;
        call.returned.len = 0;
        assert_eq!(shown(&call), "ring_base_address=0x1000");
    }

    #[test]
    fn a_call_in_progress_shows_what_was_passed() {
        let mut call = call(Device::Kfd, 0xc018_4b0c, 0, &[(8, 2), (16, u32::MAX)], &[]);
        call.end_ns = None;
        assert_eq!(shown(&call), "num_events=2 wait_for_all=0 timeout=4294967295");
        assert_eq!((call.duration_ns(), call.error()), (None, None));
    }
}
