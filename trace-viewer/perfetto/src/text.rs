//! Makes any text valid for a trace: UTF-8, no NUL, bounded length.

use std::borrow::Cow;

/// The longest text that is written, in bytes; a longer one is cut and ends in `…`. Mangled names of C++
/// templates reach tens of kilobytes, and more text is of no use to readers.
pub const TEXT_LEN_MAX: usize = 16 << 10;

/// Converts a C string, from the kernel or a C program: bytes up to the first NUL or the end, in any
/// encoding. Bytes that are not UTF-8 become U+FFFD. Does not allocate for valid text.
pub fn from_c_bytes(bytes: &[u8]) -> Cow<'_, str> {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len])
}

/// The longest prefix that may be written; it ends between two characters.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_LEN_MAX)]
}

/// The form in which a text is written: marked if it was cut, and with NULs replaced, because readers written
/// in C would end the text there.
pub(crate) fn clean(text: &str) -> String {
    let kept = cut(text);
    let mut clean = kept.replace('\0', "\u{fffd}");
    if kept.len() < text.len() {
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_bytes_end_at_nul_and_need_not_be_utf8() {
        assert_eq!(from_c_bytes(b"python3\0garbage"), "python3");
        assert_eq!(from_c_bytes(b"sixteen-byte-com"), "sixteen-byte-com");
        assert_eq!(from_c_bytes(b"a\xff\xfeb\0"), "a\u{fffd}\u{fffd}b");
        assert_eq!(from_c_bytes(b""), "");
        assert!(matches!(from_c_bytes(b"plain\0"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_text_is_cut_between_characters_and_marked() {
        let long = "é".repeat(TEXT_LEN_MAX);
        let odd = format!("x{long}");
        assert_eq!(cut(&long).len(), TEXT_LEN_MAX);
        assert_eq!(cut(&odd).len(), TEXT_LEN_MAX - 1, "a character of two bytes straddles the limit");
        assert!(clean(&odd).ends_with("é…"));
        let fits = "y".repeat(TEXT_LEN_MAX);
        assert_eq!(clean(&fits), fits);
    }

    #[test]
    fn nul_is_replaced() {
        assert_eq!(clean("a\0b"), "a\u{fffd}b");
    }
}
