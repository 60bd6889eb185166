//! What the command line asks for: which files to read, and which settings override theirs.

use std::path::PathBuf;

use xsched_metrics::Listen;
use xsched_sched::PolicyKind;

use super::config::Config;
use crate::error::FileError;
use crate::options::Options;

#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    config: Option<PathBuf>,
    policy: Option<PolicyKind>,
    rules: Option<PathBuf>,
    observe: bool,
    metrics: Option<Listen>,
    metrics_public: bool,
}

impl Asked {
    pub(super) fn of(arguments: &Options) -> Self {
        Self {
            config: arguments.config.clone(),
            policy: arguments.policy,
            rules: arguments.rules.clone(),
            observe: arguments.observe,
            metrics: arguments.metrics.clone(),
            metrics_public: arguments.metrics_public,
        }
    }

    /// Reads the configuration and applies the overrides. If the file has mistakes, the part that could be read comes
    /// with the error.
    pub(super) fn examine(&self) -> (Config, Option<FileError>) {
        let (mut config, error) = Config::read_file(self.config.as_deref());
        config.policy = self.policy.unwrap_or(config.policy);
        config.observe |= self.observe;
        config.rules = self.rules.clone().or(config.rules);
        config.metrics.listen = self.metrics.clone().or(config.metrics.listen);
        config.metrics.access.is_public |= self.metrics_public;
        (config, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Asked {
        /// Asks for this configuration file and overrides nothing.
        pub(crate) fn for_file(config: &std::path::Path) -> Self {
            Self { config: Some(config.to_owned()), ..Self::default() }
        }
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "rules = 'file.toml'\n[scheduler]\npolicy = 'fair'\nlinger = '2ms'\n").unwrap();
        let of_file = Asked::for_file(file.path());
        let (config, _) = of_file.examine();
        assert_eq!((config.policy, config.observe), (PolicyKind::Fair, false));
        assert_eq!(config.rules, Some(file.path().with_file_name("file.toml")));
        let (policy, rules) = (Some(PolicyKind::Partition), Some("mine.toml".into()));
        let asked = Asked { policy, rules: rules.clone(), observe: true, ..of_file };
        let (config, _) = asked.examine();
        assert_eq!((config.policy, config.observe, config.rules), (PolicyKind::Partition, true, rules));
        assert_eq!(config.linger.as_millis(), 2);
    }
}
