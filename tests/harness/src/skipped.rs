//! Which tests are skipped, and why: for people, and for `cargo xtask test`.

use std::{collections::BTreeMap, env, fs, io, path::Path};

use libtest_mimic::Arguments;

/// A test with an unmet need.
pub(crate) struct Skipped {
    pub(crate) need: &'static str,
    pub(crate) reason: String,
    pub(crate) test: String,
}

/// Reports them where they were asked for.
pub(crate) fn report(arguments: &Arguments, skipped: &[Skipped]) {
    // nextest lists twice, once for ignored tests.
    if let (Some(folder), true) = (env::var_os("XSCHED_SKIPPED_DIR"), arguments.ignored || !arguments.list)
        && let Err(error) = write(folder.as_ref(), skipped)
    {
        // Without the file they would look as if they were not skipped.
        panic!("failed to write which tests are skipped to {}: {error}", folder.display());
    }
    if !arguments.list {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for one in skipped {
            *counts.entry(&one.reason).or_default() += 1;
        }
        for (reason, count) in counts {
            eprintln!("{count} skipped: {reason}");
        }
    }
}

/// Replaces this program's file in the folder.
fn write(folder: &Path, skipped: &[Skipped]) -> io::Result<()> {
    let program = env::current_exe()?;
    let name = program.file_name().unwrap_or_default();
    let mut lines = String::new();
    for Skipped { need, reason, test } in skipped {
        for field in [need, "\t", &reason.replace(['\t', '\n'], " "), "\t", test, "\n"] {
            lines.push_str(field);
        }
    }
    // Whole, or not there: another process of this program may be reading or writing.
    let parts = folder.join(format!("{}.{}.part", name.display(), std::process::id()));
    fs::write(&parts, lines)?;
    fs::rename(parts, folder.join(name).with_extension("skipped"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skipped_test_is_a_line_of_the_programs_file() {
        let folder = tempfile::tempdir().unwrap();
        let skip = |test: &str, reason: &str| Skipped { need: "n", reason: reason.into(), test: test.into() };
        write(folder.path(), &[skip("old", "")]).unwrap();
        write(folder.path(), &[skip("a::b", "two\nlines"), skip("c", "one")]).unwrap();
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [file] = &files[..] else { panic!("{files:?}") };
        assert_eq!(fs::read_to_string(file).unwrap(), "n\ttwo lines\ta::b\nn\tone\tc\n");
    }
}
