//! The rules on calls: where they come from, and whether they have changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use xsched_rules::Rules;

use super::config::user_name;
use super::users::Users;
use crate::cgroup_version::Cgroups;
use crate::error::FileError;

#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) rules: Arc<Rules>,
    /// Their text, for processes that decide for themselves.
    pub(crate) text: Arc<str>,
    pub(crate) path: Option<PathBuf>,
}

impl Loaded {
    /// Names of users in the file, without numbers and globs.
    pub(crate) fn user_names(&self) -> BTreeSet<String> {
        self.named().map(|(name, _)| name).collect()
    }

    /// Settings that are valid but probably not intended.
    pub(crate) fn warnings(&self, users: &Users, cgroups: Cgroups) -> Vec<String> {
        let file = self.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let warnings = self.named().filter_map(|(name, line)| {
            users.warning(&name).map(|warning| format!("{file}, line {line}: {warning}"))
        });
        // Built-in rules do not ask for a cgroup.
        let by_cgroup = self.rules.rules().iter().filter(|rule| rule.asks_for_cgroup());
        let by_cgroup: Vec<_> = by_cgroup.map(|rule| rule.line).collect();
        warnings.chain(cgroups.warning(&by_cgroup).map(|warning| format!("{file}, {warning}"))).collect()
    }

    /// User names with the lines of their rules. Built-in rules have none.
    fn named(&self) -> impl Iterator<Item = (String, usize)> {
        self.rules
            .rules()
            .iter()
            .flat_map(|rule| rule.users().iter().filter_map(user_name).map(|name| (name, rule.line)))
    }
}

/// Tells whether a file has changed: modification time and length.
type Stamp = Option<(SystemTime, u64)>;

/// Where rules come from, and the state of the file when it was read.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    path: Option<PathBuf>,
    stamp: Stamp,
}

impl Source {
    /// Reads the file, if one is given; otherwise the built-in rules apply.
    pub(crate) fn read(path: Option<PathBuf>) -> Result<(Self, Loaded), FileError> {
        let stamp = path.as_deref().and_then(stamp);
        let loaded = match &path {
            Some(path) => read(path)?,
            None => Loaded { rules: Arc::new(Rules::default()), text: "".into(), path: None },
        };
        Ok((Self { path, stamp }, loaded))
    }

    /// Reads the file if it has changed. Mistakes are logged once, and the previous rules remain.
    pub(crate) fn reread(&mut self) -> Option<Loaded> {
        let path = self.path.as_deref()?;
        let stamp = stamp(path);
        if stamp == self.stamp {
            return None;
        }
        self.stamp = stamp;
        match read(path) {
            Ok(loaded) => Some(loaded),
            Err(error) => {
                for line in error.to_string().lines() {
                    tracing::error!("keeping the previous rules: {line}");
                }
                None
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(path: &Path) -> Result<Loaded, FileError> {
    let text =
        fs::read_to_string(path).map_err(|cause| FileError::Unreadable { path: path.to_owned(), cause })?;
    let rules = Rules::parse(&text).map_err(|cause| FileError::Wrong { path: path.to_owned(), cause })?;
    Ok(Loaded { rules: Arc::new(rules), text: text.into(), path: Some(path.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_by_cgroup_are_named_where_cgroups_are_unavailable() {
        let text = "[[rule]]\nlibrary = 'a.so'\naction = 'passthrough'\n\
                    [[rule]]\ncgroup = '/a'\naction = 'passthrough'\n";
        let path = Some("r.toml".into());
        let loaded = Loaded { rules: Arc::new(Rules::parse(text).unwrap()), text: text.into(), path };
        assert_eq!(loaded.warnings(&Users::default(), Cgroups::Unified), [""; 0]);
        let warnings = loaded.warnings(&Users::default(), Cgroups::Old);
        assert!(
            matches!(&warnings[..], [one] if one.starts_with("r.toml, line 4: `cgroup` matches no process: ")),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_broken_file_leaves_the_rules_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        fs::write(&path, "[[rule]]\nlibrary = 'a.so'\naction = 'passthrough'\n").unwrap();
        let (mut source, loaded) = Source::read(Some(path.clone())).unwrap();
        assert!(source.reread().is_none(), "nothing has changed");
        fs::write(&path, "[[rule]]\nlibrary = 'a.so'\naction = 'pass'\n").unwrap();
        assert!(source.reread().is_none(), "it is wrong");
        fs::write(&path, "profile = 'compat'\n").unwrap();
        let changed = source.reread().unwrap();
        assert_ne!(changed.rules.profile(), loaded.rules.profile());
        fs::remove_file(&path).unwrap();
        assert!(source.reread().is_none());
        let error = Source::read(Some(path)).unwrap_err();
        assert!(matches!(error, FileError::Unreadable { .. }), "{error}");
    }
}
