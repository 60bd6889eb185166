//! The devices of AMD's driver on this machine, by device number.
//!
//! Names are not sufficient: a user with write access to `/dev` can create any name. `/dev/kfd` is the character device
//! with the major number that is registered for `kfd`. Devices of `/dev/dri` are amdgpu's if sysfs shows that this
//! driver is bound to their hardware.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use xsched_abi::{Device, driver::device_number};
use xsched_symbols::process_folder;

/// Devices by their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    by_number: HashMap<u32, Listed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) device: Device,
    /// Its usual path.
    pub(crate) path: Arc<str>,
}

/// The kernel module, which is also the name of its driver in sysfs.
const MODULE: &str = "amdgpu";

impl Devices {
    /// The devices that exist now.
    pub fn of_this_machine() -> Self {
        let registered = fs::read_to_string("/proc/devices").unwrap_or_default();
        Self::found(&registered, Path::new("/sys/class/drm"))
    }

    fn found(registered: &str, drm_class: &Path) -> Self {
        let mut devices = Self::default();
        if let Some(major) = major_of(registered, "kfd") {
            // The driver creates one device, with minor number 0.
            devices.add(device_number(major, 0), Device::Kfd, "/dev/kfd");
        }
        for entry in fs::read_dir(drm_class).into_iter().flatten().filter_map(Result::ok) {
            if let Some((number, name)) = amdgpu_device(&entry.path()) {
                devices.add(number, Device::Dri, &format!("/dev/dri/{name}"));
            }
        }
        devices
    }

    pub(crate) fn add(&mut self, number: u32, device: Device, path: &str) {
        self.by_number.insert(number, Listed { device, path: path.into() });
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Listed> {
        self.by_number.get(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Listed)> {
        self.by_number.iter().map(|(number, listed)| (*number, listed))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The device behind a descriptor of a process; an error if the descriptor can no longer be read.
    pub(crate) fn behind(&self, pid: u32, fd: i32) -> std::io::Result<Option<&Listed>> {
        Ok(self.get(number_of(&process_folder(pid).join(format!("fd/{fd}")))?))
    }

    /// Whether a process has one of them open.
    pub(crate) fn are_used_by(&self, pid: u32) -> bool {
        let descriptors = fs::read_dir(process_folder(pid).join("fd")).into_iter().flatten();
        let mut paths = descriptors.filter_map(|entry| Some(entry.ok()?.path()));
        paths.any(|path| {
            may_be_device(&path) && number_of(&path).is_ok_and(|number| self.get(number).is_some())
        })
    }
}

/// Whether a descriptor in `/proc` may be of a device, by its path. To look at another file, its file system's server may be asked, and
/// may not answer.
fn may_be_device(descriptor: &Path) -> bool {
    fs::read_link(descriptor).is_ok_and(|path| path.components().any(|part| part.as_os_str() == "dev"))
}

/// The number of the device at a path; 0, which no device has, for other files.
pub fn number_of(path: &Path) -> std::io::Result<u32> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

    let metadata = fs::metadata(path)?;
    if !metadata.file_type().is_char_device() {
        return Ok(0);
    }
    let rdev = metadata.rdev();
    Ok(device_number(rustix::fs::major(rdev), rustix::fs::minor(rdev)))
}

/// Major number of a character device in the text of `/proc/devices`.
fn major_of(registered: &str, name: &str) -> Option<u32> {
    let characters = registered.split("Block devices:").next()?;
    characters.lines().find_map(|line| {
        let (major, found) = line.trim().split_once(' ')?;
        (found == name).then(|| major.parse().ok())?
    })
}

/// Number and name of a device of the DRM class that amdgpu drives.
fn amdgpu_device(class_entry: &Path) -> Option<(u32, String)> {
    let driver = fs::canonicalize(class_entry.join("device/driver")).ok()?;
    if driver.file_name()? != MODULE {
        return None;
    }
    // Connectors have no device number.
    let number = fs::read_to_string(class_entry.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    let name = class_entry.file_name()?.to_str()?.to_owned();
    Some((device_number(major.parse().ok()?, minor.parse().ok()?), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTERED: &str = "Character devices:\n  1 mem\n226 drm\n238 kfd\n\nBlock devices:\n  7 kfd\n";

    #[test]
    fn the_major_number_is_that_of_the_character_device() {
        assert_eq!(major_of(REGISTERED, "kfd"), Some(238));
        assert_eq!(major_of("Character devices:\n\nBlock devices:\n  7 kfd\n", "kfd"), None);
        assert_eq!(major_of("Character devices:\n238 kfd2\n", "kfd"), None);
    }

    #[test]
    fn only_what_amdgpu_drives_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let class = dir.path().join("class");
        for (name, driver, number) in
            [("renderD128", "amdgpu", "226:128\n"), ("renderD129", "i915", "226:129\n")]
        {
            let device = class.join(name).join("device");
            fs::create_dir_all(&device).unwrap();
            fs::create_dir_all(dir.path().join(driver)).unwrap();
            std::os::unix::fs::symlink(dir.path().join(driver), device.join("driver")).unwrap();
            fs::write(class.join(name).join("dev"), number).unwrap();
        }
        let devices = Devices::found(REGISTERED, &class);
        let mut found: Vec<_> =
            devices.iter().map(|(number, listed)| (number, listed.device, &*listed.path)).collect();
        found.sort_by_key(|(number, ..)| *number);
        assert_eq!(
            found,
            [
                (device_number(226, 128), Device::Dri, "/dev/dri/renderD128"),
                (device_number(238, 0), Device::Kfd, "/dev/kfd")
            ]
        );
    }

    #[test]
    fn a_descriptor_is_known_by_its_device_and_not_by_its_name() {
        use std::os::fd::AsRawFd as _;

        let null = fs::File::open("/dev/null").unwrap();
        let pid = std::process::id();
        let mut devices = Devices::default();
        assert_eq!(devices.behind(pid, null.as_raw_fd()).unwrap(), None);
        assert!(!devices.are_used_by(pid));
        devices.add(number_of(Path::new("/dev/null")).unwrap(), Device::Kfd, "/dev/kfd");
        assert_eq!(
            devices.behind(pid, null.as_raw_fd()).unwrap().map(|listed| listed.device),
            Some(Device::Kfd)
        );
        assert!(devices.are_used_by(pid));
        assert!(devices.behind(pid, 1 << 20).is_err());
        assert_eq!(number_of(Path::new("/proc/self/maps")).unwrap(), 0);
    }
}
