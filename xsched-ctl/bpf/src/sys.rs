//! bpf(2) calls that aya 0.14 lacks, or makes only together with others. They concern links of type `uprobe_multi`, programs at
//! functions of kernel modules, maps that are mapped into memory or frozen, elements of arrays of maps, and keys of hash maps.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};

use aya::Pod;
use aya_obj::generated::{
    BPF_F_MMAPABLE, BPF_F_UPROBE_MULTI_RETURN, bpf_attach_type, bpf_attr, bpf_btf_info, bpf_cmd, bpf_insn,
    bpf_map_info, bpf_map_type, bpf_prog_type,
};

/// Size of the buffer for the verifier log of a failed load.
const LOG_SIZE: usize = 1 << 18;

/// More than a bucket has.
const KEYS_AT_ONCE: usize = 512;

/// Creates an array map that can be mapped into memory.
pub fn create_mappable_array(value_size: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of BPF_MAP_CREATE, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_1 };
    fields.map_type = bpf_map_type::BPF_MAP_TYPE_ARRAY as u32;
    fields.key_size = size_of::<u32>() as u32;
    fields.value_size = value_size;
    fields.max_entries = entries;
    fields.map_flags = BPF_F_MMAPABLE;
    bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr)
}

/// Creates a ring buffer of this many bytes: a power of two, and a multiple of the page size.
pub fn create_ring(bytes: u32) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of BPF_MAP_CREATE, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_1 };
    fields.map_type = bpf_map_type::BPF_MAP_TYPE_RINGBUF as u32;
    fields.max_entries = bytes;
    bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr)
}

/// Creates a hash map that evicts the least recently used elements when it is full.
pub fn create_lru_map(key_size: u32, value_size: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of BPF_MAP_CREATE, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_1 };
    fields.map_type = bpf_map_type::BPF_MAP_TYPE_LRU_HASH as u32;
    fields.key_size = key_size;
    fields.value_size = value_size;
    fields.max_entries = entries;
    bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr)
}

/// From now on only programs can change the map. Fails while the map is mapped for writing.
pub fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = zeroed();
    attr.__bindgen_anon_2.map_fd = map.as_raw_fd() as u32;
    bpf_call(bpf_cmd::BPF_MAP_FREEZE, &mut attr).map(drop)
}

/// A program in the form that the kernel requires.
#[derive(Clone, Copy)]
pub struct Code<'a> {
    /// Its name; the kernel keeps 15 bytes of it.
    pub name: &'a str,
    /// Its license.
    pub license: &'a CStr,
    /// Its instructions, including those of the functions that it calls.
    pub instructions: &'a [bpf_insn],
    /// The types of its functions, if the kernel has accepted the object's BTF.
    pub functions: Option<Functions<'a>>,
}

/// Types of a program's functions. With these the verifier checks each global function once, instead of at each call.
#[derive(Clone, Copy)]
pub struct Functions<'a> {
    /// The object's BTF in the kernel.
    pub btf: BorrowedFd<'a>,
    /// `struct bpf_func_info` for each function.
    pub info: &'a [u8],
    /// Size of one.
    pub info_size: usize,
}

/// Gives the kernel type information.
pub fn load_btf(types: &[u8]) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of BPF_BTF_LOAD, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_7 };
    fields.btf = types.as_ptr() as u64;
    fields.btf_size = types.len() as u32;
    bpf(bpf_cmd::BPF_BTF_LOAD, &mut attr)
}

/// The purpose of a loaded program.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// Links of type `uprobe_multi`.
    UprobeMulti,
    /// A function of a kernel module: fentry or fexit.
    ModuleFunction {
        /// When the program runs.
        direction: Direction,
        /// The module's BTF.
        btf: BorrowedFd<'a>,
        /// The function's id in it.
        type_id: u32,
    },
}

