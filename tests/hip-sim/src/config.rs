//! Settings from the environment, read once per copy of the library. `README.md` lists them.

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::durations::Durations;

/// Device memory where `HIP_SIM_MEMORY_MIB` is unset.
const DEFAULT_MEMORY_MIB: usize = 16 * 1024;

/// Parameters of the times that copies and fills take: see `copy_time.rs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CopyTime {
    pub(crate) latency: Duration,
    /// Between host and device, in GB/s, which is bytes per nanosecond.
    pub(crate) link_gb_s: f64,
    /// Within the device.
    pub(crate) memory_gb_s: f64,
}

/// Settings of this copy of the library.
pub(crate) struct Config {
    /// Asynchronous work returns at once and does nothing.
    pub(crate) null: bool,
    pub(crate) durations: Durations,
    /// Host time that each launch takes at least.
    pub(crate) launch_cost: Duration,
    /// The processes that share the devices.
    pub(crate) sharing: Sharing,
    pub(crate) compute_units: usize,
    /// Local data share of a compute unit, in KiB.
    pub(crate) lds_kib: usize,
    /// Hardware queues of this process on each device, for each priority of its streams.
    pub(crate) queues: usize,
    pub(crate) copy_engines: usize,
    pub(crate) copy_time: CopyTime,
    /// Library that does the kernels' work.
    pub(crate) executor: Option<PathBuf>,
    /// Libraries to search for twins before the process's own symbols.
    pub(crate) twins: Vec<PathBuf>,
    /// Device's processor, for example `gfx942`.
    pub(crate) arch: String,
    /// Devices of the machine.
    pub(crate) devices: usize,
    /// Devices in a row that are partitions of one accelerator.
    pub(crate) partitions: usize,
    /// Memory of each device in bytes.
    pub(crate) memory_size: usize,
    /// File to which the counters are appended when the process exits.
    pub(crate) report: Option<PathBuf>,
    /// File to which every kernel is appended as it starts.
    pub(crate) execution_log: Option<PathBuf>,
}

/// Which processes share the same devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Only this process.
    Off,
    /// Processes of this user that give the same name.
    Name(String),
    /// All processes that give the same path and may open the files.
    Path(PathBuf),
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
            launch_cost: duration("HIP_SIM_LAUNCH_COST", Duration::ZERO),
            sharing: text("HIP_SIM_SHARED").map_or_else(Sharing::default, Sharing::from),
            // Compute units define the device's shape, which the device properties report.
            compute_units: positive("HIP_SIM_COMPUTE_UNITS", 304),
            lds_kib: positive("HIP_SIM_LDS_KIB", 64),
            queues: positive("HIP_SIM_QUEUES", 4),
            copy_engines: positive("HIP_SIM_COPY_ENGINES", 2),
            copy_time: CopyTime {
                latency: duration("HIP_SIM_COPY_LATENCY", Duration::from_micros(5)),
                link_gb_s: rate("HIP_SIM_COPY_GB_S", 50.0),
                memory_gb_s: rate("HIP_SIM_MEMORY_GB_S", 2000.0),
            },
            executor: env::var_os("HIP_SIM_EXECUTOR").filter(|v| !v.is_empty()).map(PathBuf::from),
            twins: env::var_os("HIP_SIM_TWINS").map(|v| env::split_paths(&v).collect()).unwrap_or_default(),
            arch: text("HIP_SIM_ARCH").unwrap_or_else(|| "gfx942".to_owned()),
            partitions: positive("HIP_SIM_PARTITIONS", 1),
            devices: text("HIP_SIM_DEVICES").and_then(|v| v.parse().ok()).unwrap_or(1),
            memory_size: memory_mib << 20,
            report: env::var_os("HIP_SIM_REPORT").map(PathBuf::from),
            execution_log: env::var_os("HIP_SIM_EXECUTION_LOG").filter(|v| !v.is_empty()).map(PathBuf::from),
        }
    }
}

impl Default for Sharing {
    /// Shared, as hardware is. Unit tests run side by side in one process group and would slow each other
    /// down.
    fn default() -> Self {
        if cfg!(test) { Self::Off } else { Self::Name("default".to_owned()) }
    }
}

impl From<String> for Sharing {
    fn from(text: String) -> Self {
        match text.as_str() {
            "off" | "0" => Self::Off,
            path if path.contains('/') => Self::Path(text.into()),
            _ => Self::Name(text),
        }
    }
}

/// The value of a variable. One that cannot be parsed is reported on stderr and leaves the default.
fn parsed<T>(name: &str, default: T, parse: impl Fn(&str) -> Option<T>) -> T {
    let Some(text) = text(name) else { return default };
    parse(&text).unwrap_or_else(|| {
        eprintln!("hip-sim: {name} ignored: `{text}`");
        default
    })
}

fn positive(name: &str, default: usize) -> usize {
    parsed(name, default, |text| text.parse().ok().filter(|value| *value > 0))
}

fn duration(name: &str, default: Duration) -> Duration {
    parsed(name, default, |text| humantime::parse_duration(text).ok())
}

fn rate(name: &str, default: f64) -> f64 {
    parsed(name, default, |text| text.parse().ok().filter(|rate: &f64| *rate > 0.0))
}

/// An empty variable counts as unset.
fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A test that sets durations which do not apply would measure something else, so this is reported.
fn read_durations(value: &str) -> Durations {
    value.parse().unwrap_or_else(|error| {
        eprintln!("hip-sim: HIP_SIM_DURATIONS ignored: {error}");
        Durations::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_path_are_told_apart_by_a_slash() {
        assert_eq!(Sharing::from("off".to_owned()), Sharing::Off);
        assert_eq!(Sharing::from("node".to_owned()), Sharing::Name("node".to_owned()));
        assert_eq!(Sharing::from("/tmp/node".to_owned()), Sharing::Path("/tmp/node".into()));
    }
}
