//! Parses the text of a rules file.

use xsched_protocol::probe::PROBES;

use crate::builtin::Profile;
use crate::document::{self, Entry, Fault, Faults, Mistake, Mistakes, Section, cgroup, program};
use crate::origin::Rules;
use crate::patterns::Pattern;
use crate::rule::{ACTIONS, FramePattern, Rule, Source, Wanted};

const KEYS: [&str; 3] = ["origin", "profile", "rule"];
const ORIGIN_KEYS: [&str; 2] = ["also_transparent", "transparent"];
const RULE_KEYS: [&str; 13] = [
    "action",
    "api",
    "cgroup",
    "chain",
    "function",
    "kernel",
    "library",
    "name",
    "outermost",
    "preemption",
    "process",
    "under",
    "user",
];

impl Rules {
    /// Parses the text of a rules file. Keys that it does not have keep their built-in values.
    pub fn parse(text: &str) -> Result<Self, Mistakes> {
        let (rules, mistakes) = document::read(text, |root, faults| {
            let mut rules = Self::default();
            let mut own = Vec::new();
            root.each(faults, |entry, faults| {
                match entry.key {
                    "origin" => rules.parse_origin(entry.section()?, faults),
                    "profile" => rules.profile = Profile::ALL[entry.word("profile", &Profile::NAMES)?],
                    "rule" => own = parse_rules(entry, Source::File, faults)?,
                    _ => return Err(entry.unknown("table", &KEYS)),
                }
                Ok(())
            });
            own.extend_from_slice(rules.profile.rules());
            rules.list = own;
            rules
        });
        mistakes.map_or(Ok(rules), Err)
    }

    fn parse_origin(&mut self, origin: Section<'_>, faults: &mut Faults) {
        const WANTED: &str = "a list of file names such as [\"libmine.so*\"]";
        let mut added: Vec<Pattern> = Vec::new();
        origin.each(faults, |entry, _| {
            match entry.key {
                "transparent" => self.transparent = entry.patterns(WANTED)?,
                "also_transparent" => added = entry.patterns(WANTED)?,
                _ => return Err(entry.unknown("key", &ORIGIN_KEYS)),
            }
            Ok(())
        });
        self.transparent.append(&mut added);
    }
}

/// Parses a text that has only rules.
pub(crate) fn rules_of(text: &str, source: Source) -> Result<Vec<Rule>, Mistakes> {
    let (rules, mistakes) = document::read(text, |root, faults| {
        let mut rules = Vec::new();
        root.each(faults, |entry, faults| {
            match entry.key {
                "rule" => rules = parse_rules(entry, source, faults)?,
                _ => return Err(entry.unknown("table", &["rule"])),
            }
            Ok(())
        });
        rules
    });
    mistakes.map_or(Ok(rules), Err)
}

fn parse_rules(entry: Entry<'_>, source: Source, faults: &mut Faults) -> Result<Vec<Rule>, Fault> {
    Ok(entry.sections()?.into_iter().filter_map(|section| parse_rule(section, source, faults)).collect())
}

/// Parses one rule; None if it has a mistake.
fn parse_rule(section: Section<'_>, source: Source, faults: &mut Faults) -> Option<Rule> {
    let (mut name, mut action, mut mode) = (None, None, 0);
    let mut wanted = Wanted::default();
    let is_valid = section.each(faults, |entry, _| {
        match entry.key {
            "name" => name = Some(entry.text("a text")?.to_owned()),
            "action" => action = Some(ACTIONS[entry.word("action", &ACTIONS.map(|(name, _)| name))?].1),
            // The first is XSched's word for it, which older files have.
            "level" | "preemption" => mode = entry.integer(1..=3)? as u8,
            "library" => wanted.library = entry.some(LIBRARY, library)?,
            "function" => {
                wanted.function = entry.some("a name such as \"solve*\", or a list of them", glob)?;
            }
            "chain" => wanted.chain = entry.some(FRAME, frame)?,
            "under" => wanted.under = entry.some(FRAME, frame)?,
            "outermost" => wanted.outermost = entry.some(FRAME, frame)?,
            "api" => wanted.api = entry.some("a function such as \"hipLaunch*\", or a list of them", api)?,
            "kernel" => wanted.kernel = entry.some("a name such as \"gemm_*\", or a list of them", glob)?,
            "process" => {
                wanted.process = entry.some("a name such as \"trainer\", or a list of them", program)?;
            }
            "user" => {
                wanted.user = entry.some("a name or number such as \"alice\", or a list of them", glob)?;
            }
            "cgroup" => {
                wanted.cgroup =
                    entry.some("a path such as \"/system.slice/*\", or a list of them", cgroup)?;
            }
            _ => return Err(entry.unknown("key", &RULE_KEYS)),
        }
        Ok(())
    });
    if !is_valid {
        return None;
    }
    let action = action.ok_or_else(|| {
        section
            .fault(Mistake::Together("a rule needs an action: `schedule`, `passthrough` or `never-suspend`"))
    });
    let action = faults.note(action)?;
    Some(Rule { name, source, line: section.line(), action, mode, wanted })
}

