//! Starts other programs: shows each command on stderr first, and turns a failure into an error that names it.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// A command that inherits this process's environment, except for what `cargo run` added to the library path.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some(path) = env::var_os("LD_LIBRARY_PATH") {
        let own_build = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
        let added: Vec<_> =
            own_build.into_iter().chain(env::var_os("RUSTUP_HOME").map(PathBuf::from)).collect();
        match without_folders(&path, &added) {
            Some(rest) => command.env("LD_LIBRARY_PATH", rest),
            None => command.env_remove("LD_LIBRARY_PATH"),
        };
    }
    command
}

/// The cargo that runs this xtask, in the workspace's root.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs a command to its end, showing it first; anything but exit status 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    ensure!(status.success(), "`{}` ended with {status}", shown(command));
    Ok(())
}

/// Runs a command to its end, showing it first, and returns its exit status.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    announce(command);
    command.status().with_context(|| format!("failed to start `{}`", command.get_program().display()))
}

/// Runs a command to its end, showing it and its messages; returns what it has printed on stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    announce(command);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("failed to start `{}`", command.get_program().display()))?;
    ensure!(output.status.success(), "`{}` ended with {}", shown(command), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{}` has printed no text", shown(command)))
}

/// One error for all outcomes that are errors.
pub(crate) fn all(outcomes: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let failures = outcomes.into_iter().filter_map(Result::err);
    let failures: Vec<_> = failures.map(|error| format!("{error:#}")).collect();
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// Shows a command on stderr, cut to a line. If it fails, the error has all of it, with its variables.
pub(crate) fn announce(command: &Command) {
    const WIDTH_MAX: usize = 160;
    let line = words(command);
    match line.char_indices().nth(WIDTH_MAX) {
        Some((end, _)) => eprintln!("$ {} ...", &line[..end]),
        None => eprintln!("$ {line}"),
    }
}

/// A command as it is typed, with the variables that were set for it.
pub(crate) fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?;
        (name != "LD_LIBRARY_PATH").then(|| format!("{}={} ", name.display(), quoted(value)))
    });
    variables.collect::<String>() + &words(command)
}

/// Program and arguments.
pub(crate) fn words(command: &Command) -> String {
    let program = command.get_program();
    let program =
        if env::var_os("CARGO").is_some_and(|cargo| cargo == program) { "cargo".as_ref() } else { program };
    let words: Vec<_> = std::iter::once(program).chain(command.get_args()).map(quoted).collect();
    words.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Removes what `cargo run` puts in front of the library path: its build folders and the toolchain's libraries. Programs that are
/// started from here would find those before their own run path.
fn without_folders(path: &OsStr, folders: &[PathBuf]) -> Option<OsString> {
    let kept: Vec<_> = env::split_paths(path)
        .filter(|entry| {
            !entry.as_os_str().is_empty() && !folders.iter().any(|folder| entry.starts_with(folder))
        })
        .collect();
    if kept.is_empty() { None } else { env::join_paths(kept).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_they_are_typed() {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "a b", ""]);
        assert_eq!(shown(&command), "DEBIAN_FRONTEND=noninteractive apt-get install 'a b' ''");
    }

    #[test]
    fn a_bad_exit_names_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c 'exit 3'` ended with exit status: 3");
    }

    #[test]
    fn only_what_cargo_added_leaves_the_library_path() {
        let path =
            OsStr::new("/src/target/debug/deps:/src/target/debug:/opt/rocm/lib:/rust/toolchains/stable/lib");
        let added = [PathBuf::from("/src/target/debug"), PathBuf::from("/rust")];
        assert_eq!(without_folders(path, &added).as_deref(), Some(OsStr::new("/opt/rocm/lib")));
        assert_eq!(without_folders(OsStr::new("/rust/lib:"), &added), None);
    }
}
