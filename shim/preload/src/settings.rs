//! Settings of the environment for calls that pass through, as rules that precede all others.
//!
//! | setting | what it means |
//! | --- | --- |
//! | `XSCHED_PASSTHROUGH_LIBS` | names, separated by `,`, `:`, `;` or spaces: a call passes through if a library of
//! its chain has one of them in its name, or one of the classic list |
//! | `XSCHED_CONFIG` | a file, JSON with comments, see [`Config`] |

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;

use jsonc_parser::{JsonArray, JsonObject, JsonValue, parse_to_value};
use thiserror::Error;
use xsched_protocol::probe::PROBES;
use xsched_protocol::verdict::{Action, SETTINGS};

use crate::env;

/// The classic list: libraries that earlier versions of `XSCHED_PASSTHROUGH_LIBS` contained.
const CLASSIC: [&str; 7] =
    ["libhipblas", "libhipblaslt", "librocblas", "libMIOpen", "librocfft", "libhipsparse", "librccl"];

/// The maximum length of a configuration file.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Why a configuration file is not used.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("failed to read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// See the text.
    #[error("{path}: it is longer than a megabyte")]
    TooLong {
        /// The file.
        path: String,
    },
    /// It is no JSON.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: String,
        /// What the parser says.
        message: String,
    },
    /// See the text.
    #[error("{path}: there is no HIP function `{name}` that could be deferred or passed through")]
    Function {
        /// The file.
        path: String,
        /// The function.
        name: String,
    },
    /// A value is of another kind.
    #[error("{path}: `{key}` must be {expected}")]
    Value {
        /// The file.
        path: String,
        /// The value's name.
        key: String,
        /// What it should be.
        expected: &'static str,
    },
}

/// The user's own rules as text, in the order in which they apply; empty if there are none.
///
/// # Errors
/// The configuration file cannot be understood; the text then has the other settings.
pub fn rules() -> (String, Option<SettingsError>) {
    let (config, error) = match env::config().map(|path| read(&path)).transpose() {
        Ok(config) => (config.unwrap_or_default(), None),
        Err(error) => (Config::default(), Some(error)),
    };
    let libraries = env::passthrough_libraries();
    (render(&config, libraries.as_deref()), error)
}

/// The contents of a configuration file.
///
/// ```json
/// {
///     "passthrough_mode": "whitelist",          // or "blacklist": everything passes through except what is listed
///     "libraries": ["libMyBlas"],               // or {"libMyBlas": "passthrough", "librccl": "never-suspend"}
///     "apis": {"hipMemcpyAsync": "schedule"}    // take precedence over libraries
/// }
/// ```
///
/// A library matches if the name occurs in that of a library of the call chain.
#[derive(Debug, Default, PartialEq, Eq)]
struct Config {
    is_blacklist: bool,
    libraries: Vec<(String, Action)>,
    apis: Vec<(String, Action)>,
}

fn read(path: &OsString) -> Result<Config, SettingsError> {
    let name = || path.to_string_lossy().into_owned();
    let failed = |source| SettingsError::Read { path: name(), source };
    // Reading something other than a file may never end.
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() || metadata.len() > FILE_LEN_MAX {
        return Err(SettingsError::TooLong { path: name() });
    }
    parse(&fs::read_to_string(path).map_err(failed)?, &name())
}

fn parse(text: &str, path: &str) -> Result<Config, SettingsError> {
    let wrong =
        |key: &str, expected| SettingsError::Value { path: path.to_owned(), key: key.to_owned(), expected };
    let value = parse_to_value(text, &jsonc_parser::ParseOptions::default())
        .map_err(|error| SettingsError::Syntax { path: path.to_owned(), message: error.to_string() })?;
    let Some(JsonValue::Object(mut file)) = value else {
        return Err(wrong("", "an object, in braces"));
    };
    let is_blacklist = match file.get("passthrough_mode") {
        None => false,
        Some(JsonValue::String(mode)) if mode == "whitelist" => false,
        Some(JsonValue::String(mode)) if mode == "blacklist" => true,
        Some(_) => return Err(wrong("passthrough_mode", "\"whitelist\" or \"blacklist\"")),
    };
    let listed = if is_blacklist { Action::Schedule } else { Action::Passthrough };
    let mut entries = |key| match file.take(key) {
        None => Ok(Vec::new()),
        Some(JsonValue::Array(names)) => list(&names, listed).ok_or_else(|| wrong(key, "a list of names")),
        Some(JsonValue::Object(actions)) => table(actions).ok_or_else(|| {
            wrong(
                key,
                "names with \"schedule\", \"passthrough\" or \"never-suspend\", or true for passing through",
            )
        }),
        Some(_) => Err(wrong(key, "a list of names, or names with what becomes of them")),
    };
    let config = Config { is_blacklist, libraries: entries("libraries")?, apis: entries("apis")? };
    // A function that the rules do not know would make the whole text invalid.
    let unknown = config.apis.iter().find(|(name, _)| PROBES.iter().all(|probe| probe.name != name));
    match unknown {
        Some((name, _)) => Err(SettingsError::Function { path: path.to_owned(), name: name.clone() }),
        None => Ok(config),
    }
}

fn list(names: &JsonArray<'_>, listed: Action) -> Option<Vec<(String, Action)>> {
    let name = |name: &JsonValue<'_>| match name {
        JsonValue::String(name) => Some((name.to_string(), listed)),
        _ => None,
    };
    names.iter().map(name).collect()
}

