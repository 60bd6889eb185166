use std::io::Write as _;

use object::elf;

use super::*;

/// A MessagePack map with these fields.
fn map(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmp::encode::write_map_len(&mut bytes, fields.len() as u32).unwrap();
    for (name, value) in fields {
        rmp::encode::write_str(&mut bytes, name).unwrap();
        bytes.extend(value);
    }
    bytes
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmp::encode::write_array_len(&mut bytes, items.len() as u32).unwrap();
    for item in items {
        bytes.extend(item);
    }
    bytes
}

fn text(value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmp::encode::write_str(&mut bytes, value).unwrap();
    bytes
}

fn int(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmp::encode::write_uint(&mut bytes, value).unwrap();
    bytes
}

fn argument(offset: u64, size: u64, kind: &str) -> Vec<u8> {
    map(&[(".offset", int(offset)), (".size", int(size)), (".value_kind", text(kind))])
}

fn code_object(kernel: &str) -> Vec<u8> {
    code_object_of(&[metadata_note(kernel)])
}

/// A note with the metadata of one kernel.
fn metadata_note(kernel: &str) -> Vec<u8> {
    let arguments = [
        argument(0, 8, "global_buffer"),
        argument(8, 4, "by_value"),
        argument(16, 8, "hidden_global_offset_x"),
    ];
    let kernel = map(&[
        (".name", text(kernel)),
        (".args", list(&arguments)),
        (".max_flat_workgroup_size", int(256)),
        (".group_segment_fixed_size", int(48)),
    ]);
    let note = map(&[("amdhsa.kernels", list(&[kernel]))]);

    let mut notes = Vec::new();
    for word in [7, note.len() as u32, 32] {
        notes.extend(word.to_le_bytes());
    }
    notes.extend(b"AMDGPU\0\0");
    notes.extend(&note);
    notes.resize(notes.len().next_multiple_of(4), 0);
    notes
}

/// A code object with the parts that the reader uses: an ELF header, a segment of notes, section headers last.
fn code_object_of(notes: &[Vec<u8>]) -> Vec<u8> {
    let notes = notes.concat();
    let (header, segment) = (64, 56);
    let mut bytes = vec![0; header + segment];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 64]);
    bytes[16..20].copy_from_slice(&[3, 0, 224, 0]);
    let mut put = |at: usize, value: u64, len: usize| {
        bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
    };
    put(20, 1, 4);
    put(32, header as u64, 8);
    // Section headers, none, behind everything.
    put(40, (header + segment + notes.len()) as u64, 8);
    put(54, segment as u64, 2);
    put(56, 1, 2);
    put(header, elf::PT_NOTE.0.into(), 4);
    put(header + 8, (header + segment) as u64, 8);
    put(header + 32, notes.len() as u64, 8);
    put(header + 48, 4, 8);
    bytes.extend(notes);
    bytes
}

const TARGET: &str = "hipv4-amdgcn-amd-amdhsa--gfx942";

fn bundle(code_object: &[u8]) -> Vec<u8> {
    bundle_of(&[("host-x86_64-unknown-linux--", b""), (TARGET, code_object)])
}

fn bundle_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let header: usize = 32 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend((entries.len() as u64).to_le_bytes());
    let mut offset = header;
    for (id, code) in entries {
        for word in [offset, code.len(), id.len()] {
            bytes.extend((word as u64).to_le_bytes());
        }
        bytes.extend(id.as_bytes());
        offset += code.len();
    }
    bytes.extend(entries.iter().flat_map(|(_, code)| *code));
    bytes
}

fn compressed(bundle: &[u8], version: u16, method: u16) -> Vec<u8> {
    let payload = if method == 0 {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bundle).unwrap();
        encoder.finish().unwrap()
    } else {
        ruzstd::encoding::compress_to_vec(bundle, ruzstd::encoding::CompressionLevel::Fastest)
    };
    let mut bytes = b"CCOB".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(method.to_le_bytes());
    let size = bundle.len() as u64;
    match version {
        1 => bytes.extend((size as u32).to_le_bytes()),
        2 => {
            bytes.extend((24 + payload.len() as u32).to_le_bytes());
            bytes.extend((size as u32).to_le_bytes());
        }
        _ => {
            bytes.extend((32 + payload.len() as u64).to_le_bytes());
            bytes.extend(size.to_le_bytes());
        }
    }
    bytes.extend([0xaa; 8]);
    bytes.extend(payload);
    bytes
}

fn expected() -> Kernel {
    let parameters = vec![Parameter { offset: 0, size: 8 }, Parameter { offset: 8, size: 4 }];
    Kernel { parameters, threads_max: 256, shared_bytes: 48 }
}

