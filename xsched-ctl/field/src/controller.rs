//! The kit's own controller: in a folder of sockets of its own, for as long as a mode is measured.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::options::Mode;
use crate::process::{Order, Process};
use crate::trouble::Trouble;

/// How long a controller may take to start: it loads BPF programs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running controller; dropping it ends it.
pub(crate) struct Controller {
    pub(crate) mode: Mode,
    /// The folder of its sockets.
    pub(crate) sockets: PathBuf,
    process: Process,
}

impl Controller {
    /// Starts one with the rules of a mode, and waits until processes can join.
    pub(crate) async fn start(command: &Path, folder: &Path, mode: Mode) -> Result<Self, Trouble> {
        let sockets = folder.join(mode.name());
        let write = |name: &str, text: &str| {
            let path = folder.join(format!("{}-{name}", mode.name()));
            fs::write(&path, text).map(|()| path)
        };
        let made = fs::create_dir_all(&sockets).and_then(|()| {
            // The machine's own configuration has no effect.
            Ok((write("config.toml", "")?, write("rules.toml", rules(mode))?))
        });
        let (config, rules) = made.map_err(Trouble::at("configuring the controller"))?;
        let words: [OsString; 7] = [
            command.into(),
            "serve".into(),
            "--json".into(),
            "--config".into(),
            config.into(),
            "--rules".into(),
            rules.into(),
        ];
        let order = Order {
            name: "controller".to_owned(),
            words: words.into(),
            environment: vec![("XSCHED_SOCKET_DIR", sockets.clone().into())],
        };
        let mut process = Process::start(&order)?;
        // Its first line says that processes can join.
        let started = process.first_line(Instant::now() + PATIENCE).await;
        started.map_err(|error| Trouble::NoController(error.to_string()))?;
        Ok(Self { mode, sockets, process })
    }

    /// Whether it runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.process.is_over()
    }

    /// What it has logged last.
    pub(crate) fn log(&self) -> String {
        self.process.last_words()
    }
}

/// The file of rules of a mode.
fn rules(mode: Mode) -> &'static str {
    match mode {
        Mode::Compat => "profile = \"compat\"\n",
        Mode::Native | Mode::Scheduled => "profile = \"default\"\n",
    }
}
