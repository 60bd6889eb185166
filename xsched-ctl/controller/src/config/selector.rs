//! Which processes a rule is about.

use std::fmt;
use std::path::Path;

use xsched_rules::Pattern;

use crate::subject::Subject;

/// What a process must match; fields that are not given match any process.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    /// Its executable: the path, or only the file name if the pattern has no slash.
    pub(super) executable: Option<Pattern>,
    /// Its user's name or number.
    pub(super) user: Option<Pattern>,
    /// Its cgroup or one above it.
    pub(super) cgroup: Option<Pattern>,
    /// The namespace of its pod.
    pub(super) namespace: Option<Pattern>,
}

impl Selector {
    pub(super) fn fits(&self, subject: &Subject) -> bool {
        let fits =
            |pattern: &Option<Pattern>, test: &dyn Fn(&Pattern) -> bool| pattern.as_ref().is_none_or(test);
        fits(&self.executable, &|pattern| is_executable(pattern, &subject.executable))
            && fits(&self.user, &|pattern| is_user(pattern, subject))
            && fits(&self.namespace, &|pattern| {
                subject.pod.as_ref().is_some_and(|pod| pattern.matches(&pod.namespace))
            })
            && fits(&self.cgroup, &|pattern| subject.cgroups().any(|cgroup| pattern.matches(cgroup)))
    }
}

impl Selector {
    /// Whether it matches every process. Some processes have no cgroup, and most no pod.
    pub(super) fn is_about_all(&self) -> bool {
        let mut patterns = [&self.executable, &self.user].into_iter().flatten();
        self.cgroup.is_none()
            && self.namespace.is_none()
            && patterns.all(|pattern| pattern.to_string() == "*")
    }

    /// The user's name, if it is one and not a number or a glob.
    pub(super) fn user_name(&self) -> Option<String> {
        self.user.as_ref().and_then(user_name)
    }
}

/// `executable */online-*, user alice`, or `any process`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("executable", &self.executable),
            ("user", &self.user),
            ("cgroup", &self.cgroup),
            ("namespace", &self.namespace),
        ];
        let mut separator = "";
        for (key, pattern) in parts {
            if let Some(pattern) = pattern {
                write!(f, "{separator}{key} {pattern}")?;
                separator = ", ";
            }
        }
        if separator.is_empty() { f.write_str("any process") } else { Ok(()) }
    }
}

/// The user name in a pattern, unless it is a number or a glob.
pub(crate) fn user_name(pattern: &Pattern) -> Option<String> {
    let user = pattern.to_string();
    let is_name = !user.contains(['*', '?']) && user.parse::<u32>().is_err();
    is_name.then_some(user)
}

fn is_executable(pattern: &Pattern, path: &Path) -> bool {
    let path = path.to_string_lossy();
    if pattern.to_string().contains('/') {
        return pattern.matches(&path);
    }
    path.rsplit('/').next().is_some_and(|name| pattern.matches(name))
}

fn is_user(pattern: &Pattern, subject: &Subject) -> bool {
    pattern.matches(&subject.uid.to_string()) || subject.users.iter().any(|name| pattern.matches(name))
}
