//! The environment's settings, read once per copy of the library. `README.md` has the table.

use std::env;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use wildmatch::WildMatch;

/// Kernel time where `HIP_SIM_DURATIONS` names none.
const DEFAULT_DURATION: Duration = Duration::from_micros(5);
/// Device memory where `HIP_SIM_MEMORY_MIB` is unset.
const DEFAULT_MEMORY_MIB: usize = 16 * 1024;

/// Settings of this process.
pub(crate) struct Config {
    /// Asynchronous work returns at once and does nothing.
    pub(crate) null: bool,
    pub(crate) durations: Durations,
    /// Libraries to search for twins before the process's own symbols.
    pub(crate) twins: Vec<PathBuf>,
    /// Device's processor, for example `gfx942`.
    pub(crate) arch: String,
    /// Devices of the machine.
    pub(crate) devices: usize,
    /// Memory of each device in bytes.
    pub(crate) memory_size: usize,
    /// File to which the counters are appended when the process exits.
    pub(crate) report: Option<PathBuf>,
}

/// The settings; the first caller reads the environment.
pub(crate) fn get() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(Config::from_env)
}

impl Config {
    fn from_env() -> Self {
        let memory_mib =
            text("HIP_SIM_MEMORY_MIB").and_then(|v| v.parse().ok()).unwrap_or(DEFAULT_MEMORY_MIB);
        Self {
            null: text("HIP_SIM_NULL").is_some_and(|v| v != "0"),
            durations: text("HIP_SIM_DURATIONS").map_or_else(Durations::default, |v| read_durations(&v)),
            twins: env::var_os("HIP_SIM_TWINS").map(|v| env::split_paths(&v).collect()).unwrap_or_default(),
            arch: text("HIP_SIM_ARCH").unwrap_or_else(|| "gfx942".to_owned()),
            devices: text("HIP_SIM_DEVICES").and_then(|v| v.parse().ok()).unwrap_or(1),
            memory_size: memory_mib << 20,
            report: env::var_os("HIP_SIM_REPORT").map(PathBuf::from),
        }
    }
}

/// Unset and empty are alike.
fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A test that asks for durations and does not get them would measure something else: say so.
fn read_durations(value: &str) -> Durations {
    value.parse().unwrap_or_else(|error| {
        eprintln!("hip-sim: HIP_SIM_DURATIONS ignored: {error}");
        Durations::default()
    })
}

/// How long kernels take, by pattern of their name.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    rules: Vec<(WildMatch, Duration)>,
}

/// Why a list of durations could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DurationsError {
    #[error("`{0}` is not `pattern=duration`")]
    NoPair(String),
    #[error("`{0}` is no duration such as 50us")]
    NoDuration(String),
}

impl Durations {
    /// Of the first pattern that matches a kernel's (mangled) name.
    pub(crate) fn of(&self, kernel: &str) -> Duration {
        self.rules
            .iter()
            .find(|(pattern, _)| pattern.matches(kernel))
            .map_or(DEFAULT_DURATION, |(_, duration)| *duration)
    }
}

impl FromStr for Durations {
    type Err = DurationsError;

    /// `vector_add=50us,*=5us`
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rules = text.split(',').map(str::trim).filter(|rule| !rule.is_empty()).map(|rule| {
            let (pattern, duration) =
                rule.split_once('=').ok_or_else(|| DurationsError::NoPair(rule.to_owned()))?;
            let duration = humantime::parse_duration(duration.trim())
                .map_err(|_| DurationsError::NoDuration(duration.to_owned()))?;
            Ok((WildMatch::new(pattern.trim()), duration))
        });
        Ok(Self { rules: rules.collect::<Result<_, DurationsError>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_pattern_decides() {
        let durations: Durations = "vector_add=50us, *scale*=2ms,*=1us".parse().unwrap();
        assert_eq!(durations.of("vector_add"), Duration::from_micros(50));
        assert_eq!(durations.of("_ZN4demo5scaleIfEEvPT_"), Duration::from_millis(2));
        assert_eq!(durations.of("other"), Duration::from_micros(1));
    }

    #[test]
    fn without_a_match_the_default_holds() {
        let durations: Durations = "vector_add=50us".parse().unwrap();
        assert_eq!(durations.of("other"), DEFAULT_DURATION);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = "vector_add".parse::<Durations>().unwrap_err();
        assert_eq!(error.to_string(), "`vector_add` is not `pattern=duration`");
        let error = "a=quick".parse::<Durations>().unwrap_err();
        assert_eq!(error.to_string(), "`quick` is no duration such as 50us");
    }
}
