//! The vDSO: code that the kernel maps into every process, and that is in no file
//! (<https://man7.org/linux/man-pages/man7/vdso.7.html>).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use crate::image::Image;

/// The largest image that is accepted. Kernels have 8 to 16 KiB.
const BYTES_MAX: u64 = 1 << 20;

/// The vDSO of this process. All 64-bit processes have the same one, at different addresses.
///
/// `None` if the kernel maps none (`vdso=0`).
pub fn vdso() -> io::Result<Option<Image>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let Some((start, end)) = maps.lines().find_map(range_of_vdso) else { return Ok(None) };
    let bytes = end.checked_sub(start).filter(|&bytes| bytes <= BYTES_MAX);
    let bytes = bytes.ok_or_else(|| io::Error::other("the vDSO's mapping has an implausible size"))?;
    let mut image = vec![0; bytes as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut image, start)?;
    Ok(Some(Image::Memory(image)))
}

fn range_of_vdso(line: &str) -> Option<(u64, u64)> {
    if line.split_ascii_whitespace().nth(5) != Some("[vdso]") {
        return None;
    }
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn the_vdso_of_this_process_has_a_table() {
        let image = vdso().unwrap().expect("the kernel maps a vDSO");
        let table = Table::build(&image).unwrap();
        assert!(!table.rows().is_empty());
        let again = Table::build(&vdso().unwrap().unwrap()).unwrap();
        assert_eq!(table.id(), again.id());
    }

    #[test]
    fn only_the_line_of_the_vdso_is_used() {
        assert_eq!(
            range_of_vdso("7ffd1000-7ffd3000 r-xp 00000000 00:00 0    [vdso]"),
            Some((0x7ffd_1000, 0x7ffd_3000))
        );
        assert_eq!(range_of_vdso("7ffd1000-7ffd3000 r--p 00000000 00:00 0    [vvar]"), None);
        assert_eq!(range_of_vdso("7ffd1000-7ffd3000 r-xp 00000000 08:01 9    /tmp/[vdso]"), None);
        assert_eq!(range_of_vdso("7ffd1000-7ffd3000 r-xp 00000000 08:01 9"), None);
    }
}
