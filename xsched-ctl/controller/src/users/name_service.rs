//! The system's name services: files, LDAP, whatever nsswitch.conf(5) says. Any answer may take as long as a network does.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_char, c_int, passwd};

/// Where an entry's text is put; it grows up to the second.
const TEXT_LEN: usize = 4 << 10;
const TEXT_LEN_MAX: usize = 1 << 20;

/// The number of the user who has this name; none if nobody has.
pub(crate) fn number(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    look_up(
        |entry, text, len, found| {
            // SAFETY: `name` ends with a zero and lives on; the rest is as `look_up` promises.
            unsafe { libc::getpwnam_r(name.as_ptr(), entry, text, len, found) }
        },
        |entry| entry.pw_uid,
    )
}

/// The name of the user with this number; none if there is no such user.
pub(crate) fn name(uid: u32) -> io::Result<Option<String>> {
    look_up(
        |entry, text, len, found| {
            // SAFETY: as `look_up` promises.
            unsafe { libc::getpwuid_r(uid, entry, text, len, found) }
        },
        |entry| {
            // SAFETY: the name of an entry that was found ends with a zero, and lies in the text, which lives on.
            unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned()
        },
    )
}

/// Asks by getpwnam_r(3) or getpwuid_r(3). `ask` is given an entry to fill, `len` bytes for its text, and a place for the
/// pointer to the entry, all of which can be written to.
fn look_up<T>(
    ask: impl Fn(*mut passwd, *mut c_char, usize, *mut *mut passwd) -> c_int,
    take: impl Fn(&passwd) -> T,
) -> io::Result<Option<T>> {
    let mut text: Vec<c_char> = vec![0; TEXT_LEN];
    loop {
        let (mut entry, mut found) = (MaybeUninit::<passwd>::uninit(), ptr::null_mut());
        match ask(entry.as_mut_ptr(), text.as_mut_ptr(), text.len(), &raw mut found) {
            0 if found.is_null() => return Ok(None),
            // SAFETY: it was found, so that all of the entry has been written.
            0 => return Ok(Some(take(unsafe { entry.assume_init_ref() }))),
            // Some services say so of who is not there.
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
    fn root_is_found_both_ways_and_nobody_else_by_a_name_that_nobody_has() {
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
