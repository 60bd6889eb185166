//! `xsched-ctl rules`: the rules in a file, and the verdicts on a process's calls.

use std::fmt::Write as _;
use std::path::Path;

use xsched_control_api::{
    answer::{Answer, By, Claim, Explained, Place, Process},
    client::Controller,
    request::Request,
};
use xsched_rules::Rules;
use xsched_terminal::print;

use crate::cli;
use crate::failure::Failure;
use crate::order::strange;

pub(crate) async fn run(arguments: cli::Rules) -> Result<u8, Failure> {
    match arguments.verb {
        cli::RulesVerb::Check(arguments) => check(&arguments),
        cli::RulesVerb::Explain(arguments) => explain(&arguments).await,
    }
}

fn check(arguments: &cli::RulesCheck) -> Result<u8, Failure> {
    let rules = arguments.file.as_deref().map_or_else(|| Ok(Rules::default()), read)?;
    let file = arguments.file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
    print(&xsched_controller::listed(&rules, &file))?;
    Ok(0)
}

pub(crate) fn read(path: &Path) -> Result<Rules, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| Failure::InputUnreadable { path: path.to_owned(), cause })?;
    Rules::parse(&text).map_err(|cause| Failure::Rules { path: path.to_owned(), cause })
}

async fn explain(arguments: &cli::RulesExplain) -> Result<u8, Failure> {
    let mut controller = Controller::connect().await?;
    let answer = controller.ask(&Request::Explain { pid: arguments.pid }).await?;
    if arguments.json {
        print(&answer.to_line())?;
        return Ok(0);
    }
    let Answer::Explained(explained) = answer else { return Err(strange(&answer)) };
    // Only for the reason why the list is empty: if the controller does not answer now, that is not reported.
    let process = match controller.ask(&Request::List {}).await {
        Ok(Answer::List(list)) => list.processes.into_iter().find(|process| process.pid == explained.pid),
        _ => None,
    };
    print(&explanation(&explained, process.as_ref()))?;
    Ok(0)
}

/// The verdicts as text; `process` is the process's state, if known.
fn explanation(explained: &Explained, process: Option<&Process>) -> String {
    let mut text = String::new();
    if explained.sites.is_empty() {
        let because = process.map(|process| why_no_verdicts(&process.claims)).unwrap_or_default();
        let _ = writeln!(text, "process {} has requested no verdict yet{because}", explained.pid);
    }
    for site in &explained.sites {
        let Place { api, kernel, origin, action, level, .. } = site;
        let kernel = kernel.as_deref().map(|kernel| format!(" of {kernel}")).unwrap_or_default();
        let level = if *level == 0 { String::new() } else { format!(", preemption mode {level} at most") };
        let _ = writeln!(text, "{api}{kernel} by {origin}: {action}{level}");
        let _ = writeln!(text, "  {}, {}", by(&site.by, explained.file.as_deref()), kept(site));
        let end = if site.whole { "" } else { " < …" };
        let _ = writeln!(text, "  {}{end}", site.chain.join(" < "));
    }
    if explained.left_out > 0 {
        let _ = writeln!(text, "and {} others", explained.left_out);
    }
    for (cause, count) in &explained.losses {
        let _ = writeln!(text, "{count} calls of all processes got the default: {cause}");
    }
    text
}

fn why_no_verdicts(claims: &[Claim]) -> &'static str {
    if claims.is_empty() {
        ": it has not used a device"
    } else if claims.iter().all(|claim| claim.alone) {
        ": it is alone on its device, so all calls go to the runtime at once; it requests verdicts when other processes come"
    } else {
        ""
    }
}

fn by(by: &By, file: Option<&str>) -> String {
    match by {
        By::Nobody => "no rule matches".to_owned(),
        By::Domain => "by declaration of a library on the chain".to_owned(),
        By::Rule { name, set, line, .. } => {
            let place = set.as_deref().or(file).unwrap_or("rules");
            let name = name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
            format!("by {place}:{line}{name}")
        }
    }
}

fn kept(site: &Place) -> String {
    let kept = if site.kept_by_call_site { "kept by call site" } else { "requested at each call" };
    if site.chains == 1 { kept.to_owned() } else { format!("{kept}, {} chains", site.chains) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_listed_with_their_places() {
        let rules =
            Rules::parse("[[rule]]\nname = 'mine'\nlibrary = 'a.so'\naction = 'passthrough'\n").unwrap();
        let shown = xsched_controller::listed(&rules, "my.toml");
        assert!(shown.starts_with("my.toml:1 (mine): passthrough: library a.so\ndefault:"), "{shown}");
        assert!(shown.ends_with("otherwise: schedule\n"), "{shown}");
    }

    #[test]
    fn an_explanation_names_chain_and_rule() {
        let site = Place {
            api: "hipLaunchKernel".to_owned(),
            kernel: None,
            origin: "librccl.so.1".to_owned(),
            chain: vec!["librccl.so.1:ncclSend".to_owned(), "app:main".to_owned()],
            whole: false,
            action: "never-suspend".to_owned(),
            level: 0,
            by: By::Rule {
                number: 1,
                name: Some("collectives".to_owned()),
                set: Some("default".to_owned()),
                line: 8,
            },
            kept_by_call_site: true,
            chains: 2,
        };
        let explained = Explained {
            pid: 7,
            profile: "default".to_owned(),
            file: None,
            sites: vec![site],
            left_out: 0,
            losses: vec![("walks_busy".to_owned(), 3)],
        };
        assert_eq!(
            explanation(&explained, None),
            "hipLaunchKernel by librccl.so.1: never-suspend\n  by default:8 (collectives), kept by call site, 2 chains\n  \
             librccl.so.1:ncclSend < app:main < …\n3 calls of all processes got the default: walks_busy\n"
        );
    }

    #[test]
    fn a_process_without_verdicts_has_a_reason() {
        let explained = Explained {
            pid: 7,
            profile: "default".to_owned(),
            file: None,
            sites: Vec::new(),
            left_out: 0,
            losses: Vec::new(),
        };
        let claim = |alone: bool| {
            serde_json::json!({
                "slot": 1, "device": "0000:c1:00.0", "stream_priority": 0, "level": 1, "ready": false, "suspended": false,
                "alone": alone, "device_share": 0.0, "device_ns": 0, "launched": 0, "deferred": 0, "suspended_ns": 0,
            })
        };
        let shown = |claims: &[serde_json::Value]| {
            let process = serde_json::json!({
                "pid": 7, "uid": 0, "user": "root", "command": "x", "class": "normal", "from": "default",
                "parameters": { "priority": 0, "weight": 100, "share": null }, "reports": "programs", "queues": claims,
            });
            explanation(&explained, Some(&serde_json::from_value(process).unwrap()))
        };
        let begin = "process 7 has requested no verdict yet";
        assert_eq!(explanation(&explained, None), format!("{begin}\n"));
        assert_eq!(shown(&[claim(true), claim(false)]), format!("{begin}\n"));
        assert_eq!(shown(&[]), format!("{begin}: it has not used a device\n"));
        assert!(shown(&[claim(true)]).starts_with(&format!("{begin}: it is alone on its device, ")));
    }
}
