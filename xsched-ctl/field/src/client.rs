//! The minimal client: a program that needs nothing but the runtime's library, with its kernels as data.
//!
//! It is a hidden verb of the command itself: one file is the whole kit, and nothing is compiled or unpacked on the node. The kit
//! starts it as a process of its own each time, with the shim or without.

mod device;
mod functions;
mod hiprtc;
mod libraries;
mod loads;
mod trouble;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::str::FromStr;

use crate::speech::{self, Outcome, Word};
use device::{Device, Identity};
use functions::Interface;
use libraries::{Convolution, MatrixProduct};
use trouble::Trouble;

/// What the client may be asked to do.
const MODES: [&str; 10] =
    ["identity", "steps", "calibrate", "urgent", "batch", "idle", "launch", "gate", "sgemm", "convolution"];

/// Runs a mode: its name, and settings as `name=value`.
pub fn client(words: &[std::ffi::OsString]) -> u8 {
    let outcome = Settings::read(words).and_then(|settings| run(&settings));
    let (outcome, code) = match outcome {
        Ok(outcome) => (outcome, 0),
        Err(
            error @ (Trouble::NoLibrary { .. }
            | Trouble::NoDevice(_)
            | Trouble::NoRuntime { .. }
            | Trouble::NotHere(_)),
        ) => (Outcome { absent: Some(error.to_string()), ..Outcome::default() }, 0),
        Err(error) => (Outcome { error: Some(error.to_string()), ..Outcome::default() }, 1),
    };
    say(&Word::Result(outcome));
    code
}

/// The settings of a mode.
struct Settings {
    mode: String,
    values: BTreeMap<String, String>,
}

impl Settings {
    fn read(words: &[std::ffi::OsString]) -> Result<Self, Trouble> {
        let mut words = words.iter().map(|word| word.to_string_lossy().into_owned());
        let mode = words.next().unwrap_or_default();
        if !MODES.contains(&mode.as_str()) {
            return Err(Trouble::Usage(format!("no mode `{mode}`; there are: {}", MODES.join(", "))));
        }
        let pair = |word: String| {
            let pair = word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| Trouble::Usage(format!("`{word}` is no setting such as seconds=2")))
        };
        Ok(Self { mode, values: words.map(pair).collect::<Result<_, _>>()? })
    }

    fn get<T: FromStr>(&self, name: &str, otherwise: T) -> Result<T, Trouble> {
        let Some(text) = self.values.get(name) else { return Ok(otherwise) };
        text.parse().map_err(|_| Trouble::Usage(format!("`{text}` is no value for {name}")))
    }

    fn library(&self) -> Option<PathBuf> {
        self.values.get("library").map(PathBuf::from)
    }

    /// Folders of libraries, separated by colons.
    fn folders(&self) -> Vec<PathBuf> {
        self.values.get("folders").map(|list| std::env::split_paths(list).collect()).unwrap_or_default()
    }

    /// Whether to wait for the kit's go.
    fn begin(&self) -> Result<(), Trouble> {
        if self.get("wait", true)? {
            say(&Word::Ready);
            wait_for_go()
        } else {
            Ok(())
        }
    }
}

fn run(settings: &Settings) -> Result<Outcome, Trouble> {
    let interface = settings.values.get("interface").and_then(|name| Interface::named(name));
    let device = Device::open(settings.library().as_deref(), interface)?;
    // Kernels may be compiled or loaded at their first launch, which belongs to no measurement.
    loads::warm_up(&device)?;
    let seconds = || settings.get("seconds", 1.0).map(|seconds: f64| seconds.clamp(0.0, 3600.0));
    let count = || settings.get("count", 1_u32);
    match settings.mode.as_str() {
        "identity" => identity(&device, settings),
        "steps" => loads::steps(&device, settings.get("launches", 1000)?, || settings.begin()),
        "calibrate" => loads::calibrate(&device, || settings.begin()),
        "urgent" => {
            let request = loads::Request { kernels: settings.get("kernels", 8)?, count: count()? };
            let hz: f64 = settings.get("hz", 40.0)?;
            loads::urgent(&device, request, hz.clamp(0.1, 1e5), seconds()?, || settings.begin())
        }
        "batch" => loads::batch(&device, count()?, seconds()?, || settings.begin()),
        "launch" => loads::launch(&device, seconds()?, || settings.begin()),
        "gate" => loads::gate(&device, count()?, seconds()?, || settings.begin()),
        "idle" => loads::idle(seconds()?, || settings.begin()),
        "sgemm" => {
            let product = MatrixProduct::new(&device, &settings.folders(), 2048)?;
            loads::operation(&device, &product, seconds()?, || settings.begin())
        }
        "convolution" => {
            let convolution = Convolution::new(&device, &settings.folders())?;
            loads::operation(&device, &convolution, seconds()?, || settings.begin())
        }
        other => Err(Trouble::Usage(format!("no mode `{other}`"))),
    }
}

