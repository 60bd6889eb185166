//! Which memory of the application can be registered for the device.
//!
//! The genuine driver pins pages for reading and writing, whatever their use, and fails if the application
//! itself may not write them: the compute driver registers memory without `AMDGPU_GEM_USERPTR_READONLY`
//! ([`init_user_pages`](https://github.com/torvalds/linux/blob/v6.12/drivers/gpu/drm/amd/amdgpu/amdgpu_amdkfd_gpuvm.c)).

use std::fs;

/// Whether the application may read and write the whole range, across all mappings in it.
pub(super) fn is_writable(address: usize, size: usize) -> bool {
    // Without /proc this cannot be checked, so the range is accepted.
    let Ok(mappings) = fs::read_to_string("/proc/self/maps") else { return true };
    is_writable_by(&mappings, address, size)
}

/// Checks lines such as `7f00-7fff rw-s 00000000 00:01 42 /memfd:words`, which are in the order of addresses.
fn is_writable_by(mappings: &str, address: usize, size: usize) -> bool {
    let Some(end) = address.checked_add(size) else { return false };
    let mut reached = address;
    for (start, next, access) in mappings.lines().filter_map(mapping) {
        if (start..next).contains(&reached) && access.starts_with("rw") {
            reached = next;
        }
    }
    reached >= end
}

fn mapping(line: &str) -> Option<(usize, usize, &str)> {
    let (range, access) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_writable_if_each_part_of_it_is() {
        let mappings = "1000-2000 rw-p 0 00:00 0\n2000-3000 rw-s 0 00:01 42 /memfd:words\n3000-4000 r--s 0 00:00 0\n\
                        5000-6000 rw-p 0 00:00 0\n";
        for (address, size, expected) in [
            (0x1000, 0x2000, true),
            (0x1ff8, 16, true),
            (0x2ff8, 16, false),
            (0x3000, 8, false),
            (0x4ff8, 16, false),
            (0x5ff8, 16, false),
            (0x4000, 8, false),
            (usize::MAX, 8, false),
        ] {
            assert_eq!(is_writable_by(mappings, address, size), expected, "{address:#x}");
        }
        let local = 0_u64;
        assert!(is_writable((&raw const local).addr(), 8));
    }
}
