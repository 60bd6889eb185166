//! Tests with `#[ignore = "needs .."]`: those of the standard harness, which cannot find out whether the need is met.

use std::{collections::HashMap, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use ignore::WalkBuilder;
use xsched_harness::needs::{OF_UNIT_TESTS, XTASK};

use super::skips::Skip;

/// What becomes of the ignored tests of the workspace on this machine.
#[derive(Debug, Default)]
pub(crate) struct Ignored {
    /// Names, without their modules, of those whose need is met.
    pub(crate) to_run: Vec<String>,
    /// The others.
    pub(crate) skipped: Vec<Skip>,
}

/// Searches every source file that git would not ignore.
pub(crate) fn find(root: &Path) -> Result<Ignored> {
    let mut found = Ignored::default();
    let mut reasons = HashMap::new();
    for entry in WalkBuilder::new(root).build() {
        let entry = entry?;
        if entry.path().extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(entry.path())
            .with_context(|| format!("failed to read {}", entry.path().display()))?;
        for (need, test) in ignored(&text).with_context(|| entry.path().display().to_string())? {
            let Some(known) = OF_UNIT_TESTS.iter().find(|known| known.name == need) else {
                let names: Vec<_> = OF_UNIT_TESTS.iter().map(|known| known.name).collect();
                bail!("{test} needs {need}; what is known is {}", names.join(", "));
            };
            // This is `cargo xtask test`, although the variables that it passes to tests are not in its own environment.
            let missing = || if known.name == XTASK.name { None } else { (known.missing)() };
            match reasons.entry(known.name).or_insert_with(missing) {
                None => found.to_run.push(test.to_owned()),
                Some(reason) => found.skipped.push(Skip {
                    need: need.to_owned(),
                    reason: reason.clone(),
                    test: test.to_owned(),
                }),
            }
        }
    }
    Ok(found)
}

/// Need and name of each ignored test of a source file.
fn ignored(text: &str) -> Result<Vec<(&str, &str)>> {
    let mut tests = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(reason) = line.strip_prefix("#[ignore") else { continue };
        let need = reason
            .strip_prefix(" = \"needs ")
            .and_then(|rest| rest.strip_suffix("\"]"))
            .with_context(|| format!("`{line}` does not say what the test needs: `= \"needs ..\"`"))?;
        let name = lines.find_map(|line| line.split_once("fn ")?.1.split_once('('));
        tests.push((need, name.with_context(|| format!("`{line}` is on no function"))?.0));
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_tests_are_found_with_their_needs() {
        let text = "mod tests {\n    #[test]\n    #[ignore = \"needs root\"]\n    fn one() {\n    }\n    \
                    #[test]\n    fn two() {}\n#[ignore = \"needs the moon\"]\n#[test]\npub(crate) async fn three() {}\n";
        assert_eq!(ignored(text).unwrap(), [("root", "one"), ("the moon", "three")]);
    }

    #[test]
    fn a_test_that_is_ignored_for_no_need_is_an_error() {
        for text in ["    #[ignore]\n    fn one() {}", "    #[ignore = \"slow\"]\n    fn one() {}"] {
            assert!(ignored(text).unwrap_err().to_string().contains("does not say what the test needs"));
        }
    }

    #[test]
    fn the_workspace_has_known_needs_only() {
        let found = find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        let names: Vec<_> = found.to_run.iter().chain(found.skipped.iter().map(|skip| &skip.test)).collect();
        assert!(names.iter().any(|name| *name == "offsets_are_found_in_this_kernels_btf"), "{names:?}");
        assert!(found.to_run.iter().any(|name| name == "a_failed_command_gives_no_figures"), "{found:?}");
    }
}
