//! Device code in every container format, run by the simulated runtime.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xsched_tests::artifacts::{app, app_command, hip_sim, shim};

const RUNS: &str = "it was built";
const TEXT: &str = "programs print text";

/// The last line of a program's output on a device, and its stderr.
fn ending(program: &str, arch: &str) -> (String, String) {
    let output = app_command(program, &["--launches", "100"]).env("HIP_SIM_ARCH", arch).output();
    let output = output.expect(RUNS);
    let text = String::from_utf8(output.stdout).expect(TEXT);
    (text.lines().last().unwrap_or_default().to_owned(), String::from_utf8(output.stderr).expect(TEXT))
}

#[test]
fn programs_of_every_code_object_version_compute_the_same() {
    let expected = ending("vector_add", "gfx942");
    assert!(expected.0.ends_with(", ok"), "{expected:?}");
    for name in [
        "vector_add_v4",
        "vector_add_v5",
        "vector_add_v6",
        "vector_add_compressed",
        "vector_add_compressed_v4",
    ] {
        assert_eq!(ending(name, "gfx942"), expected, "{name}");
    }
}

#[test]
fn a_device_uses_the_code_that_was_compiled_for_it() {
    let expected = ending("vector_add", "gfx942");
    for arch in ["gfx942", "gfx90a", "gfx90a:xnack+", "gfx90a:sramecc-:xnack-", "gfx1100"] {
        assert_eq!(ending("vector_add_targets", arch), expected, "{arch}");
    }
    for (program, arch) in [("vector_add_targets", "gfx1030"), ("vector_add", "gfx90a")] {
        let (last, error) = ending(program, arch);
        assert!(last.is_empty() && error.contains("hipErrorNoBinaryForGpu"), "{arch}: {last} {error}");
    }
}

/// A module of `vector_add`.
fn module(name: &str) -> Vec<u8> {
    fs::read(app("obj").join(name)).expect("it was built")
}

/// The result of loading an image as a module and getting its kernel.
fn loaded(image: &[u8], folder: &Path) -> String {
    let (file, library) = (folder.join("module"), hip_sim(6).join("libamdhip64.so.6"));
    fs::write(&file, image).expect("the folder is ours");
    let words: Vec<PathBuf> = vec!["load".into(), library, file, "vector_add".into()];
    let output = app_command("table_client", &[]).args(words).env_remove("HIP_SIM_ARCH").output();
    String::from_utf8(output.expect(RUNS).stdout).expect(TEXT)
}

const FINE: &str = "load 0 function 0 attribute 0 registers some\n";

/// A container of version 2, as clang 19 writes it, converted to another version.
fn rewrapped(image: &[u8], version: u16) -> Vec<u8> {
    let (magic, method, payload) = (&image[..4], &image[6..8], &image[24..]);
    assert_eq!(u16::from_le_bytes([image[4], image[5]]), 2, "what clang 19 writes");
    let (size, hash) = (&image[12..16], &image[16..24]);
    let sizes = match version {
        1 => size.to_vec(),
        _ => [&(32 + payload.len() as u64).to_le_bytes()[..], size, &[0; 4]].concat(),
    };
    [magic, &version.to_le_bytes(), method, &sizes, hash, payload].concat()
}

#[test]
fn modules_are_loaded_from_every_container() {
    let folder = tempfile::tempdir().unwrap();
    let (bundle, compressed) = (module("vector_add.co"), module("vector_add_compressed.co"));
    assert!(bundle.starts_with(b"__CLANG_OFFLOAD_BUNDLE__"));
    let elf = bundle.windows(4).position(|bytes| bytes == b"\x7fELF").expect("it holds code");
    for (what, image) in [
        ("bundle", bundle.clone()),
        ("bare file", bundle[elf..].to_vec()),
        ("compressed, version 1", rewrapped(&compressed, 1)),
        ("compressed, version 2", compressed.clone()),
        ("compressed, version 3", rewrapped(&compressed, 3)),
    ] {
        assert_eq!(loaded(&image, folder.path()), FINE, "{what}");
    }
}

