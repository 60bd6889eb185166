//! Suggestions for mistyped options and verbs.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Adds a suggestion to an error about `words`, the command line. For short options clap does not consider swapped
/// letters similar. Where a command may follow, it suggests passing the option as a value, which is never intended.
pub(super) fn explain(mut error: Error, command: &Command, words: &[OsString]) -> Error {
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(meant) =
            synonym(typed).filter(|meant| verb(command, words).find_subcommand(meant).is_some())
    {
        let meant = vec![meant.to_owned()];
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
        return error;
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    let is_explained = error.get(ContextKind::SuggestedArg).is_some();
    if let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg)
        && !is_explained
        && let Some(meant) = same_letters(verb(command, words), typed)
    {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(meant));
    }
    error
}

/// The verb for a word that other programs use. clap compares letters only, so it would suggest `set` for `stop`.
fn synonym(typed: &str) -> Option<&'static str> {
    Some(match typed.to_ascii_lowercase().as_str() {
        "stop" | "disable" | "pause" | "halt" | "release" | "suspend" | "kill" | "end" | "quit" => "off",
        "enable" | "resume" | "continue" | "unpause" => "on",
        "start" | "daemon" | "server" | "controller" | "serv" => "serve",
        "ps" | "ls" | "status" | "stat" | "stats" | "show" | "processes" | "claims" | "queues" => "list",
        "htop" | "nvtop" => "top",
        "exec" | "launch" | "spawn" => "run",
        "nice" | "renice" | "prio" | "priority" | "weight" | "share" | "class" | "limit" => "set",
        "record" | "capture" | "profile" | "perf" => "trace",
        "watch" | "monitor" => "attach",
        "open" | "ui" | "gui" => "view",
        "simulate" | "simulation" | "whatif" | "what-if" | "model" => "replay",
        "summary" | "summarize" | "analyze" | "analyse" => "report",
        "check" | "diagnose" | "info" => "doctor",
        "explain" | "rule" => "rules",
        _ => return None,
    })
}

/// The verb at the beginning of the words, with its subcommand.
fn verb<'a>(mut command: &'a Command, words: &[OsString]) -> &'a Command {
    for word in words.iter().skip(1) {
        match command.find_subcommand(word) {
            Some(verb) => command = verb,
            None => break,
        }
    }
    command
}

/// The option with the same letters in another order.
fn same_letters(verb: &Command, typed: &str) -> Option<String> {
    let letters = |name: &str| {
        let mut letters: Vec<_> = name.chars().collect();
        letters.sort_unstable();
        letters
    };
    let typed = letters(typed.strip_prefix("--")?);
    let mut names = verb.get_arguments().filter_map(|argument| argument.get_long());
    names.find(|name| letters(name) == typed).map(|name| format!("--{name}"))
}