fn identity(device: &Device, settings: &Settings) -> Result<Outcome, Trouble> {
    settings.begin()?;
    let Identity { name, devices, memory, version } = Identity::of(device)?;
    let facts = [
        ("interface", device.runtime.functions.interface.name().to_owned()),
        ("GPU", name),
        ("GPUs visible", devices.to_string()),
        ("units", device.units.to_string()),
        ("memory", format!("{} MiB", memory >> 20)),
        ("runtime version", version.to_string()),
        ("runtime library", loaded_file(device)),
        ("kernels", device.origin.name().to_owned()),
    ];
    let facts = facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect();
    Ok(Outcome { facts, ..Outcome::default() })
}

/// The file from which the runtime's functions are mapped; links resolved, it has the version in its name.
fn loaded_file(device: &Device) -> String {
    let functions = &device.runtime.functions;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let found = file_at(&maps, functions.init as *const () as usize);
    found.map_or_else(|| functions.file.display().to_string(), ToOwned::to_owned)
}

/// The file in whose mapping an address is.
fn file_at(maps: &str, address: usize) -> Option<&str> {
    maps.lines().find_map(|line| {
        let (begin, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_in = (number(begin)?..number(end)?).contains(&address);
        is_in.then(|| rest.find('/').map(|at| &rest[at..]))?
    })
}

/// Says a word to the kit.
fn say(word: &Word) {
    let mut stdout = io::stdout().lock();
    // The kit may have ended; then this process ends too.
    if stdout.write_all(speech::line(word).as_bytes()).and_then(|()| stdout.flush()).is_err() {
        std::process::exit(1);
    }
}

/// A line means go; the end of standard input means that there is no kit any more.
fn wait_for_go() -> Result<(), Trouble> {
    let mut line = String::new();
    match io::stdin().read_line(&mut line) {
        Ok(1..) => Ok(()),
        _ => Err(Trouble::Usage("the kit has ended".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> Result<Settings, Trouble> {
        Settings::read(&words.iter().map(Into::into).collect::<Vec<_>>())
    }

    #[test]
    fn settings_have_defaults_and_types() {
        let read = settings(&["urgent", "seconds=2.5", "kernels=8", "folders=/a:/b c"]).unwrap();
        assert_eq!(read.get::<f64>("seconds", 1.0).unwrap().to_string(), "2.5");
        assert_eq!(read.get("count", 7_u32).unwrap(), 7);
        assert_eq!(read.folders(), [PathBuf::from("/a"), "/b c".into()]);
        assert!(
            read.get::<u32>("seconds", 1).unwrap_err().to_string().contains("`2.5` is no value for seconds")
        );
    }

    #[test]
    fn the_file_of_an_address_is_that_of_its_mapping() {
        let maps = "1000-2000 r-xp 00000000 fe:01 7    /a/libhiprtc.so\n\
                    3000-4000 r-xp 00000000 fe:01 8    /b/libamdhip64.so.6\n5000-6000 rw-p 00000000 00:00 0\n";
        let files = [0x1fff, 0x2000, 0x3000, 0x5000].map(|address| file_at(maps, address));
        assert_eq!(files, [Some("/a/libhiprtc.so"), None, Some("/b/libamdhip64.so.6"), None]);
    }

    #[test]
    fn odd_words_are_refused() {
        assert!(settings(&["steps", "seconds"]).is_err_and(|error| error.to_string().contains("no setting")));
        assert!(
            settings(&["dance"]).is_err_and(|error| error.to_string().contains("there are: identity, steps"))
        );
        assert!(settings(&[]).is_err());
    }
}