#[test]
fn a_damaged_module_is_refused_with_the_right_code() {
    let folder = tempfile::tempdir().unwrap();
    let load = |image: &[u8]| {
        let text = loaded(image, folder.path());
        text.split(' ').nth(1).unwrap_or_else(|| panic!("it ended: {text}")).to_owned()
    };
    let (bundle, compressed) = (module("vector_add.co"), module("vector_add_compressed.co"));
    // Invalid value, invalid image, invalid kernel file.
    assert_eq!(load(&compressed[..100]), "200", "a truncated file");
    let mut unknown = compressed.clone();
    unknown[4] = 9;
    assert_eq!(load(&unknown), "1", "a future version");
    assert_eq!(load(&bundle[..bundle.len() / 2]), "200");
    assert_eq!(load(b"plain text"), "218");
    assert_eq!(load(&fs::read("/bin/true").unwrap()), "200", "a host program");
}

/// The code object of `vector_add` as if it had been linked from two, as Tensile's are from hundreds: another kernel's note comes
/// before its own.
fn linked_from_two() -> Vec<u8> {
    const NOTE_SEGMENT: u64 = 4;
    let bundle = module("vector_add.co");
    let elf = bundle.windows(4).position(|bytes| bytes == b"\x7fELF").expect("it holds code");
    let mut code = bundle[elf..].to_vec();
    let field = |code: &[u8], at: usize, len: usize| {
        code[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    let segments =
        (0..field(&code, 0x38, 2)).map(|n| (field(&code, 0x20, 8) + n * field(&code, 0x36, 2)) as usize);
    let segment = segments.into_iter().find(|&at| field(&code, at, 4) == NOTE_SEGMENT).expect("it has notes");
    let (offset, size) = (field(&code, segment + 8, 8) as usize, field(&code, segment + 32, 8) as usize);

    // MessagePack: a map of one list of one map.
    let metadata = b"\x81\xaeamdhsa.kernels\x91\x81\xa5.name\xa5other";
    let mut notes: Vec<u8> = [7, metadata.len() as u32, 32].into_iter().flat_map(u32::to_le_bytes).collect();
    notes.extend(b"AMDGPU\0\0");
    notes.extend(metadata);
    notes.resize(notes.len().next_multiple_of(4), 0);
    notes.extend(&code[offset..offset + size]);

    let sections = field(&code, 0x28, 8) as usize;
    let sections =
        code[sections..sections + (field(&code, 0x3a, 2) * field(&code, 0x3c, 2)) as usize].to_vec();
    code.resize(code.len().next_multiple_of(8), 0);
    let (new_notes, new_sections) =
        (code.len() as u64, (code.len() + notes.len()).next_multiple_of(8) as u64);
    for (at, value) in [(segment + 8, new_notes), (segment + 32, notes.len() as u64), (0x28, new_sections)] {
        code[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    code.extend(notes);
    code.resize(new_sections as usize, 0);
    code.extend(sections);
    code
}

#[test]
fn kernels_behind_the_first_of_several_notes_are_found_and_deferred() {
    let folder = tempfile::tempdir().unwrap();
    let image = linked_from_two();
    assert_eq!(loaded(&image, folder.path()), FINE);

    let script = "import ctypes, sys
hip = ctypes.CDLL(sys.argv[1])
image = open(sys.argv[2], 'rb').read()
def ok(code): assert code == 0, code
module, function, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
ok(hip.hipModuleLoadData(ctypes.byref(module), image))
ok(hip.hipModuleGetFunction(ctypes.byref(function), module, b'vector_add'))
ok(hip.hipStreamCreate(ctypes.byref(stream)))
vectors, sum = ctypes.create_string_buffer(256), ctypes.c_void_p()
arguments = (ctypes.c_void_p * 2)(ctypes.addressof(vectors), ctypes.addressof(sum))
for launch in range(3000):
    ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments, None))
ok(hip.hipStreamSynchronize(stream))
print('done')";
    let (log, report) = (folder.path().join("log"), folder.path().join("report"));
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(hip_sim(6).join("libamdhip64.so.6"))
        .arg(folder.path().join("module"))
        .env("LD_PRELOAD", shim())
        .env("XSCHED_LOG", &log)
        .env("XSCHED_TEST_SUSPEND", "random:1")
        .env("HIP_SIM_REPORT", &report)
        .output()
        .expect("python3 is installed");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{error}");
    let (log, report) = (fs::read_to_string(log).unwrap(), fs::read_to_string(report).unwrap());
    assert!(report.contains("launch vector_add 3000\n"), "{report}");
    assert!(log.contains("  deferred\n") && !log.contains("  waited in place\n"), "{log}");
}
