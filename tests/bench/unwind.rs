//! Unwind tables of the largest libraries on this machine: building them, compared with loading them from the
//! cache.
//!
//! The libraries stand in for PyTorch's, which are of the same kind and three times as large. Files are read
//! from the page cache, by the same background threads as in the tracer.

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use xsched_tests::bench::{Goal, Row, Samples, paired};
use xsched_unwind::{Builder, Built, Cache, Need, Table};

const BENCH: &str = "unwind";
const ROUNDS: usize = 9;
const FOLDER: &str = "/usr/lib/x86_64-linux-gnu";
const LIBRARIES: [&str; 3] = ["libLLVM", "libclang-cpp", "libpython3"];

fn main() -> Result<(), Box<dyn Error>> {
    let found: Vec<_> = LIBRARIES.iter().filter_map(|prefix| largest(prefix)).collect();
    if found.is_empty() {
        return Err(format!("none of {} in {FOLDER}", LIBRARIES.join(", ")).into());
    }
    for path in found {
        measure(&path)?;
    }
    Ok(())
}

fn measure(path: &PathBuf) -> Result<(), Box<dyn Error>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let table = Table::build(&File::open(path)?.into())?;
    let rows = table.rows().len() as f64;
    let bytes = (size_of_val(table.rows()) + size_of_val(table.pages())) as f64;
    drop(table);
    let folder = tempfile::tempdir()?;
    let build = || time_ms(path, Cache::off(), false);
    let load = || time_ms(path, Cache::in_folder(folder.path()), true);
    time_ms(path, Cache::in_folder(folder.path()), false)?;
    let pair = paired(ROUNDS, build, load)?;

    let single = |value| Samples::new(vec![value]);
    Row::single(BENCH, format!("{name}: rows"), "", &single(rows)).print()?;
    Row::single(BENCH, format!("{name}: bytes per row"), "B", &single(bytes / rows)).print()?;
    let per_row = pair.baseline.map(|ms| ms * 1e6 / rows);
    Row::single(BENCH, format!("{name}: build per row"), "ns", &per_row).print()?;
    let load = Row::compared(BENCH, format!("{name}: load, against build"), "ms", &pair);
    load.with_goal(Goal::RatioAtMost(0.5)).print()?;
    Ok(())
}

/// From the request to the table.
fn time_ms(path: &PathBuf, cache: Cache, from_cache: bool) -> Result<f64, Box<dyn Error>> {
    let mut builder = Builder::new(cache)?;
    builder.request((), File::open(path)?.into(), Need::Waiting);
    let began = Instant::now();
    let built: Built<()> = loop {
        if let Some(built) = builder.completed().pop() {
            break built;
        }
        if began.elapsed() > Duration::from_mins(5) {
            return Err(format!("no table of {} in five minutes", path.display()).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    built.result?;
    if built.from_cache != from_cache {
        return Err(format!("{}: from the cache: {}", path.display(), built.from_cache).into());
    }
    Ok(built.took.as_secs_f64() * 1e3)
}

fn largest(prefix: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(FOLDER).ok()?.flatten();
    let named = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(prefix) && name.contains(".so")
    });
    let paths = named.filter_map(|entry| fs::canonicalize(entry.path()).ok());
    paths.max_by_key(|path| fs::metadata(path).map_or(0, |metadata| metadata.len()))
}
