//! What the steps work with: the node's programs, a folder, the kit's own controller.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use xsched_terminal::say;

use crate::controller::Controller;
use crate::error::FieldError;
use crate::measurement::{Failed, Finding, Participant, measure};
use crate::options::{Mode, Options, Step};
use crate::process::Order;
use crate::scripts::Script;
use crate::trouble::Trouble;

/// The hidden verb of the minimal client.
pub(crate) const CLIENT_VERB: &str = "field-client";

/// Variables with folders in which libraries keep what they compile: all of it goes with the kit's folder.
const CACHES: [&str; 9] = [
    "AMD_COMGR_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "HF_HOME",
    "MIOPEN_CUSTOM_CACHE_DIR",
    "MIOPEN_USER_DB_PATH",
    "TORCH_HOME",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "XDG_CACHE_HOME",
];

/// How long measurements are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Requests and loads of the minimal client.
    pub(crate) client_s: f64,
    /// Models.
    pub(crate) model_s: f64,
    /// How often a comparison of modes is repeated.
    pub(crate) rounds: usize,
    /// Batch jobs beside an urgent client: none, one, and this many.
    pub(crate) jobs: &'static [usize],
    /// ResNet-50's batch.
    pub(crate) images: u32,
}

impl Pace {
    fn of(options: &Options) -> Self {
        if options.quick {
            Self { client_s: 0.6, model_s: 1.5, rounds: 1, jobs: &[0, 1], images: 64 }
        } else {
            Self { client_s: 4.0, model_s: 6.0, rounds: 2, jobs: &[0, 1, 5], images: 1024 }
        }
    }
}

/// What is known of the node.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The runtime's library where the loader does not find it.
    pub(crate) library: Option<PathBuf>,
    /// HIP or CUDA, once it is known which has a device here.
    pub(crate) interface: Option<String>,
    /// Folders of libraries that belong to Python packages.
    pub(crate) folders: Vec<PathBuf>,
    /// Why there is no runtime, or no device.
    pub(crate) no_device: Option<String>,
    /// Why there is no Python.
    pub(crate) no_python: Option<String>,
}

/// The kit while it runs. Dropping it ends its controller and removes its folder.
pub(crate) struct Kit<'a> {
    pub(crate) options: &'a Options,
    pub(crate) pace: Pace,
    pub(crate) node: Node,
    /// This program.
    pub(crate) command: PathBuf,
    // Before the folder: fields are dropped in this order.
    controller: Option<Controller>,
    folder: TempDir,
    place: Place,
    is_on_its_way_back: bool,
}

/// Where the kit is in its steps, for the progress that it shows.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    step: Option<Step>,
    index: usize,
    count: usize,
}

impl<'a> Kit<'a> {
    pub(crate) fn new(options: &'a Options) -> Result<Self, FieldError> {
        let folder =
            tempfile::Builder::new().prefix("xsched-field-").tempdir().map_err(FieldError::Folder)?;
        let command = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
        Ok(Self {
            options,
            pace: Pace::of(options),
            node: Node::default(),
            command,
            controller: None,
            folder,
            place: Place::default(),
            is_on_its_way_back: false,
        })
    }

    /// The modes to measure.
    pub(crate) fn modes(&self) -> Vec<Mode> {
        let asked = &self.options.modes;
        Mode::ALL.into_iter().filter(|mode| asked.is_empty() || asked.contains(mode)).collect()
    }

    /// The same, every other time from the last to the first. A mode then keeps the running controller, and what drifts with time
    /// is not taken for a difference between modes.
    pub(crate) fn modes_in_turn(&mut self) -> Vec<Mode> {
        let mut modes = self.modes();
        if self.is_on_its_way_back {
            modes.reverse();
        }
        self.is_on_its_way_back = !self.is_on_its_way_back;
        modes
    }

    pub(crate) fn enter_step(&mut self, step: Step, index: usize, count: usize) {
        self.place = Place { step: Some(step), index, count };
    }

    /// Shows what is being done.
    pub(crate) fn progress(&self, what: &str) {
        let Place { step, index, count } = self.place;
        match step {
            Some(step) => say!("[{:>2}/{count}] {step:<11} {what}", index + 1),
            None => say!("{what}"),
        }
    }

    /// A file in the kit's folder, which goes with it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The minimal client in a mode of its own.
    pub(crate) fn client(
        &self,
        name: &str,
        class: &'static str,
        mode: &str,
        settings: &[(&str, String)],
    ) -> Participant {
        let mut words: Vec<OsString> = vec![self.command.clone().into(), CLIENT_VERB.into(), mode.into()];
        words.extend(settings.iter().map(|(name, value)| format!("{name}={value}").into()));
        words.extend(self.node.interface.iter().map(|interface| format!("interface={interface}").into()));
        if let Some(library) = &self.node.library {
            let mut word = OsString::from("library=");
            word.push(library);
            words.push(word);
        }
        Participant { name: name.to_owned(), class, words }
    }

