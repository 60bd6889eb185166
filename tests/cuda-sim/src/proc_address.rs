//! `cuGetProcAddress` and its second version: the address of a function by its base name, a version and flags.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use crate::device::VERSION;
use crate::export::{Export, exports};
use crate::result::{INVALID_VALUE, NOT_FOUND, write};
use crate::{context, device, event, graph, green, launch, memory, module, stream};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`
const PER_THREAD: u64 = 2;

/// What the search has found, as `CUdriverProcAddressQueryResult` numbers it.
#[derive(Clone, Copy)]
enum Found {
    Function(*const c_void),
    Nothing,
    NewerThanAsked,
}

fn all() -> impl Iterator<Item = &'static Export> {
    let modules = [
        context::EXPORTS,
        device::EXPORTS,
        event::EXPORTS,
        graph::EXPORTS,
        green::EXPORTS,
        launch::EXPORTS,
        memory::EXPORTS,
        module::EXPORTS,
        stream::EXPORTS,
        EXPORTS,
    ];
    modules.into_iter().flatten()
}

/// A name without its version and variant, and whether it is a per-thread variant.
fn parts(name: &str) -> (&str, bool) {
    let plain = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds"));
    let (base, is_per_thread) = plain.map_or((name, false), |plain| (plain, true));
    let version = base.rfind("_v").filter(|at| base[at + 2..].bytes().all(|byte| byte.is_ascii_digit()));
    (version.map_or(base, |at| &base[..at]), is_per_thread)
}

/// The newest variant that the version has; a function without a per-thread variant serves for both.
fn search(symbol: &str, version: c_int, flags: u64) -> Found {
    let wants_per_thread = flags & PER_THREAD != 0;
    let named = all().filter(|export| parts(export.name).0 == symbol);
    let suitable = named.filter(|export| wants_per_thread || !parts(export.name).1);
    let (old_enough, newer): (Vec<_>, Vec<_>) = suitable.partition(|export| export.since <= version);
    match old_enough.into_iter().max_by_key(|export| (parts(export.name).1, export.since)) {
        Some(export) => Found::Function(export.address),
        None if newer.is_empty() => Found::Nothing,
        None => Found::NewerThanAsked,
    }
}

/// # Safety
///
/// `symbol` is null or a terminated string.
unsafe fn find(symbol: *const c_char, version: c_int, flags: u64) -> Result<Found, u32> {
    if symbol.is_null() || version > VERSION {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller upholds this function's contract.
    let symbol = unsafe { CStr::from_ptr(symbol) }.to_str().map_err(|_| INVALID_VALUE)?;
    Ok(search(symbol, version, flags))
}

exports! {
    @11030 cuGetProcAddress(symbol: *const c_char, out: *mut *const c_void, version: c_int, flags: u64) {
        match find(symbol, version, flags)? {
            Found::Function(address) => write(out, address),
            Found::Nothing | Found::NewerThanAsked => Err(NOT_FOUND),
        }
    }
    @12000 cuGetProcAddress_v2(
        symbol: *const c_char, out: *mut *const c_void, version: c_int, flags: u64, status: *mut u32,
    ) {
        let (address, code) = match find(symbol, version, flags)? {
            Found::Function(address) => (address, 0),
            Found::Nothing => (ptr::null(), 1),
            Found::NewerThanAsked => (ptr::null(), 2),
        };
        if !status.is_null() {
            status.write(code);
        }
        write(out, address)?;
        if address.is_null() && status.is_null() { Err(NOT_FOUND) } else { Ok(()) }
    }
}