const LIBRARY: &str = "a file name such as \"libsolver.so*\", or a list of them";
const FRAME: &str = "a library such as \"libMIOpen.so*\" or \"libMIOpen.so*:miopenFind*\", or a list of them";

fn glob(text: &str) -> Result<Pattern, Mistake> {
    Ok(Pattern::new(text)?)
}

/// Libraries are identified by their file names, in any folder.
fn library(text: &str) -> Result<Pattern, Mistake> {
    if text.contains('/') {
        return Err(Mistake::Together("libraries are named without their folder, as in \"libsolver.so*\""));
    }
    if text.contains(':') {
        return Err(Mistake::Together(
            "only `chain`, `under` and `outermost` take a library together with a function",
        ));
    }
    glob(text)
}

fn frame(text: &str) -> Result<FramePattern, Mistake> {
    // The name of the function may itself contain colons.
    match text.split_once(':') {
        Some((of, function)) => Ok(FramePattern { library: library(of)?, function: Some(glob(function)?) }),
        None => Ok(FramePattern { library: library(text)?, function: None }),
    }
}

/// An existing function, or a pattern that matches one.
fn api(text: &str) -> Result<Pattern, Mistake> {
    let pattern = glob(text)?;
    if PROBES.iter().any(|probe| pattern.matches(probe.name)) {
        Ok(pattern)
    } else {
        Err(document::unknown_function(text, PROBES.iter().map(|probe| probe.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_replace_or_extend_the_built_in_one() {
        let extended = Rules::parse("[origin]\nalso_transparent = [\"libmine.so*\"]\n").unwrap();
        assert!(extended.is_transparent("libmine.so.1") && extended.is_transparent("libamdhip64.so.6"));
        let replaced = Rules::parse("origin.transparent = [\"libmine.so*\"]").unwrap();
        assert!(replaced.is_transparent("libmine.so.1") && !replaced.is_transparent("libamdhip64.so.6"));
        assert!(Rules::parse("# nothing\n").unwrap().is_transparent("libamdhip64.so.6"));
    }

    #[track_caller]
    fn assert_refused(text: &str, message: &str) {
        assert_eq!(Rules::parse(text).unwrap_err().to_string(), message);
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        assert_refused("\n[orgin]\n", "line 2: there is no table `orgin`; did you mean `origin`?");
        assert_refused(
            "[[weather]]\n",
            "line 1: there is no table `weather`; there are: origin, profile, rule",
        );
        assert_refused(
            "profile = 'compact'",
            "line 1: there is no profile `compact`; did you mean `compat`?",
        );
        assert_refused(
            "[origin]\n\ntransparant = []\n",
            "line 3: there is no key `transparant`; did you mean `transparent`?",
        );
        assert_refused(
            "[origin]\ntransparent = \"libx.so\"\n",
            "line 2: `transparent` must be a list of file names such as [\"libmine.so*\"], not a text",
        );
        assert_refused(
            "[origin]\ntransparent = [\n  \"libx.so\",\n  7,\n]\n",
            "line 4: `transparent` must be a list of file names such as [\"libmine.so*\"], not a number",
        );
        assert_refused("[origin]\ntransparent = [\"\"]\n", "line 2: an empty pattern matches nothing");
        assert_refused("origin = 3\n", "line 1: `origin` must be a table, not a number");
    }

    #[test]
    fn syntax_errors_are_reported_with_their_line() {
        for text in ["[origin]\ntransparent = [\"a\n", "[origin]\ntransparent = []\ntransparent = []\n"] {
            let mistakes = Rules::parse(text).unwrap_err();
            let first = mistakes.first();
            assert!(first.line >= 2, "{mistakes}");
            assert!(matches!(first.mistake, Mistake::Syntax(_)), "{mistakes:?}");
        }
    }

    #[test]
    fn mistakes_in_rules_are_reported_with_suggestions() {
        let rule =
            |line: &str| format!("[[rule]]\naction = 'schedule'\n\n[[rule]]\naction = 'schedule'\n{line}\n");
        let refused = |line: &str, message: &str| assert_refused(&rule(line), message);
        refused("libary = 'x'", "line 6: there is no key `libary`; did you mean `library`?");
        refused(
            "api = 'hipLaunchKernal'",
            "line 6: there is no function `hipLaunchKernal`; did you mean `hipLaunchKernel`?",
        );
        refused("api = ['hipLaunch*', 'cuda*']", "line 6: there is no function `cuda*`");
        refused("preemption = 4", "line 6: `preemption`: expected 1 to 3");
        refused(
            "library = '/opt/rocm/lib/librccl.so'",
            "line 6: libraries are named without their folder, as in \"libsolver.so*\"",
        );
        refused(
            "library = 'libMIOpen.so:find'",
            "line 6: only `chain`, `under` and `outermost` take a library together with a function",
        );
        refused(
            "chain = []",
            "line 6: `chain`: an empty list matches nothing; omit the key to match anything",
        );
        refused(
            "under = 7",
            "line 6: `under` must be a library such as \"libMIOpen.so*\" or \"libMIOpen.so*:miopenFind*\", or a list of them, not a number",
        );
        refused("user = ''", "line 6: an empty pattern matches nothing");
        refused(
            "cgroup = 'batch'",
            "line 6: a cgroup is a path from the root on, such as \"/system.slice/*\"",
        );
        refused(
            "process = 'bin/trainer'",
            "line 6: a name with a slash must be a path from the root, such as \"/opt/*/app\" or \"*/app\"",
        );
        refused(
            "cgroup = ['/', '/batch/']",
            "line 6: a cgroup's path must not end with a slash; it also matches the cgroups below",
        );
        assert_refused(
            "[[rule]]\naction = 'skip'",
            "line 2: there is no action `skip`; there are: schedule, passthrough, never-suspend",
        );
        assert_refused(
            "[[rule]]\naction = 'passthru'",
            "line 2: there is no action `passthru`; did you mean `passthrough`?",
        );
        assert_refused(
            "\n[[rule]]\nlibrary = 'x'",
            "line 2: a rule needs an action: `schedule`, `passthrough` or `never-suspend`",
        );
    }

    #[test]
    fn all_mistakes_are_reported_together() {
        let text = "profile = 'compact'\n[[rule]]\naction = 'skip'\npreemption = 4\n[[rule]]\nlibrary = 'x'\n[[rule]]\nlibary = 'x'\n";
        assert_eq!(
            Rules::parse(text).unwrap_err().of_file("my.toml".as_ref()),
            "my.toml, line 1: there is no profile `compact`; did you mean `compat`?\n\
             my.toml, line 3: there is no action `skip`; there are: schedule, passthrough, never-suspend\n\
             my.toml, line 4: `preemption`: expected 1 to 3\n\
             my.toml, line 5: a rule needs an action: `schedule`, `passthrough` or `never-suspend`\n\
             my.toml, line 8: there is no key `libary`; did you mean `library`?"
        );
    }

    #[test]
    fn own_rules_come_before_those_of_the_profile() {
        let rules = Rules::parse(
            "\n[[rule]]\nlibrary = ['a.so', 'b.so']\nchain = 'c.so:f'\naction = 'passthrough'\npreemption = 1",
        )
        .unwrap();
        let own = &rules.rules()[0];
        assert_eq!((own.source, own.line, own.location("my.toml").as_str()), (Source::File, 2, "my.toml:2"));
        assert_eq!(
            own.to_string(),
            "passthrough, preemption mode 1 at most: library a.so | b.so, chain c.so:f"
        );
        let in_old_words = Rules::parse("[[rule]]\naction = 'schedule'\nlevel = 2").unwrap();
        assert_eq!(in_old_words.rules()[0].to_string(), "schedule, preemption mode 2 at most");
        assert_eq!(rules.rules().len(), 1 + Profile::Default.rules().len());
        assert!(rules.rules()[1].location("my.toml").starts_with("default:"));
        let compat = Rules::parse("profile = 'compat'").unwrap();
        assert_eq!(compat.rules().len(), Profile::Compat.rules().len());
    }
}
