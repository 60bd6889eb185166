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
