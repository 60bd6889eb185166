//! `xsched-ctl manual`: manual pages and shell completions, made from the definition of the command line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Manual;
use crate::failure::Failure;

/// Writes `man/*.1` and `completions/*` into a folder, and prints their paths.
pub(crate) fn run(arguments: &Manual, command: &Command) -> Result<u8, Failure> {
    let written = write(&arguments.folder, command)
        .map_err(|(path, cause)| Failure::OutputUnwritable { path, cause })?;
    let mut lines: Vec<_> = written.iter().map(|path| path.display().to_string()).collect();
    lines.push(String::new());
    xsched_terminal::print(&lines.join("\n"))?;
    Ok(0)
}

/// The shells of distributions, for which packages install completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

/// Returns the files, or the path at which it failed.
fn write(folder: &Path, command: &Command) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let made = |name| {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).map(|()| folder.clone()).map_err(|cause| (folder, cause))
    };
    let (pages, completions) = (made("man")?, made("completions")?);
    let mut written = Vec::new();
    for page in manual(without_help(command.clone()), command.get_name()) {
        let path = pages.join(page.get_filename());
        page.generate_to(&pages).map_err(|cause| (path.clone(), cause))?;
        written.push(path);
    }
    for shell in SHELLS {
        let name = command.get_name().to_owned();
        let file = clap_complete::generate_to(shell, &mut command.clone(), name, &completions)
            .map_err(|cause| (completions.clone(), cause))?;
        written.push(file);
    }
    Ok(written)
}

/// The page of a command, which is called by these words, and those of its verbs.
fn manual(command: Command, words: &str) -> Vec<Man> {
    let verbs: Vec<_> = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let command = command.display_name(words.replace(' ', "-")).bin_name(words);
    let mut pages = vec![Man::new(command).source(concat!("xsched-ctl ", env!("CARGO_PKG_VERSION")))];
    for verb in verbs {
        let words = format!("{words} {}", verb.get_name());
        pages.extend(manual(verb, &words));
    }
    pages
}

/// `help` is no verb with a page of its own.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn each_verb_has_a_page_and_each_shell_its_completions() {
        let folder = tempfile::tempdir().unwrap();
        let written = write(folder.path(), &Cli::command()).unwrap();
        assert!(written.iter().all(|path| path.is_file()), "{written:?}");
        let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let page = format!("xsched-ctl-{}.1", verb.get_name());
            assert!(names.contains(&page.as_str()), "{page} of {names:?}");
        }
        for completion in ["xsched-ctl.bash", "_xsched-ctl", "xsched-ctl.fish"] {
            assert!(names.contains(&completion), "{completion} of {names:?}");
        }
        let page = fs::read_to_string(folder.path().join("man/xsched-ctl-trace.1")).unwrap();
        assert!(page.contains("\\-\\-output") && page.contains("Examples"), "{page}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (path, _) = write(file.path(), &Cli::command()).unwrap_err();
        assert_eq!(path, file.path().join("man"));
    }
}