#[test]
fn explicit_arguments_are_found_in_every_container() {
    let code = code_object("add");
    let bundle = bundle(&code);
    let mut images = vec![code, bundle.clone()];
    for version in 1..=3 {
        images.extend([0, 1].map(|method| compressed(&bundle, version, method)));
    }
    for (index, image) in images.iter().enumerate() {
        let kernels = read(image).unwrap_or_else(|error| panic!("image {index}: {error}"));
        assert_eq!(*kernels["add"], expected(), "image {index}");
    }
}

#[test]
fn a_code_object_with_a_note_for_each_kernel_has_all_of_them() {
    let mut notes: Vec<_> = (0..464).map(|number| metadata_note(&format!("gemm_{number}"))).collect();
    // A kernel without arguments, a note of another owner, and one that is no MessagePack.
    let bare = map(&[("amdhsa.kernels", list(&[map(&[(".name", text("bare"))])]))]);
    for (owner, contents) in
        [(b"AMDGPU\0\0", bare), (b"OTHERS\0\0", vec![1; 8]), (b"AMDGPU\0\0", vec![0xc1; 8])]
    {
        let mut note: Vec<u8> =
            [7, contents.len() as u32, 32].into_iter().flat_map(u32::to_le_bytes).collect();
        note.extend(owner);
        note.extend(contents);
        note.resize(note.len().next_multiple_of(4), 0);
        notes.insert(notes.len() / 2, note);
    }
    let kernels = read(&code_object_of(&notes)).unwrap();
    assert_eq!(kernels.len(), 465);
    for number in [0, 1, 463] {
        assert_eq!(*kernels[&format!("gemm_{number}")], expected());
    }
    assert_eq!(*kernels["bare"], Kernel { parameters: vec![], threads_max: 1024, shared_bytes: 0 });
}

#[test]
fn a_bundle_that_begins_with_spirv_gives_the_kernels_of_its_other_code() {
    let (spirv, code) = (b"\x03\x02\x23\x07 and more", code_object("add"));
    let spirv_id = "hip-spirv64-amd-amdhsa--amdgcnspirv";
    let bundle = bundle_of(&[("host-x86_64-unknown-linux--", b""), (spirv_id, spirv), (TARGET, &code)]);
    assert_eq!(*read(&bundle).unwrap()["add"], expected());
    assert_eq!(read(&bundle_of(&[(spirv_id, spirv)])), Err(ImageError::Elf));
}

#[test]
fn the_headers_of_an_image_in_memory_give_its_length() {
    let code = code_object("add");
    let bundle = bundle(&code);
    for whole in [code, compressed(&bundle, 2, 1), compressed(&bundle, 3, 0), bundle] {
        let mut memory = whole.clone();
        memory.extend([0xee; 64]);
        // SAFETY: complete images, with more behind them.
        let found = unsafe { bundle::image(memory.as_ptr()) }.unwrap();
        assert_eq!(found, whole);
    }
}

#[test]
fn damaged_images_are_refused_without_a_panic() {
    let image = bundle(&code_object("add"));
    for len in 0..image.len() - 8 {
        assert!(read(&image[..len]).is_err() || read(&image[..len]).unwrap().is_empty(), "{len} bytes");
    }
    for at in 0..image.len() {
        let mut changed = image.clone();
        changed[at] ^= 0xff;
        // Any result is correct, but no panic.
        let _ = read(&changed);
    }
    assert_eq!(read(b"something else"), Err(ImageError::Unknown));
}

#[test]
fn kernels_are_known_by_handle_until_they_are_unregistered() {
    let image = bundle(&code_object("kernel_of_the_test"));
    let wrapper = [u64::from(u32::from_be_bytes(*b"HIPF")) | 1 << 32, image.as_ptr() as u64, 0];
    let (copy, modules, handle) = (9, 0x10, 0x20);
    fat_binary_registered(copy, modules, wrapper.as_ptr() as usize);
    // SAFETY: a C string.
    unsafe { kernel_registered(copy, modules, handle, c"kernel_of_the_test".as_ptr()) };
    assert_eq!(by_handle(copy, handle).as_deref(), Some(&expected()));
    assert_eq!(by_handle(copy + 1, handle), None, "of another copy");
    assert_eq!(fat_binary_unregistered(copy, modules), Some(wrapper.as_ptr() as usize));
    assert_eq!(by_handle(copy, handle), None);
}