/// Loads a program.
///
/// # Errors
///
/// The kernel's error, with the verifier's log if it wrote one.
pub fn load(code: &Code<'_>, purpose: Purpose<'_>) -> Result<OwnedFd, (io::Error, String)> {
    try_load(code, purpose, &mut []).or_else(|_| {
        // The log costs time, so it is requested only after a failure.
        let mut log = vec![0u8; LOG_SIZE];
        try_load(code, purpose, &mut log).map_err(|error| {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            (error, String::from_utf8_lossy(&log[..end]).into_owned())
        })
    })
}

fn try_load(code: &Code<'_>, purpose: Purpose<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of BPF_PROG_LOAD, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_3 };
    match purpose {
        Purpose::UprobeMulti => {
            fields.prog_type = bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32;
            fields.expected_attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
        }
        Purpose::ModuleFunction { direction, btf, type_id } => {
            fields.prog_type = bpf_prog_type::BPF_PROG_TYPE_TRACING as u32;
            fields.expected_attach_type = match direction {
                Direction::Enter => bpf_attach_type::BPF_TRACE_FENTRY as u32,
                Direction::Return => bpf_attach_type::BPF_TRACE_FEXIT as u32,
            };
            fields.attach_btf_id = type_id;
            fields.__bindgen_anon_1.attach_btf_obj_fd = btf.as_raw_fd() as u32;
        }
    }
    fields.insns = code.instructions.as_ptr() as u64;
    fields.insn_cnt = code.instructions.len() as u32;
    fields.license = code.license.as_ptr() as u64;
    if let Some(functions) = &code.functions {
        fields.prog_btf_fd = functions.btf.as_raw_fd() as u32;
        fields.func_info = functions.info.as_ptr() as u64;
        fields.func_info_rec_size = functions.info_size as u32;
        fields.func_info_cnt = (functions.info.len() / functions.info_size.max(1)) as u32;
    }
    if !log.is_empty() {
        fields.log_level = 1;
        fields.log_buf = log.as_mut_ptr() as u64;
        fields.log_size = log.len() as u32;
    }
    for (to, from) in fields.prog_name.iter_mut().take(15).zip(code.name.bytes()) {
        *to = from as libc::c_char;
    }
    bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)
}

/// When the program of a link runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// At the function's entry.
    Enter,
    /// When the function returns.
    Return,
}

/// Attaches `program` at every file offset of `path`, each with its cookie; `tgid` restricts it to one process.
///
/// # Panics
///
/// If there are not as many cookies as offsets.
pub fn link_uprobe_multi(
    program: BorrowedFd<'_>,
    direction: Direction,
    path: &std::path::Path,
    offsets: &[u64],
    cookies: &[u64],
    tgid: Option<u32>,
) -> io::Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt as _;

    assert_eq!(offsets.len(), cookies.len(), "one cookie for each offset");
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of BPF_LINK_CREATE, and all its fields are plain data.
    let create = unsafe { &mut attr.link_create };
    create.__bindgen_anon_1.prog_fd = program.as_raw_fd() as u32;
    create.attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    // SAFETY: this arm is the one of BPF_TRACE_UPROBE_MULTI, and all its fields are plain data.
    let multi = unsafe { &mut create.__bindgen_anon_3.uprobe_multi };
    multi.path = path.as_ptr() as u64;
    multi.offsets = offsets.as_ptr() as u64;
    multi.cookies = cookies.as_ptr() as u64;
    multi.cnt = offsets.len() as u32;
    multi.pid = tgid.unwrap_or(0);
    if direction == Direction::Return {
        multi.flags = BPF_F_UPROBE_MULTI_RETURN;
    }
    bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr)
}

/// Attaches a program that was loaded for a kernel function.
pub fn link_function(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of BPF_RAW_TRACEPOINT_OPEN, and all its fields are plain data.
    unsafe { &mut attr.raw_tracepoint }.prog_fd = program.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attr)
}

