use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use super::*;
use crate::elf::{Dialect, Segment};
use crate::image::Image;

/// Unwind information of a library: that of the test program, with another build id.
fn info(number: u8) -> UnwindInfo {
    let own = Image::File(File::open("/proc/self/exe").unwrap());
    let mut info = UnwindInfo::read(&own).unwrap();
    // Only a part of a large program.
    info.build_id = vec![number; 20];
    info.segments.push(Segment { address: 0x10 * u64::from(number), file_offset: 0, bytes: 0 });
    info
}

fn small_table(number: u8, rows: usize) -> (UnwindInfo, Table) {
    let segments = vec![Segment { address: 0, file_offset: 0, bytes: u64::from(number) }];
    let info = UnwindInfo {
        dialect: Dialect::EhFrame,
        address: 0,
        section: vec![number],
        segments: segments.clone(),
        build_id: vec![number],
    };
    let rows = vec![xsched_abi::unwind::Row::new(0, xsched_abi::unwind::Rule::End, 0, 0); rows];
    let table =
        Table { id: TableId::of(&info), segments, first_page: 0, pages: vec![0, rows.len() as u32], rows };
    (info, table)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn a_table_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/cache");
    let cache = Cache::in_folder(&path);
    let info = info(1);
    assert!(cache.load(&info).is_none());
    let table = Table::of(&info).unwrap();
    cache.store(&info, &table);
    assert_eq!(cache.load(&info), Some(table));
    // Also in another run.
    assert!(Cache::in_folder(&path).load(&info).is_some());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&entries(&path)[0])), (0o700, 0o600));
    assert_eq!(entries(&path).len(), 1, "nothing unfinished is left");
}

#[test]
fn another_file_with_the_same_build_id_has_its_own_entry() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::in_folder(folder.path());
    let (info, table) = small_table(1, 4);
    cache.store(&info, &table);
    let mut impostor = small_table(2, 4).0;
    impostor.build_id = info.build_id.clone();
    assert!(cache.load(&impostor).is_none());
    assert_eq!(cache.load(&info), Some(table));
}

#[test]
fn a_damaged_entry_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::in_folder(folder.path());
    let (info, table) = small_table(1, 4);
    cache.store(&info, &table);
    let entry = entries(folder.path()).remove(0);
    let mut bytes = fs::read(&entry).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&entry, &bytes).unwrap();
    assert!(cache.load(&info).is_none());
    fs::write(&entry, b"").unwrap();
    assert!(cache.load(&info).is_none());
    cache.store(&info, &table);
    assert_eq!(cache.load(&info), Some(table));
}

#[test]
fn the_least_recently_used_entries_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    // Capacity for three of these entries, not for four.
    let cache = Cache::with_limit(folder.path(), 3 * 9000);
    let tables: Vec<_> = (0..4).map(|number| small_table(number, 1000)).collect();
    for (age_s, (info, table)) in [300, 200, 100].into_iter().zip(&tables) {
        cache.store(info, table);
        let entry =
            File::options().write(true).open(folder.path().join(entry_name(info, table.id()))).unwrap();
        entry.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    }
    // The oldest is used again.
    assert!(cache.load(&tables[0].0).is_some());
    cache.store(&tables[3].0, &tables[3].1);
    let kept: Vec<bool> = tables.iter().map(|(info, _)| cache.load(info).is_some()).collect();
    assert_eq!(kept, [true, false, true, true]);
    // Larger than the capacity: it is not stored, and no entry is removed for it.
    let (info, table) = small_table(9, 10_000);
    cache.store(&info, &table);
    assert!(cache.load(&info).is_none());
    assert_eq!(entries(folder.path()).len(), 3);
}

#[test]
fn unfinished_entries_of_killed_processes_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::in_folder(folder.path());
    let old = File::create(folder.path().join(".new-1-0-x")).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_hours(2)).unwrap();
    File::create(folder.path().join(".new-2-0-y")).unwrap();
    let (info, table) = small_table(1, 4);
    cache.store(&info, &table);
    let names: Vec<_> = entries(folder.path());
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().any(|path| path.ends_with(".new-2-0-y")), "one that is being written stays");
}

#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let cache = Cache::in_folder(folder.path());
    let (info, table) = small_table(1, 4);
    cache.store(&info, &table);
    assert!(cache.load(&info).is_none());
    assert!(entries(folder.path()).is_empty());
}

#[test]
fn links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    let cache = Cache::in_folder(&real);
    let (info, table) = small_table(1, 4);
    cache.store(&info, &table);
    symlink(&real, &link).unwrap();
    assert!(Cache::in_folder(&link).load(&info).is_none());

    let entry = entries(&real).remove(0);
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&entry, &elsewhere).unwrap();
    symlink(&elsewhere, &entry).unwrap();
    assert!(cache.load(&info).is_none());
    // Storing replaces the link, not its target.
    let before = fs::metadata(&elsewhere).unwrap().modified().unwrap();
    cache.store(&info, &table);
    assert!(fs::symlink_metadata(&entry).unwrap().is_file());
    assert_eq!(fs::metadata(&elsewhere).unwrap().modified().unwrap(), before);
    assert_eq!(cache.load(&info), Some(table));
}

#[test]
fn a_fifo_with_an_entrys_name_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::in_folder(folder.path());
    let (info, table) = small_table(1, 4);
    let name = folder.path().join(entry_name(&info, table.id()));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &name, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(cache.load(&info).is_none());
    cache.store(&info, &table);
    assert_eq!(cache.load(&info), Some(table));
}

#[test]
fn an_unusable_folder_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"in the way").unwrap();
    let (info, table) = small_table(1, 4);
    for cache in [Cache::in_folder(&file), Cache::in_folder(&file.join("below")), Cache::off()] {
        cache.store(&info, &table);
        assert!(cache.load(&info).is_none());
    }
    assert_eq!(fs::read(&file).unwrap(), b"in the way");
}

#[test]
fn the_environment_chooses_the_folder() {
    let asked = |variables: &[(&str, &str)], is_root| {
        let value =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
        requested_folder(value, is_root)
    };
    let own = [("HOME", "/home/user")];
    assert_eq!(asked(&own, false), Some("/home/user/.cache/xsched-ctl/unwind".into()));
    assert_eq!(asked(&own, true), Some("/var/cache/xsched-ctl/unwind".into()));
    let xdg = [("HOME", "/home/user"), ("XDG_CACHE_HOME", "/scratch")];
    assert_eq!(asked(&xdg, false), Some("/scratch/xsched-ctl/unwind".into()));
    let relative = [("HOME", "/home/user"), ("XDG_CACHE_HOME", "scratch")];
    assert_eq!(asked(&relative, false), Some("/home/user/.cache/xsched-ctl/unwind".into()));
    assert_eq!(asked(&[("XSCHED_CTL_CACHE", "/tables")], true), Some("/tables".into()));
    assert_eq!(asked(&[("XSCHED_CTL_CACHE", "off"), ("HOME", "/home/user")], false), None);
    assert_eq!(asked(&[("XSCHED_CTL_CACHE", ""), ("HOME", "/home/user")], false), asked(&own, false));
    assert_eq!(asked(&[], false), None);
}
