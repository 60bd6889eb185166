//! Tests that are skipped because the machine lacks what they need, and whether CI accepts that.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context as _, Result};
use xsched_harness::needs::NOT_IN_CI;

/// A skipped test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) need: String,
    pub(crate) reason: String,
    pub(crate) test: String,
}

/// All skipped tests of a run.
#[derive(Debug, Default)]
pub(crate) struct Skips(pub(crate) Vec<Skip>);

impl Skips {
    /// Adds what test programs have written into the folder `XSCHED_SKIPPED_DIR`: a line a test, as `xsched-harness` says.
    pub(crate) fn read(&mut self, folder: &Path) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let text =
                fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
            for line in text.lines() {
                let mut fields = line.split('\t').map(str::to_owned);
                let skip =
                    (|| Some(Skip { need: fields.next()?, reason: fields.next()?, test: fields.next()? }))();
                self.0.push(skip.with_context(|| format!("{}: no skipped test: {line:?}", path.display()))?);
            }
        }
        Ok(())
    }

    /// Leaves out tests that were not asked for.
    pub(crate) fn retain(&mut self, filter: Option<&str>) {
        self.0.retain(|skip| filter.is_none_or(|filter| skip.test.contains(filter)));
    }

    /// The needs that CI must meet and this run did not, each once.
    pub(crate) fn unmet_in_ci(&self) -> Vec<&str> {
        let must_meet = |need: &str| NOT_IN_CI.iter().all(|other| other.name != need);
        let needs = self.0.iter().map(|skip| skip.need.as_str());
        let mut needs: Vec<_> = needs.filter(|need| must_meet(need)).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }
}

/// A line for each reason.
impl fmt::Display for Skips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for skip in &self.0 {
            *counts.entry((&skip.need, &skip.reason)).or_default() += 1;
        }
        for ((need, reason), count) in counts {
            writeln!(f, "{count} skipped: need {need}: {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips(lines: &str) -> Skips {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("one.skipped"), lines).unwrap();
        fs::write(folder.path().join("none.skipped"), "").unwrap();
        let mut skips = Skips::default();
        skips.read(folder.path()).unwrap();
        skips
    }

    const THREE: &str =
        "root\tthis user is not root\ta::b\nvirtual machine\tno VM\tc\nroot\tthis user is not root\td\n";

    #[test]
    fn skipped_tests_are_counted_by_reason() {
        let expected =
            "2 skipped: need root: this user is not root\n1 skipped: need virtual machine: no VM\n";
        assert_eq!(skips(THREE).to_string(), expected);
        assert_eq!(Skips::default().to_string(), "");
    }

    #[test]
    fn ci_meets_every_need_but_those_on_the_list() {
        assert_eq!(skips(THREE).unmet_in_ci(), ["root"]);
        let mut of_vm = skips(THREE);
        of_vm.retain(Some("c"));
        assert_eq!((of_vm.0.len(), of_vm.unmet_in_ci()), (1, vec![]));
        let timed = "virtual machine with time by instructions\tno such time\te\n";
        assert_eq!(skips(timed).unmet_in_ci(), [""; 0]);
    }

    #[test]
    fn a_line_that_names_no_test_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("one.skipped"), "root\tthis user is not root\n").unwrap();
        assert!(Skips::default().read(folder.path()).unwrap_err().to_string().contains("no skipped test"));
    }
}