/// Opens the BTF of a loaded kernel module.
pub fn module_btf(module: &str) -> io::Result<OwnedFd> {
    let mut id = 0;
    loop {
        id = next_btf_id(id).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::new(io::ErrorKind::NotFound, format!("the module {module} has no BTF"))
            }
            _ => error,
        })?;
        // The module may have been unloaded meanwhile.
        let Ok(btf) = btf_by_id(id) else { continue };
        if btf_name(btf.as_fd())? == module.as_bytes() {
            return Ok(btf);
        }
    }
}

fn next_btf_id(after: u32) -> io::Result<u32> {
    let mut attr = zeroed();
    // SAFETY: these arms of the unions are the ones of BPF_BTF_GET_NEXT_ID, and all their fields are plain data.
    let ids = unsafe { &mut attr.__bindgen_anon_6 };
    ids.__bindgen_anon_1.start_id = after;
    bpf_call(bpf_cmd::BPF_BTF_GET_NEXT_ID, &mut attr)?;
    // SAFETY: as above.
    Ok(unsafe { attr.__bindgen_anon_6.next_id })
}

fn btf_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.__bindgen_anon_6.__bindgen_anon_1.btf_id = id;
    bpf(bpf_cmd::BPF_BTF_GET_FD_BY_ID, &mut attr)
}

