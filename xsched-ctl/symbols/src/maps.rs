//! Parses `/proc/PID/maps` (<https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html>).
//!
//! Works on bytes, not `str`: a path may contain any byte but NUL, and a path that is not UTF-8 must not hide the
//! other lines.

use std::io;

use crate::mapping::{FileId, Mapping};
use crate::procfs::process_folder;

/// The present executable mappings of a process.
///
/// # Errors
///
/// If there is no such process, or its mappings may not be read.
pub fn executable_mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(process_folder(pid).join("maps"))?;
    Ok(parse(&text).filter(|entry| entry.executable).map(|entry| entry.mapping).collect())
}

/// The mappings of a process that begin with the first byte of a file, one for each file and place.
///
/// # Errors
///
/// If there is no such process, or its mappings may not be read; [`io::ErrorKind::InvalidData`] if it has none.
pub fn mapped_files(pid: u32) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(process_folder(pid).join("maps"))?;
    if text.is_empty() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let is_beginning = |mapping: &Mapping| mapping.file.is_some() && mapping.file_offset == 0;
    let mut files: Vec<_> = parse(&text).map(|entry| entry.mapping).filter(is_beginning).collect();
    // Another mapping of the same file may begin at its first byte too.
    files.dedup_by(|next, last| next.file == last.file);
    Ok(files)
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) executable: bool,
    pub(crate) mapping: Mapping,
}

/// The lines that can be parsed; other lines are skipped.
pub(crate) fn parse(text: &[u8]) -> impl Iterator<Item = Entry> {
    text.split(|&byte| byte == b'\n').filter_map(parse_line)
}

// 7f0c5a200000-7f0c5a228000 r-xp 00026000 fe:01 1835266                    /usr/lib/libc.so.6
fn parse_line(line: &[u8]) -> Option<Entry> {
    let (range, rest) = word(line)?;
    let (permissions, rest) = word(rest)?;
    let (file_offset, rest) = word(rest)?;
    let (device, rest) = word(rest)?;
    let (inode, name) = word(rest)?;

    let mut bounds = range.splitn(2, |&byte| byte == b'-');
    let start = hexadecimal(bounds.next()?)?;
    let end = hexadecimal(bounds.next()?)?;
    if start >= end {
        return None;
    }
    let mut numbers = device.splitn(2, |&byte| byte == b':');
    let device_major = u32::try_from(hexadecimal(numbers.next()?)?).ok()?;
    let device_minor = u32::try_from(hexadecimal(numbers.next()?)?).ok()?;
    let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
    let file = (inode != 0).then_some(FileId { device_major, device_minor, inode, generation: None });
    Some(Entry {
        executable: permissions.get(2) == Some(&b'x'),
        mapping: Mapping::new(
            start,
            end,
            hexadecimal(file_offset)?,
            file,
            &unescape(name.trim_ascii_start()),
        ),
    })
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return None;
    }
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    Some(text.split_at(end))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Newline is the only byte that the kernel escapes in this file.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(first);
            rest = tail;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::mapping::Backing;

    #[test]
    fn a_line_with_every_field() {
        let text = b"7f0c5a200000-7f0c5a228000 r-xp 00026000 fe:01 1835266                    /usr/lib/a b.so (deleted)\n";
        let [entry] = parse(text).collect::<Vec<_>>().try_into().unwrap();
        assert!(entry.executable);
        assert_eq!((entry.mapping.start, entry.mapping.end), (0x7f0c_5a20_0000, 0x7f0c_5a22_8000));
        assert_eq!(entry.mapping.file_offset, 0x26000);
        let file = FileId { device_major: 0xfe, device_minor: 1, inode: 1_835_266, generation: None };
        assert_eq!(entry.mapping.file, Some(file));
        assert_eq!(entry.mapping.path.as_ref(), Path::new("/usr/lib/a b.so"));
        assert!(entry.mapping.deleted);
    }

    #[test]
    fn unnamed_memory_and_unusual_names() {
        let text = b"1000-2000 rw-p 00000000 00:00 0 \n\
            3000-4000 r-xp 00000000 00:00 0                          [vdso]\n\
            5000-6000 r--p 00000000 08:01 7                          /tmp/new\\012line \xff.so";
        let entries: Vec<_> = parse(text).collect();
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[0].mapping.backing, Backing::Anonymous);
        assert!(!entries[0].executable);
        assert_eq!(entries[1].mapping.backing, Backing::Vdso);
        assert_eq!(entries[2].mapping.path.as_os_str().as_encoded_bytes(), b"/tmp/new\nline \xff.so");
    }

    #[test]
    fn broken_lines_are_skipped() {
        for line in [
            "",
            "1000",
            "2000-1000 r-xp 0 08:01 7 /a",
            "zz-1000 r-xp 0 08:01 7 /a",
            "1000-2000 r-xp 0 0801 7 /a",
        ] {
            assert_eq!(parse(line.as_bytes()).count(), 0, "{line}");
        }
    }

    #[test]
    fn this_processs_own_code_is_found() {
        let text = std::fs::read("/proc/self/maps").unwrap();
        let here = this_processs_own_code_is_found as *const () as u64;
        let own = parse(&text).find(|entry| entry.mapping.contains(here)).unwrap();
        assert!(own.executable);
        assert_eq!(own.mapping.backing, Backing::File);
        assert_eq!(parse(&text).count(), text.split(|&byte| byte == b'\n').count() - 1);
    }

    #[test]
    fn damaged_text_gives_valid_mappings_or_none() {
        let mut rng = crate::tests::seeded();
        let text = std::fs::read("/proc/self/maps").unwrap();
        for _ in 0..2_000 {
            let mut damaged = text.clone();
            crate::tests::damage(&mut rng, &mut damaged);
            for entry in parse(&damaged) {
                assert!(entry.mapping.start < entry.mapping.end);
            }
            let noise: Vec<u8> = (0..rng.u64(..300)).map(|_| rng.u8(..)).collect();
            assert!(parse(&noise).all(|entry| entry.mapping.start < entry.mapping.end));
        }
    }
}
