use std::fs::{self, File};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pace::NICE;
use super::*;

/// Waits for all results, like an event loop.
fn collect<K: Clone + Eq + Hash + Send + 'static>(builder: &mut Builder<K>) -> Vec<Built<K>> {
    let mut all = Vec::new();
    while builder.pending() > 0 {
        let timeout = Timespec { tv_sec: 60, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&*builder, PollFlags::IN)], Some(&timeout)).unwrap();
        assert_eq!(ready, 1, "no result in a minute");
        all.extend(builder.completed());
    }
    all
}

fn own() -> Image {
    File::open("/proc/self/exe").unwrap().into()
}

#[test]
fn each_key_is_built_once() {
    let mut builder = Builder::new(Cache::off()).unwrap();
    assert!(builder.request("own", own(), Need::Waiting));
    assert!(!builder.request("own", own(), Need::Waiting));
    let built = collect(&mut builder);
    assert_eq!(built.len(), 1);
    assert!(!built[0].from_cache && built[0].result.is_ok());
    assert!(!builder.request("own", own(), Need::Waiting), "also when it is done");
    builder.forget(&"own");
    assert!(builder.request("own", own(), Need::Waiting));
    assert_eq!(collect(&mut builder).len(), 1);
    assert!(builder.completed().is_empty());
}

#[test]
fn equal_files_share_a_table_and_the_next_run_uses_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = Builder::new(Cache::in_folder(folder.path())).unwrap();
    builder.request(1, own(), Need::Waiting);
    let first = collect(&mut builder).remove(0).result.unwrap();
    builder.request(2, own(), Need::Waiting);
    let second = collect(&mut builder).remove(0).result.unwrap();
    assert!(Arc::ptr_eq(&first, &second));

    let mut next_run = Builder::new(Cache::in_folder(folder.path())).unwrap();
    next_run.request(1, own(), Need::Waiting);
    let loaded = collect(&mut next_run).remove(0);
    assert!(loaded.from_cache);
    assert_eq!(loaded.result.unwrap(), first);
}

#[test]
fn deleted_files_are_built_and_other_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("library");
    fs::copy("/proc/self/exe", &path).unwrap();
    let file = File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"no library at all").unwrap();
    let mut builder = Builder::new(Cache::off()).unwrap();
    builder.request("deleted", file.into(), Need::Waiting);
    builder.request("text", File::open(&path).unwrap().into(), Need::Waiting);
    builder.request("empty", Image::Memory(Vec::new()), Need::Waiting);
    let mut built = collect(&mut builder);
    built.sort_by_key(|built| built.key);
    let errors: Vec<_> =
        built.iter().map(|built| (built.key, built.result.as_ref().err().cloned())).collect();
    assert_eq!(errors, [("deleted", None), ("empty", Some(Error::NotElf)), ("text", Some(Error::NotElf))]);
}

#[test]
fn dropping_the_builder_ends_its_threads() {
    let key = Arc::new(());
    let mut builder = Builder::new(Cache::off()).unwrap();
    builder.request(Arc::clone(&key), own(), Need::Waiting);
    drop(builder);
    // The last thread drops the queue with all requests.
    let began = Instant::now();
    while Arc::strong_count(&key) > 1 {
        assert!(began.elapsed() < Duration::from_mins(1), "a thread still holds the queue");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Priorities of the building threads in this process, including those of other tests.
fn nices() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap());
    // Threads of other tests may end while they are listed.
    let nices = threads.filter_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        let id = thread.file_name().to_str()?.parse().ok()?;
        let is_ours = name == "unwind-tables\n";
        is_ours.then(|| rustix::process::getpriority_process(rustix::process::Pid::from_raw(id)).ok())?
    });
    nices.collect()
}

#[test]
fn only_building_threads_have_low_priority() {
    let nice_of = |thread| rustix::process::getpriority_process(thread).unwrap();
    let before = nice_of(None);
    let mut builder = Builder::new(Cache::off()).unwrap();
    builder.request((), own(), Need::Waiting);
    collect(&mut builder);
    assert_eq!(nice_of(None), before);
    assert_eq!(nices().into_iter().max(), Some((before + NICE).min(19)));
}

#[test]
#[ignore = "needs root"]
fn urgent_builds_have_normal_priority() {
    let usual = rustix::process::getpriority_process(None).unwrap();
    let all_are = |wanted: i32| {
        let began = Instant::now();
        while nices().is_empty() || nices().iter().any(|nice| *nice != wanted) {
            assert!(began.elapsed() < Duration::from_mins(1), "{:?}, not {wanted}", nices());
            thread::sleep(Duration::from_millis(5));
        }
    };
    let mut builder = Builder::<()>::new(Cache::off()).unwrap();
    builder.set_urgent(true);
    all_are(usual);
    builder.set_urgent(false);
    all_are((usual + NICE).min(19));
}
