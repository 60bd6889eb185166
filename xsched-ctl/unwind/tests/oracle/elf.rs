//! Libraries of this machine, read independently of the crate under test.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object as _, ObjectSection as _};

/// The bytes of a file, and the ranges of relevant sections.
pub(crate) struct Library {
    pub(crate) path: PathBuf,
    bytes: Vec<u8>,
}

/// A section's addresses and bytes.
pub(crate) struct Section {
    pub(crate) addresses: Range<u64>,
    pub(crate) bytes: Vec<u8>,
}

impl Library {
    pub(crate) fn read(path: &Path) -> Self {
        Self { path: path.to_owned(), bytes: fs::read(path).expect("read the library") }
    }

    pub(crate) fn of_memory(name: &str, bytes: Vec<u8>) -> Self {
        Self { path: name.into(), bytes }
    }

    pub(crate) fn section(&self, name: &str) -> Option<Section> {
        let file = object::File::parse(self.bytes.as_slice()).expect("an ELF file");
        let section = file.section_by_name(name)?;
        let bytes = section.data().expect("its bytes").to_vec();
        Some(Section { addresses: section.address()..section.address() + section.size(), bytes })
    }
}

/// Libraries that most machines have, each once, even if it has several names.
pub(crate) fn system_libraries() -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    let names = [
        "libc.so.6",
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libm.so.6",
        "libcrypto.so.3",
        "ld-linux-x86-64.so.2",
    ];
    for name in names {
        // The compiler knows the path at which the loader will find the library.
        let answer = Command::new("cc").arg(format!("-print-file-name={name}")).output();
        let Ok(answer) = answer else { continue };
        let path = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
        found.extend(path.is_absolute().then(|| fs::canonicalize(path).ok()).flatten());
    }
    for folder in ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let wanted = [
                "libpython3",
                "libffi.so",
                "libgomp.so",
                "libhsa-runtime64.so",
                "libLLVM.so",
                "libamdhip64.so",
            ];
            if name.contains(".so") && wanted.iter().any(|wanted| name.starts_with(wanted)) {
                found.extend(fs::canonicalize(entry.path()).ok());
            }
        }
    }
    found.into_iter().filter(|path| fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))).collect()
}
