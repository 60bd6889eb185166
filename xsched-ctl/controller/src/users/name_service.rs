//! The system's name services: files, LDAP, or whatever nsswitch.conf(5) lists. Any answer may take as long as a
//! network does.
//!
//! Not by a crate: `uzers` (0.12) does not tell failures from unknown users, and `nix` (0.31) reads `errno`, which these functions
//! need not set, instead of what they return.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_char, c_int, passwd};

/// Size of the buffer for an entry's text, and the limit up to which it grows.
const TEXT_LEN: usize = 4 << 10;
const TEXT_LEN_MAX: usize = 1 << 20;

/// The number of the user with this name; none if there is no such user.
pub(crate) fn number(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    look_up(
        |entry, text, len, found| {
            // SAFETY: `name` ends with a zero byte and lives on; `look_up` guarantees the rest.
            unsafe { libc::getpwnam_r(name.as_ptr(), entry, text, len, found) }
        },
        |entry| entry.pw_uid,
    )
}

/// The name of the user with this number; none if there is no such user.
pub(crate) fn name(uid: u32) -> io::Result<Option<String>> {
    look_up(
        |entry, text, len, found| {
            // SAFETY: `look_up` guarantees that all pointers may be written to.
            unsafe { libc::getpwuid_r(uid, entry, text, len, found) }
        },
        |entry| {
            // SAFETY: the name of an entry that was found ends with a zero byte, and lies in the text, which lives on.
            unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned()
        },
    )
}

/// Asks by getpwnam_r(3) or getpwuid_r(3). `ask` gets an entry to fill, `len` bytes for its text, and space for the
/// pointer to the entry. All of these may be written to.
fn look_up<T>(
    ask: impl Fn(*mut passwd, *mut c_char, usize, *mut *mut passwd) -> c_int,
    take: impl Fn(&passwd) -> T,
) -> io::Result<Option<T>> {
    let mut text: Vec<c_char> = vec![0; TEXT_LEN];
    loop {
        let (mut entry, mut found) = (MaybeUninit::<passwd>::uninit(), ptr::null_mut());
        match ask(entry.as_mut_ptr(), text.as_mut_ptr(), text.len(), &raw mut found) {
            0 if found.is_null() => return Ok(None),
            // SAFETY: the entry was found, so all of it has been written.
            0 => return Ok(Some(take(unsafe { entry.assume_init_ref() }))),
            // Some services return these for unknown users
            // ([getpwnam_r(3)](https://man7.org/linux/man-pages/man3/getpwnam.3.html), ERRORS).
            libc::ENOENT | libc::ESRCH => return Ok(None),
            libc::EINTR => {}
            libc::ERANGE if text.len() < TEXT_LEN_MAX => text.resize(text.len() * 2, 0),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_both_ways_and_an_unknown_name_is_not() {
        assert_eq!((number("root").unwrap(), name(0).unwrap().as_deref()), (Some(0), Some("root")));
        assert_eq!((number("no-such-user").unwrap(), number("a\0b").unwrap()), (None, None));
        assert_eq!(name(4_000_000_001).unwrap(), None);
    }

    #[test]
    fn a_text_that_is_too_short_grows() {
        let lens = std::cell::RefCell::new(Vec::new());
        let outcome = look_up(
            |_, _, len, _| {
                lens.borrow_mut().push(len);
                libc::ERANGE
            },
            |_| (),
        );
        assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::ERANGE));
        let lens = lens.into_inner();
        assert_eq!((lens[0], lens[1], lens.last()), (TEXT_LEN, 2 * TEXT_LEN, Some(&TEXT_LEN_MAX)));
    }
}