#[test]
fn while_a_fat_binary_is_read_only_those_wait_that_need_it() {
    let image = bundle(&code_object("kernel_of_the_test"));
    let wrapper = [u64::from(u32::from_be_bytes(*b"HIPF")) | 1 << 32, image.as_ptr() as u64, 0];
    let copy = 10;
    let register = |modules, handle| {
        fat_binary_registered(copy, modules, wrapper.as_ptr() as usize);
        // SAFETY: a C string.
        unsafe { kernel_registered(copy, modules, handle, c"kernel_of_the_test".as_ptr()) };
    };
    register(1, 11);
    let contents = Arc::clone(&registry().fat_binaries[&(copy, 1)].contents);
    // As a thread does that reads it.
    let mut reading = contents.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| by_handle(copy, 11));
        while Arc::strong_count(&contents) < 3 {
            std::thread::yield_now();
        }
        register(2, 12);
        assert_eq!(by_handle(copy, 12).as_deref(), Some(&expected()));
        let unregistering = scope.spawn(|| fat_binary_unregistered(copy, 1));
        while registry().fat_binaries.contains_key(&(copy, 1)) {
            std::thread::yield_now();
        }
        assert!(!waiting.is_finished() && !unregistering.is_finished(), "the image is still being read");
        *reading = Some(read(&image).unwrap());
        drop(reading);
        assert_eq!(waiting.join().unwrap().as_deref(), Some(&expected()));
        assert_eq!(unregistering.join().unwrap(), Some(wrapper.as_ptr() as usize));
    });
    assert_eq!(by_handle(copy, 11), None);
    fat_binary_unregistered(copy, 2);
}

#[test]
fn functions_are_known_until_their_module_is_unloaded() {
    let image = code_object("kernel_of_the_test");
    let (copy, module, function) = (9, 0x30, 0x40);
    // SAFETY: a complete image.
    unsafe { module_loaded(copy, module, image.as_ptr()) };
    drop(image);
    function_found(copy, module, function, c"kernel_of_the_test");
    assert_eq!(by_function(copy, function).as_deref(), Some(&expected()));
    function_found(copy, module, function, c"another");
    assert_eq!(by_function(copy, function), None, "the address is another function's now");
    assert_eq!(name(copy, function).as_deref(), Some("another"), "it has a name all the same");
    function_found(copy, module, function, c"kernel_of_the_test");
    module_unloaded(copy, module);
    assert_eq!((by_function(copy, function), name(copy, function)), (None, None));
}

#[test]
fn a_compressed_module_is_read_when_a_launch_needs_it() {
    let bundle = bundle(&code_object("kernel_of_the_test"));
    let (copy, module, function) = (9, 0xc0, 0xd0);
    let is_read = || {
        let module = Arc::clone(&registry().modules[&(copy, module)]);
        matches!(*module.lock().unwrap(), ModuleCode::Read(_))
    };
    for version in [2, 3] {
        let image = compressed(&bundle, version, 1);
        // SAFETY: a complete image.
        unsafe { module_loaded(copy, module, image.as_ptr()) };
        drop(image);
        function_found(copy, module, function, c"kernel_of_the_test");
        assert!(!is_read(), "version {version}");
        for _ in 0..2 {
            assert_eq!(by_function(copy, function).as_deref(), Some(&expected()));
            assert!(is_read());
        }
        module_unloaded(copy, module);
        assert_eq!(by_function(copy, function), None);
    }
}

#[test]
fn a_function_of_a_handle_is_known_as_long_as_the_handle() {
    let image = bundle(&code_object("kernel_of_the_test"));
    let wrapper = [u64::from(u32::from_be_bytes(*b"HIPF")) | 1 << 32, image.as_ptr() as u64, 0];
    let (copy, modules, handle, function) = (9, 0x50, 0x60, 0x70);
    fat_binary_registered(copy, modules, wrapper.as_ptr() as usize);
    // SAFETY: a C string.
    unsafe { kernel_registered(copy, modules, handle, c"kernel_of_the_test".as_ptr()) };
    function_of_handle(copy, function, handle);
    assert_eq!(by_function(copy, function).as_deref(), Some(&expected()));
    module_unloaded(copy, modules);
    assert!(by_function(copy, function).is_some(), "no module's");
    assert_eq!(name(copy, function), name(copy, handle));
    assert_eq!(name(copy, handle).as_deref(), Some("kernel_of_the_test"));
    fat_binary_unregistered(copy, modules);
    assert_eq!(by_function(copy, function), None);
    assert!(!registry().functions.contains_key(&(copy, function)), "the address may be another's soon");
}

#[test]
fn a_kernel_has_two_names() {
    let image = code_object("kernel_of_the_test");
    let (copy, library, kernel, function) = (9, 0x80, 0x90, 0xa0);
    // SAFETY: a complete image.
    unsafe { module_loaded(copy, library, image.as_ptr()) };
    function_found(copy, library, kernel, c"kernel_of_the_test");
    function_of_kernel(copy, function, kernel);
    assert_eq!(by_function(copy, function).as_deref(), Some(&expected()));
    assert_eq!(name(copy, function).as_deref(), Some("kernel_of_the_test"));
    function_of_kernel(copy, function, 0xb0);
    assert_eq!(name(copy, function), None);
    assert_eq!(by_function(copy, function), None, "another kernel's, of which nothing is known");
    function_of_kernel(copy, function, kernel);
    module_unloaded(copy, library);
    assert_eq!((by_function(copy, kernel), by_function(copy, function)), (None, None));
}
