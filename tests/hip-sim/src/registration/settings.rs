//! The variables of rocprofiler-register that decide whether a tool gets the tables.

use std::env;
use std::path::PathBuf;

/// The settings in the environment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// `ROCPROFILER_REGISTER_ENABLED`
    pub(super) enabled: bool,
    /// `ROCPROFILER_REGISTER_FORCE_LOAD`: there is a tool even if its `rocprofiler_configure` is not visible
    /// yet. If it is unset, a library in the other two variables implies it.
    pub(super) force: bool,
    /// `ROCPROFILER_REGISTER_LIBRARY`
    pub(super) library: Option<PathBuf>,
}

impl Settings {
    /// Read again for each table, because a program may set the variables before its first call.
    pub(super) fn from_env() -> Self {
        Self::new(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        // The genuine library throws an exception for an empty one.
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let library = set("ROCPROFILER_REGISTER_LIBRARY").map(PathBuf::from);
        let is_implied = library.is_some() || set("ROCP_TOOL_LIBRARIES").is_some();
        let flag = |name: &str, default| set(name).map_or(default, |value| is_true(&value));
        Self {
            enabled: flag("ROCPROFILER_REGISTER_ENABLED", true),
            force: flag("ROCPROFILER_REGISTER_FORCE_LOAD", is_implied),
            library,
        }
    }
}

/// A number is true unless zero, a word unless it means no.
fn is_true(value: &str) -> bool {
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.bytes().any(|byte| byte != b'0');
    }
    !["off", "false", "no", "n", "f"].iter().any(|no| value.eq_ignore_ascii_case(no))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        Settings::new(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_variables_only_a_visible_symbol_requests_a_tool() {
        assert_eq!(settings(&[]), Settings { enabled: true, force: false, library: None });
        assert_eq!(settings(&[("ROCPROFILER_REGISTER_LIBRARY", "")]), settings(&[]));
    }

    #[test]
    fn a_library_requests_a_tool_unless_force_load_is_off() {
        let library = ("ROCPROFILER_REGISTER_LIBRARY", "/tool.so");
        assert_eq!(settings(&[library]).library, Some(PathBuf::from("/tool.so")));
        assert!(settings(&[library]).force);
        assert!(settings(&[("ROCP_TOOL_LIBRARIES", "a.so:b.so")]).force);
        assert!(!settings(&[library, ("ROCPROFILER_REGISTER_FORCE_LOAD", "0")]).force);
        assert!(settings(&[("ROCPROFILER_REGISTER_FORCE_LOAD", "1")]).force);
    }

    #[test]
    fn numbers_and_words_mean_off() {
        for no in ["0", "00", "off", "False", "NO", "n"] {
            assert!(!settings(&[("ROCPROFILER_REGISTER_ENABLED", no)]).enabled, "{no}");
        }
        for yes in ["1", "10", "on", "yes", "x"] {
            assert!(settings(&[("ROCPROFILER_REGISTER_ENABLED", yes)]).enabled, "{yes}");
        }
    }
}