/// The name of a BTF object: its module, `vmlinux`, or empty for one that a program has loaded.
fn btf_name(btf: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    /// The kernel's `MODULE_NAME_LEN`.
    const NAME_LEN_MAX: usize = 56;
    let mut name = vec![0u8; NAME_LEN_MAX];
    // SAFETY: an all-zero bpf_btf_info is valid.
    let mut info: bpf_btf_info = unsafe { std::mem::zeroed() };
    info.name = name.as_mut_ptr() as u64;
    info.name_len = NAME_LEN_MAX as u32;
    let mut attr = zeroed();
    attr.info.bpf_fd = btf.as_raw_fd() as u32;
    attr.info.info_len = size_of::<bpf_btf_info>() as u32;
    attr.info.info = (&raw mut info) as u64;
    bpf_call(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
    Ok(name)
}

/// The number by which the kernel knows a map.
pub fn id(map: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: an all-zero bpf_map_info is valid.
    let mut info: bpf_map_info = unsafe { std::mem::zeroed() };
    let mut attr = zeroed();
    attr.info.bpf_fd = map.as_raw_fd() as u32;
    attr.info.info_len = size_of::<bpf_map_info>() as u32;
    attr.info.info = (&raw mut info) as u64;
    bpf_call(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(info.id)
}

/// Writes an element of an array that no other process has yet: `value`, and zeroes behind it.
pub fn set<const N: usize>(map: BorrowedFd<'_>, index: u32, value: &[u8; N]) -> io::Result<()> {
    element(bpf_cmd::BPF_MAP_UPDATE_ELEM, map, index, value.as_ptr() as u64)
}

/// All keys of a hash map, whose values have this size, bucket by bucket. A walk from key to key begins again whenever a program has
/// removed the key that it is at, so beside busy programs it may not end.
pub(crate) fn keys<K: Pod>(map: BorrowedFd<'_>, value_size: usize) -> io::Result<Vec<K>> {
    let mut known: Vec<K> = Vec::new();
    let mut values = vec![0_u8; value_size * KEYS_AT_ONCE];
    let mut bucket: Option<u32> = None;
    loop {
        let (mut next, from) = (0_u32, bucket.unwrap_or_default());
        known.reserve(KEYS_AT_ONCE);
        let mut attr = zeroed();
        attr.batch.map_fd = map.as_raw_fd() as u32;
        attr.batch.in_batch = bucket.map_or(0, |_| (&raw const from) as u64);
        attr.batch.out_batch = (&raw mut next) as u64;
        attr.batch.keys = known.spare_capacity_mut().as_mut_ptr() as u64;
        attr.batch.values = values.as_mut_ptr() as u64;
        attr.batch.count = KEYS_AT_ONCE as u32;
        let is_last = match bpf_call(bpf_cmd::BPF_MAP_LOOKUP_BATCH, &mut attr) {
            Ok(_) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            Err(error) => return Err(error),
        };
        // SAFETY: this arm of the union is the one of batches. The kernel has written so many keys, at most as many as were reserved, and
        // any bytes are a key.
        unsafe { known.set_len(known.len() + attr.batch.count as usize) };
        if is_last {
            return Ok(known);
        }
        bucket = Some(next);
    }
}

/// Puts a map into an array of maps. Programs see it at once. The call returns once all programs have ended that may have seen
/// the previous map, which takes the kernel some milliseconds.
pub fn insert_map(maps: BorrowedFd<'_>, index: u32, map: BorrowedFd<'_>) -> io::Result<()> {
    set(maps, index, &map.as_raw_fd().to_ne_bytes())
}

/// Puts maps into an array of maps, from the index `first` on. Programs see each at once. Where the kernel can insert them together
/// (Linux 5.19), it waits once, otherwise for each.
pub fn insert_maps(maps: BorrowedFd<'_>, first: u32, new: &[BorrowedFd<'_>]) -> io::Result<()> {
    let keys: Vec<u32> = (first..).take(new.len()).collect();
    let values: Vec<i32> = new.iter().map(AsRawFd::as_raw_fd).collect();
    let mut attr = zeroed();
    attr.batch.map_fd = maps.as_raw_fd() as u32;
    attr.batch.keys = keys.as_ptr() as u64;
    attr.batch.values = values.as_ptr() as u64;
    attr.batch.count = new.len() as u32;
    if bpf_call(bpf_cmd::BPF_MAP_UPDATE_BATCH, &mut attr).is_ok() {
        return Ok(());
    }
    // Those that a batch has inserted before it failed are inserted once more.
    keys.into_iter().zip(new).try_for_each(|(index, map)| insert_map(maps, index, *map))
}

/// Removes a map from an array of maps. It takes as long as [`insert_map`].
pub fn remove_map(maps: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    element(bpf_cmd::BPF_MAP_DELETE_ELEM, maps, index, 0)
}

/// The [`id`] of the map at an index of an array of maps, if there is one.
pub fn id_at(maps: BorrowedFd<'_>, index: u32) -> Option<u32> {
    let mut id = 0_u32;
    element(bpf_cmd::BPF_MAP_LOOKUP_ELEM, maps, index, (&raw mut id) as u64).is_ok().then_some(id)
}

/// Writes an element of a map whose keys and values have these types. It makes one system call and allocates nothing, so it may
/// be called between fork and exec.
pub fn insert(map: BorrowedFd<'_>, key: u32, value: u8) -> io::Result<()> {
    element(bpf_cmd::BPF_MAP_UPDATE_ELEM, map, key, (&raw const value) as u64)
}

fn element(command: bpf_cmd, map: BorrowedFd<'_>, key: u32, value: u64) -> io::Result<()> {
    let mut attr = zeroed();
    // SAFETY: this arm of the union is the one of single elements, and all its fields are plain data.
    let fields = unsafe { &mut attr.__bindgen_anon_2 };
    fields.map_fd = map.as_raw_fd() as u32;
    fields.key = (&raw const key) as u64;
    fields.__bindgen_anon_1.value = value;
    bpf_call(command, &mut attr).map(drop)
}

fn zeroed() -> bpf_attr {
    // SAFETY: an all-zero bpf_attr is valid, and the kernel requires unused fields to be zero.
    unsafe { std::mem::zeroed() }
}

/// For commands that return a new file descriptor.
fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    let fd = bpf_call(command, attr)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf_call(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: `attr` is a complete bpf_attr whose pointers outlive the call.
    let outcome = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_int, std::ptr::from_mut(attr), size_of::<bpf_attr>())
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as i32) }
}
