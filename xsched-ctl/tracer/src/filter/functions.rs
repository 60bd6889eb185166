//! `--api`: which functions are recorded, by name and by category.

use std::collections::HashSet;
use std::str::FromStr;

use xsched_abi::{Category, PROBES, Probe};
use xsched_rules::{PatternError, Patterns, closest};

/// A set of functions of the table; all by default.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// Their names; none if it is all of them.
    wanted: Option<HashSet<&'static str>>,
}

/// Why a list of functions is refused.
#[derive(Debug, thiserror::Error)]
pub enum FunctionsError {
    #[error("no traced function and no category is called `{name}`{}", suggestion(meant.as_deref()))]
    Unknown { name: String, meant: Option<String> },
    #[error("no traced function matches `{0}`")]
    NoMatch(String),
    #[error("{0}")]
    Pattern(#[from] PatternError),
    #[error("it leaves no function")]
    Nothing,
}

fn suggestion(meant: Option<&str>) -> String {
    match meant {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => format!("; categories are {}", categories().join(", ")),
    }
}

/// The categories as on the command line: `launch`, `copy`, …
fn categories() -> [&'static str; Category::ALL.len()] {
    Category::ALL.map(Category::name)
}

impl Functions {
    pub(crate) fn want(&self, probe: &Probe) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(probe.name))
    }

    pub(crate) fn are_all(&self) -> bool {
        self.wanted.is_none()
    }

    /// Whether it contains a function of this kind.
    pub(crate) fn include(&self, kind: impl Fn(&Probe) -> bool) -> bool {
        PROBES.iter().any(|probe| self.want(probe) && kind(probe))
    }
}

/// Names, globs and categories with commas between them; `!` before one excludes it.
impl FromStr for Functions {
    type Err = FunctionsError;

    fn from_str(text: &str) -> Result<Self, FunctionsError> {
        let items: Vec<&str> = text.split(',').map(str::trim).collect();
        let patterns = Patterns::parse(&items)?;
        for item in &items {
            check(item.strip_prefix('!').unwrap_or(item))?;
        }
        let wanted: HashSet<_> = PROBES
            .iter()
            .filter(|probe| patterns.match_any(&[probe.name, probe.category.name()]))
            .map(|probe| probe.name)
            .collect();
        if wanted.is_empty() { Err(FunctionsError::Nothing) } else { Ok(Self { wanted: Some(wanted) }) }
    }
}

/// Checks that an item matches something.
fn check(item: &str) -> Result<(), FunctionsError> {
    let pattern = Patterns::parse(&[item])?;
    if PROBES.iter().any(|probe| pattern.match_any(&[probe.name, probe.category.name()])) {
        return Ok(());
    }
    if item.contains(['*', '?']) {
        return Err(FunctionsError::NoMatch(item.to_owned()));
    }
    let names = categories().into_iter().chain(PROBES.iter().map(|probe| probe.name));
    Err(FunctionsError::Unknown { name: item.to_owned(), meant: closest(item, names).map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        let functions: Functions = text.parse().unwrap();
        PROBES.iter().filter(|probe| functions.want(probe)).map(|probe| probe.name).collect()
    }

    #[test]
    fn categories_globs_and_names_add_up() {
        assert_eq!(names("hipMemcpy"), ["hipMemcpy"]);
        let launches = PROBES.iter().filter(|probe| probe.category == Category::Launch).count();
        assert_eq!(names("launch").len(), launches);
        assert_eq!(names("launch, hipMemcpy").len(), launches + 1);
        assert_eq!(names("launch,!hipGraph*").len(), launches - names("hipGraphLaunch*").len());
        assert_eq!(names("!launch").len(), PROBES.len() - launches);
        assert!(names("hipMemcpy*").iter().all(|name| name.starts_with("hipMemcpy")));
    }

    #[track_caller]
    fn assert_refused(text: &str, message: &str) {
        let error = text.parse::<Functions>().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        assert_refused(
            "lanch",
            "no traced function and no category is called `lanch`; did you mean `launch`?",
        );
        assert_refused(
            "hipLaunchKernal",
            "no traced function and no category is called `hipLaunchKernal`; did you mean `hipLaunchKernel`?",
        );
        assert_refused(
            "xyz",
            "no traced function and no category is called `xyz`; categories are launch, copy, ",
        );
        assert_refused("cuda*", "no traced function matches `cuda*`");
        assert_refused("launch,", "an empty pattern matches nothing");
        assert_refused("launch,!launch", "`launch` is asked for and excluded at once");
        assert_refused("hipMemcpy,!hipMem*", "it leaves no function");
    }
}