    /// A script, if there is an interpreter.
    pub(crate) fn script(
        &self,
        name: &str,
        class: &'static str,
        script: Script,
        arguments: &[String],
    ) -> Result<Participant, Trouble> {
        if let Some(why) = &self.node.no_python {
            return Err(Trouble::Absent(why.clone()));
        }
        Ok(Participant { name: name.to_owned(), class, words: script.words(&self.python(), arguments) })
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.options.python.clone().unwrap_or_else(|| "python3".into())
    }

    /// Measures participants in a mode, for which there is a controller if it wants one.
    pub(crate) async fn measure(
        &mut self,
        mode: Mode,
        participants: &[Participant],
        window_s: f64,
    ) -> Result<Vec<Finding>, Failed> {
        self.enter_mode(mode).await?;
        let orders: Vec<_> = participants.iter().map(|participant| self.order(mode, participant)).collect();
        let findings = measure(&orders, mode, Duration::from_secs_f64(window_s)).await?;
        if self.controller.as_ref().is_some_and(|controller| !controller.is_running()) {
            return Err(Trouble::ControllerEnded(self.controllers_log()).into());
        }
        Ok(findings)
    }

    /// Ends the controller of another mode, and starts the one of this mode.
    pub(crate) async fn enter_mode(&mut self, mode: Mode) -> Result<(), Trouble> {
        let is_there = |controller: &Controller| controller.mode == mode && controller.is_running();
        if self.controller.as_ref().is_some_and(is_there) {
            return Ok(());
        }
        // One that has died is replaced: the measurements that it spoils are those that it died in.
        self.controller = None;
        if mode != Mode::Native {
            self.controller = Some(Controller::start(&self.command, self.folder.path(), mode).await?);
        }
        Ok(())
    }

    /// Ends the controller, if there is one.
    pub(crate) fn leave_mode(&mut self) {
        self.controller = None;
    }

    /// What the controller has logged last.
    pub(crate) fn controllers_log(&self) -> String {
        self.controller.as_ref().map(Controller::log).unwrap_or_default()
    }

    /// The command line of a participant in a mode.
    pub(crate) fn wrapped(&self, participant: &Participant, mode: Mode) -> Vec<OsString> {
        if mode == Mode::Native {
            return participant.words.clone();
        }
        let mut words: Vec<OsString> = vec![self.command.clone().into()];
        words.extend(["run", "--require-controller", "--json", "--class", participant.class].map(Into::into));
        if let Some(shim) = &self.options.shim {
            words.extend(["--shim".into(), shim.clone().into()]);
        }
        words.push("--".into());
        words.extend(participant.words.iter().cloned());
        words
    }

    fn order(&self, mode: Mode, participant: &Participant) -> Order {
        Order {
            name: participant.name.clone(),
            words: self.wrapped(participant, mode),
            environment: self.environment(),
        }
    }

    /// The variables of every child.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let caches = self.folder.path().join("caches");
        let mut variables: Vec<(&'static str, OsString)> =
            CACHES.iter().map(|name| (*name, caches.join(name).into_os_string())).collect();
        variables.push(("PYTHONDONTWRITEBYTECODE", "1".into()));
        let sockets = self
            .controller
            .as_ref()
            .map_or_else(|| self.no_sockets(), |controller| controller.sockets.clone());
        variables.push(("XSCHED_SOCKET_DIR", sockets.into()));
        variables
    }

    /// A folder without sockets: a child of the kit finds no other controller.
    fn no_sockets(&self) -> PathBuf {
        self.folder.path().join("none")
    }

    /// Any program, with the variables of children and without the shim.
    pub(crate) fn plain(&self, name: &str, words: &[&std::ffi::OsStr]) -> Order {
        Order {
            name: name.to_owned(),
            words: words.iter().map(Into::into).collect(),
            environment: self.environment(),
        }
    }

    /// Folders of libraries, as a setting of the client.
    pub(crate) fn folders(&self) -> (&'static str, String) {
        let opt = Path::new("/opt/rocm/lib").to_owned();
        let folders = std::iter::once(&opt).chain(&self.node.folders);
        ("folders", folders.map(|folder| folder.to_string_lossy().into_owned()).collect::<Vec<_>>().join(":"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_controller_that_has_died_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (command, died) = (folder.path().join("command"), folder.path().join("died"));
        // The first one ends soon, the second does not.
        let died = died.display();
        fs::write(
            &command,
            format!("#!/bin/sh\necho ready\n[ -e {died} ] && exec sleep 1000\n: > {died}\nsleep 1\n"),
        )
        .unwrap();
        fs::set_permissions(&command, Permissions::from_mode(0o755)).unwrap();
        let options = Options {
            quick: true,
            steps: Vec::new(),
            modes: Vec::new(),
            output: None,
            python: None,
            library: None,
            shim: None,
            include: Vec::new(),
            step_limit: Duration::from_mins(1),
        };
        let mut kit = Kit { command, ..Kit::new(&options).unwrap() };
        kit.enter_mode(Mode::Scheduled).await.unwrap();
        let is_running = |kit: &Kit<'_>| kit.controller.as_ref().is_some_and(Controller::is_running);
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_running(&kit) {
            assert!(Instant::now() < deadline, "the first one runs on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        kit.enter_mode(Mode::Scheduled).await.unwrap();
        assert!(is_running(&kit));
    }
}
