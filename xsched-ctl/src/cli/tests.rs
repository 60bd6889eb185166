use super::*;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_describes_the_columns_of_a_list() {
    let mut command = Cli::command();
    let help = command.find_subcommand_mut("list").unwrap().render_long_help().to_string();
    let headings =
        crate::list::HEADINGS.iter().filter(|name| !["command", "user", "device", "pid"].contains(name));
    for heading in headings {
        assert!(help.contains(&format!("\n  {heading:<11}  ")), "{heading}: {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

/// Commands in running text, such as `xsched-ctl set --pid PID --priority N`. Those in code blocks are run by
/// `tests/e2e/documented.rs`.
#[test]
fn commands_in_the_text_of_documents_are_understood() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let docs = std::fs::read_dir(format!("{root}/docs")).unwrap();
    let mut pages: Vec<_> = docs.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(format!("{root}/README.md").into());
    let (mut count, mut faults) = (0, Vec::new());
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap().replace('\n', " ");
        for span in text.split('`').skip(1).step_by(2) {
            let Some(words) = words(span) else { continue };
            count += 1;
            let refused = Cli::try_parse_from(&words).err().filter(clap::Error::use_stderr);
            faults.extend(refused.map(|error| format!("{}: {span}: {error}", page.display())));
        }
    }
    assert!(count > 20, "{count} commands were found");
    assert!(faults.is_empty(), "{}", faults.concat());
}

/// The words of a whole command, with something in the place of each word in capitals. A verb that is only named is none.
fn words(span: &str) -> Option<Vec<&str>> {
    let span = span.strip_prefix("sudo ").unwrap_or(span).split(" 2>&1").next()?;
    let mut words = span.split_whitespace().skip_while(|word| word.contains('=') || *word == "nohup");
    if words.next() != Some("xsched-ctl") || span.contains('…') {
        return None;
    }
    let words = words.map(|word| match word {
        "PID" | "N" => "5",
        "NAME" | "POLICY" => "fair",
        "VERB" => "trace",
        word => word,
    });
    let words: Vec<_> = ["xsched-ctl"].into_iter().chain(words).collect();
    let takes_more = ["trace", "run", "report", "replay", "view", "set", "policy"];
    (words.len() > 2 || !takes_more.contains(words.get(1)?)).then_some(words)
}

#[test]
fn a_command_keeps_its_own_options() {
    let cli =
        Cli::try_parse_from(["xsched-ctl", "trace", "-o", "f", "--", "app", "-o", "--pid", "x"]).unwrap();
    let Verb::Trace(trace) = cli.verb else { panic!("not trace") };
    assert_eq!(trace.command, ["app", "-o", "--pid", "x"]);
    assert_eq!(trace.recording.output, Some("f".into()));
}

#[track_caller]
fn refused(words: &[&str]) -> String {
    let words: Vec<_> = ["xsched-ctl"].iter().chain(words).map(OsString::from).collect();
    Cli::read(&words).unwrap_err().to_string()
}

#[test]
fn a_mistyped_option_is_not_taken_for_a_command() {
    for (words, meant) in [
        (&["trace", "--pidd", "1"][..], "a similar argument exists: '--pid'"),
        (&["trace", "--pdi", "1"], "a similar argument exists: '--pid'"),
        (&["rules", "explain", "--ipd", "1"], "a similar argument exists: '--pid'"),
        (&["run", "--calss", "low", "app"], "a similar argument exists: '--class'"),
        (&["trace", "--colour", "app"], "unexpected argument '--colour' found"),
    ] {
        let refused = refused(words);
        assert!(refused.contains(meant) && !refused.contains("as a value"), "{refused}");
    }
}

#[test]
fn verbs_of_other_programs_are_recognized() {
    for (typed, meant) in [
        ("stop", "off"),
        ("pause", "off"),
        ("resume", "on"),
        ("start", "serve"),
        ("status", "list"),
        ("ps", "list"),
        ("record", "trace"),
        ("renice", "set"),
    ] {
        let refused = refused(&[typed]);
        assert!(refused.contains(&format!("a similar subcommand exists: '{meant}'\n")), "{refused}");
    }
    // `rules` has verbs of its own.
    assert!(refused(&["rules", "chekc", "f"]).contains("exists: 'check'"));
    assert!(!refused(&["rules", "stop"]).contains("'off'"));
}

#[test]
fn a_pid_and_a_command_exclude_each_other() {
    assert!(Cli::try_parse_from(["xsched-ctl", "trace", "--pid", "1", "--", "app"]).is_err());
}
