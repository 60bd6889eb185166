use xsched_abi::{PROBES, WORD_COUNT};

use super::*;

/// A call of `name` with everything else zero.
pub(crate) fn call(name: &str) -> RuntimeCall {
    RuntimeCall {
        probe: PROBES.iter().find(|probe| probe.name == name).unwrap(),
        pid: 1,
        tid: 1,
        begin_ns: 0,
        end_ns: Some(0),
        cut_ns: None,
        ret: 0,
        words: [0; WORD_COUNT],
        out: 0,
        text: None,
        kernel: None,
        graph: None,
        caller: Caller { library: "libx.so".into(), symbol: None, address: 0 },
        chain: None,
        origin: "libx.so".into(),
        queue: None,
        followed: None,
        judged: None,
    }
}

fn shown(call: &RuntimeCall) -> Vec<String> {
    call.arguments().map(|(name, argument)| format!("{name}={argument}")).collect()
}

#[test]
fn dim3_by_value_is_unpacked_from_two_registers() {
    let mut call = call("hipLaunchKernel");
    call.words[..8].copy_from_slice(&[0xf, 2 << 32 | 64, 3, 5 << 32 | 256, 7, 0, 1024, 2]);
    assert_eq!(shown(&call), ["grid=64x2x3", "block=256x5x7", "shared_bytes=1024", "stream=per-thread"]);
}

#[test]
fn separate_dimensions_ignore_the_upper_halves_of_their_words() {
    let mut call = call("hipModuleLaunchKernel");
    let dirt = 0xdead_beef << 32;
    call.words[..9].copy_from_slice(&[
        0xf,
        dirt | 8,
        dirt | 1,
        dirt | 1,
        dirt | 32,
        dirt | 1,
        dirt | 1,
        dirt,
        0x1000,
    ]);
    assert_eq!(shown(&call), ["grid=8x1x1", "block=32x1x1", "shared_bytes=0", "stream=0x1000"]);
}

#[test]
fn grids_in_threads_become_blocks() {
    let mut call = call("hipExtModuleLaunchKernel");
    call.words[..9].copy_from_slice(&[0xf, 1000, 4, 1, 256, 4, 0, 0, 0]);
    assert_eq!(shown(&call), ["grid=4x1x1", "block=256x4x0", "shared_bytes=0", "stream=null"]);
}

#[test]
fn launch_configurations_are_read_from_their_struct() {
    let mut call = call("hipLaunchKernelExC");
    call.words[6..].copy_from_slice(&[2 << 32 | 1, 4 << 32 | 3, 6 << 32 | 5, 64, 1]);
    assert_eq!(shown(&call), ["grid=1x2x3", "block=4x5x6", "shared_bytes=64", "stream=legacy"]);
}

#[test]
fn copies_name_their_direction() {
    let mut call = call("hipMemcpyAsync");
    call.words[..5].copy_from_slice(&[0x10, 0x20, 4096, 2, 0]);
    assert_eq!(shown(&call), ["dst=0x10", "src=0x20", "bytes=4096", "kind=device to host", "stream=null"]);
}