fn table(actions: JsonObject<'_>) -> Option<Vec<(String, Action)>> {
    let entry = |(name, action): (Cow<'_, str>, JsonValue<'_>)| {
        let action = match action {
            JsonValue::String(action) => action_named(&action)?,
            JsonValue::Boolean(true) => Action::Passthrough,
            JsonValue::Boolean(false) => Action::Schedule,
            _ => return None,
        };
        Some((name.into_owned(), action))
    };
    let mut entries = actions.into_iter().map(entry).collect::<Option<Vec<_>>>()?;
    // The longer name is more specific.
    entries.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    Some(entries)
}

fn action_named(name: &str) -> Option<Action> {
    [Action::Schedule, Action::Passthrough, Action::NeverSuspend]
        .into_iter()
        .find(|&action| name_of(action) == name)
}

fn name_of(action: Action) -> &'static str {
    match action {
        Action::Schedule => "schedule",
        Action::Passthrough => "passthrough",
        Action::NeverSuspend => "never-suspend",
    }
}

/// The rules in the syntax of a rules file.
fn render(config: &Config, libraries: Option<&str>) -> String {
    let [apis, passthrough, libraries_of_config, blacklist] = SETTINGS;
    let mut text = String::new();
    for (api, action) in &config.apis {
        rule(&mut text, apis, "api", &[api.into()], *action);
    }
    if let Some(libraries) = libraries {
        let named = libraries.split([',', ':', ';', ' ', '\t', '\n']).filter(|name| !name.is_empty());
        let globs: Vec<_> = CLASSIC.into_iter().chain(named).map(|name| Cow::from(within(name))).collect();
        rule(&mut text, passthrough, "chain", &globs, Action::Passthrough);
    }
    for (library, action) in &config.libraries {
        rule(&mut text, libraries_of_config, "chain", &[within(library).into()], *action);
    }
    if config.is_blacklist {
        rule(&mut text, blacklist, "", &[], Action::Passthrough);
    }
    text
}

/// A glob for names that contain this one.
fn within(name: &str) -> String {
    // Libraries are known by their file names.
    let name = name.rsplit('/').next().unwrap_or(name);
    format!("*{name}*")
}

fn rule(text: &mut String, name: &str, condition: &str, globs: &[Cow<'_, str>], action: Action) {
    let _ = writeln!(text, "[[rule]]\nname = {}", quoted(name));
    if !globs.is_empty() {
        let globs: Vec<_> = globs.iter().map(|glob| quoted(glob)).collect();
        let _ = writeln!(text, "{condition} = [{}]", globs.join(", "));
    }
    let _ = writeln!(text, "action = {}", quoted(name_of(action)));
}

/// A text as a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        parse(text, "xsched.json").map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_lists_names_that_pass_through_or_do_not() {
        let whitelist = config(
            r#"{ // comments are welcome
                "passthrough_mode": "whitelist",
                "libraries": ["libMyBlas", "libOther"], /* and trailing commas */
                "apis": ["hipMemcpyAsync"],
            }"#,
        );
        let passed = |name: &str| (name.to_owned(), Action::Passthrough);
        let whitelist = whitelist.unwrap();
        assert_eq!(whitelist.libraries, [passed("libMyBlas"), passed("libOther")]);
        assert_eq!(whitelist.apis, [passed("hipMemcpyAsync")]);
        let blacklist = config(r#"{"passthrough_mode": "blacklist", "libraries": ["libtorch"]}"#).unwrap();
        assert_eq!(blacklist.libraries, [("libtorch".to_owned(), Action::Schedule)]);
        let text = render(&blacklist, None);
        assert!(text.ends_with("name = \"XSCHED_CONFIG, blacklist\"\naction = \"passthrough\"\n"), "{text}");
    }

    #[test]
    fn a_file_may_give_each_name_an_action() {
        let file = r#"{"libraries": {"lib": true, "librccl": "never-suspend", "libtorch": "schedule"}}"#;
        let entry = |name: &str, action| (name.to_owned(), action);
        let expected = [
            entry("libtorch", Action::Schedule),
            entry("librccl", Action::NeverSuspend),
            entry("lib", Action::Passthrough),
        ];
        assert_eq!(config(file).unwrap().libraries, expected, "longer names first");
    }

    #[test]
    fn invalid_settings_are_named() {
        let refused = |text, message: &str| assert_eq!(config(text).unwrap_err(), message);
        refused("[]", "xsched.json: `` must be an object, in braces");
        refused(
            r#"{"passthrough_mode": "graylist"}"#,
            "xsched.json: `passthrough_mode` must be \"whitelist\" or \"blacklist\"",
        );
        refused(r#"{"apis": [1]}"#, "xsched.json: `apis` must be a list of names");
        assert!(config("{").unwrap_err().starts_with("xsched.json: "));
    }

    #[test]
    fn an_api_precedes_its_library_and_the_environments_list_includes_the_classic_one() {
        let file = r#"{"libraries": {"libMy\"Blas": "schedule"}, "apis": {"hipMemcpy": "schedule"}}"#;
        let text = render(&config(file).unwrap(), Some("libdemo, libx:liby"));
        let api = text.find("api = [\"hipMemcpy\"]").unwrap();
        let environment = text.find("\"*librccl*\", \"*libdemo*\", \"*libx*\", \"*liby*\"]").unwrap();
        let library = text.find(r#"chain = ["*libMy\"Blas*"]"#).unwrap();
        assert!(api < environment && environment < library, "{text}");
        assert_eq!(render(&Config::default(), None), "");
    }
}
