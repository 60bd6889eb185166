//! Device code in every container format, run by the simulated runtime.

use std::fs;
use std::path::{Path, PathBuf};

use xsched_tests::artifacts::{app, app_command, hip_sim};

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
