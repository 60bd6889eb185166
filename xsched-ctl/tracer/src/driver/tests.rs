//! Compares the tables with the kernel's headers: `linux/kfd_ioctl.h` (Debian:
//! linux-libc-dev), `drm/drm.h` and `drm/amdgpu_drm.h` (Debian: libdrm-dev, which `cargo xtask test` unpacks).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::command::{Command, Kind};
use super::{amdgpu, drm, kfd};

impl Kind {
    /// Bytes that it takes.
    pub(super) const fn size(self) -> usize {
        match self {
            Self::U32 | Self::I32 | Self::Flags(_) | Self::Name(_) => 4,
            Self::U64 | Self::Pointer => 8,
        }
    }
}

/// Folders in which the headers may be.
fn folders() -> Vec<PathBuf> {
    let unpacked = env::var_os("XSCHED_ARTIFACTS").map(|folder| Path::new(&folder).join("clients/debian"));
    let packages = unpacked.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
    let unpacked = packages.filter_map(Result::ok).map(|package| package.path().join("usr/include/libdrm"));
    ["/usr/include/libdrm", "/usr/include/drm", "/usr/include/linux"]
        .into_iter()
        .map(PathBuf::from)
        .chain(unpacked)
        .collect()
}

/// The header without its comments.
fn header(name: &str) -> String {
    let text = folders().iter().find_map(|folder| fs::read_to_string(folder.join(name)).ok());
    let mut text = text.unwrap_or_else(|| panic!("{name} is not installed: `cargo xtask setup` gets it"));
    while let Some(start) = text.find("/*") {
        let end = text[start..].find("*/").expect("a comment ends") + start + 2;
        text.replace_range(start..end, "");
    }
    text.replace("\\\n", " ")
}

/// `#define NAME MACRO(0x12, struct name)`: name, number and struct of each definition whose macro has this prefix.
fn commands<'a>(
    header: &'a str,
    name_prefix: &'a str,
    macro_prefix: &'a str,
) -> impl Iterator<Item = (&'a str, u8, Option<&'a str>)> {
    header.lines().filter_map(move |line| {
        let (name, value) = line.strip_prefix("#define")?.trim().split_once(char::is_whitespace)?;
        let (_, arguments) = value.trim().strip_prefix(macro_prefix)?.split_once('(')?;
        let arguments = arguments.trim_end().strip_suffix(')')?;
        let (number, kind) = match arguments.split_once(',') {
            Some((number, kind)) => (number, kind.split_whitespace().nth(1)),
            None => (arguments, None),
        };
        let number =
            number.trim().strip_prefix("0x").and_then(|digits| u8::from_str_radix(digits, 16).ok())?;
        name.starts_with(name_prefix).then_some((name, number, kind))
    })
}

/// Offsets and sizes of a struct's members, up to the first that is not a plain integer.
fn members(header: &str, name: &str) -> HashMap<String, (usize, usize)> {
    let mut members = HashMap::new();
    let definition = format!("struct {name}");
    let mut places = header.split(&definition).skip(1);
    let Some(body) = places.find_map(|rest| rest.trim_start().strip_prefix('{')) else { return members };
    let mut offset = 0_usize;
    let body: String =
        body.split('}').next().unwrap_or_default().lines().filter(|line| !line.starts_with('#')).collect();
    for declaration in body.split(';') {
        let words: Vec<_> = declaration.split_whitespace().collect();
        let [kind, member] = words[..] else { break };
        let size = match kind {
            "__u64" | "__s64" => 8,
            "__u32" | "__s32" | "uint32_t" => 4,
            "__u16" => 2,
            _ => break,
        };
        offset = offset.next_multiple_of(size);
        members.insert(member.to_owned(), (offset, size));
        offset += size;
    }
    members
}

/// Checks that each field has its offset and size in one of the structs: the same name may occur in several.
fn check_fields(header: &str, command: &Command, structs: &[impl AsRef<str>]) {
    for field in command.fields {
        let expected = (usize::from(field.offset), field.kind.size());
        let places =
            structs.iter().filter_map(|name| members(header, name.as_ref()).get(field.name).copied());
        let places: Vec<_> = places.collect();
        // Flags are shown from the lower half of a wider field.
        let is_same = |&(offset, size): &(usize, usize)| {
            offset == expected.0 && (size == expected.1 || matches!(field.kind, Kind::Flags(_)))
        };
        assert!(
            places.iter().any(is_same),
            "{} {}: {expected:?}, but {places:?} in the header",
            command.name,
            field.name
        );
    }
}

#[test]
#[ignore = "needs cargo xtask test"]
fn kfd_commands_are_those_of_the_header() {
    let header = header("kfd_ioctl.h");
    let mut count = 0;
    for (name, number, kind) in commands(&header, "AMDKFD_IOC_", "AMDKFD_IO") {
        count += 1;
        let command = kfd::COMMANDS.iter().find(|command| command.number == number);
        let command = command.unwrap_or_else(|| panic!("{name} ({number:#x}) is not in the table"));
        assert_eq!(command.name, name);
        check_fields(&header, command, kind.as_slice());
    }
    assert!(count >= 0x23, "only {count} commands found in the header");
}

#[test]
#[ignore = "needs cargo xtask test"]
fn drm_commands_are_those_of_the_header() {
    let header = header("drm.h");
    let mut count = 0;
    for (name, number, kind) in commands(&header, "DRM_IOCTL_", "DRM_IO") {
        count += 1;
        let command = drm::COMMANDS.iter().find(|command| command.number == number);
        let command = command.unwrap_or_else(|| panic!("{name} ({number:#x}) is not in the table"));
        assert_eq!(command.name, name);
        check_fields(&header, command, kind.as_slice());
    }
    assert!(count > 100, "only {count} commands found in the header");
}

#[test]
#[ignore = "needs cargo xtask test"]
fn amdgpu_commands_are_those_of_the_header() {
    let header = header("amdgpu_drm.h");
    let mut count = 0;
    for line in header.lines() {
        let mut words = line.split_whitespace();
        let (Some("#define"), Some(name), Some(number), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Some(lower) = name.strip_prefix("DRM_AMDGPU_").map(str::to_lowercase) else { continue };
        let Some(number) = number.strip_prefix("0x").and_then(|digits| u8::from_str_radix(digits, 16).ok())
        else {
            continue;
        };
        count += 1;
        let command = amdgpu::COMMANDS.iter().find(|command| command.number == number);
        let command = command.unwrap_or_else(|| panic!("{name} ({number:#x}) is not in the table"));
        assert_eq!(command.name, name);
        // Unions have separate structs for input and output.
        let structs = ["", "_in", "_out"].map(|suffix| format!("drm_amdgpu_{lower}{suffix}"));
        check_fields(&header, command, &structs);
    }
    assert!(count >= 16, "only {count} commands found in the header");
}
