//! What `kernel-capabilities` found out under one kernel, and the table of all.

use std::fmt::Write as _;

use serde::Deserialize;

/// The fields of its result that are read; the others are for people.
#[derive(Debug, Deserialize)]
pub(super) struct Capabilities {
    release: String,
    doctor: Doctor,
    recorded: Recorded,
    scheduled: Scheduled,
}

/// What `doctor --json` prints.
#[derive(Debug, Deserialize)]
struct Doctor {
    tracing: bool,
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    name: String,
    ok: bool,
    detail: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Recorded {
    made: u64,
    calls: u64,
    whole: u64,
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Scheduled {
    joined: u64,
    keeper: Option<String>,
    sight: Option<String>,
    requests: u64,
    wanted: u64,
    wrong: u64,
    ended_well: bool,
    error: Option<String>,
}

impl Capabilities {
    /// What does not work although `doctor` calls it usable.
    pub(super) fn failures(&self) -> Vec<String> {
        let Self { release, doctor, recorded, scheduled } = self;
        let mut failures = Vec::new();
        if doctor.tracing && (recorded.whole != recorded.made || recorded.made == 0) {
            let said = recorded.error.as_deref().unwrap_or("chains are missing or short");
            failures.push(format!(
                "{release}: {} of {} calls have whole chains: {said}",
                recorded.whole, recorded.made
            ));
        }
        if !scheduled.works() {
            let said = scheduled.error.as_deref().unwrap_or("see the result");
            failures.push(format!("{release}: two programs under a controller: {said}"));
        }
        failures
    }

    /// How functions are probed, from the words of `doctor`.
    fn probes(&self) -> &'static str {
        let Some(bpf) = self.doctor.findings.iter().find(|finding| finding.name == "BPF") else {
            return "?";
        };
        if bpf.ok {
            "one link for all, by process"
        } else if bpf.detail.contains("cannot select by process") {
            "one link for all, of all processes"
        } else if bpf.detail.contains("one perf event") {
            "a perf event each"
        } else {
            "none"
        }
    }

    fn cells(&self) -> [String; 6] {
        let Self { release, doctor, recorded, scheduled } = self;
        let calls = format!("{} of {}", recorded.calls, recorded.made);
        let whole = format!("{} of {}", recorded.whole, recorded.made);
        let none = || "no".to_owned();
        let keeper = match scheduled.keeper.as_deref() {
            Some("programs") => "BPF programs",
            Some("controller") => "the controller",
            _ => "?",
        };
        let sight = match scheduled.sight.as_deref() {
            Some("chains") => "whole chains",
            Some("callers") => "immediate callers",
            _ => "?",
        };
        [
            format!("`{release}`"),
            self.probes().to_owned(),
            if doctor.tracing { calls } else { none() },
            if doctor.tracing { whole } else { none() },
            format!("{keeper}; {sight}"),
            if scheduled.works() { "yes".to_owned() } else { "FAILED".to_owned() },
        ]
    }
}

impl Scheduled {
    fn works(&self) -> bool {
        self.joined == 2
            && self.requests == self.wanted
            && self.wanted > 0
            && self.wrong == 0
            && self.ended_well
            && self.error.is_none()
    }
}

/// The table in Markdown: kernels, or why one was not tried.
pub(super) fn table(tried: &[(String, Result<Option<Capabilities>, String>)]) -> String {
    let headings = [
        "kernel",
        "probes",
        "calls recorded",
        "whole chains",
        "page kept by; rules see",
        "two programs scheduled",
    ];
    let mut text = format!("| {} |\n|{}\n", headings.join(" | "), " --- |".repeat(headings.len()));
    for (series, result) in tried {
        let row = match result {
            Ok(Some(capabilities)) => capabilities.cells(),
            Ok(None) => absent(series, "not tried: no archive here has it"),
            Err(_) => absent(series, "FAILED"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

fn absent(series: &str, why: &str) -> [String; 6] {
    [series.to_owned(), why.to_owned(), String::new(), String::new(), String::new(), String::new()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: &str = r#"{"release":"6.12.1","doctor":{"version":"0.1.0","tracing":true,"findings":[
        {"name":"BPF","ok":true,"verdict":"ok","detail":"links","remedy":null}]},
        "recorded":{"made":240,"calls":240,"whole":240,"said":"","attempts":1},
        "scheduled":{"joined":2,"keeper":"programs","sight":"chains","requests":40,"wanted":40,"wrong":0,"ended_well":true}}"#;

    fn parse(text: &str) -> Capabilities {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_kernel_is_a_row_and_a_missing_one_says_so() {
        let tried = [
            ("6.12".to_owned(), Ok(Some(parse(FINE)))),
            ("5.14".to_owned(), Ok(None)),
            ("6.1".to_owned(), Err("it hangs".to_owned())),
        ];
        let table = table(&tried);
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| `6.12.1` | one link for all, by process | 240 of 240 | 240 of 240 | BPF programs; whole chains | yes |",
                "| 5.14 | not tried: no archive here has it |  |  |  |  |",
                "| 6.1 | FAILED |  |  |  |  |",
            ]
        );
    }

    #[test]
    fn what_doctor_calls_usable_has_to_work() {
        assert_eq!(parse(FINE).failures(), Vec::<String>::new());
        let short = parse(&FINE.replace("\"whole\":240", "\"whole\":239"));
        assert_eq!(
            short.failures(),
            ["6.12.1: 239 of 240 calls have whole chains: chains are missing or short"]
        );
        // Without the rights or the programs for it, there is nothing to expect.
        let text =
            FINE.replace("\"whole\":240", "\"whole\":0").replace("\"tracing\":true", "\"tracing\":false");
        assert_eq!(parse(&text).failures(), Vec::<String>::new());
        assert!(parse(&text).cells().contains(&"no".to_owned()));
        for broken in
            [FINE.replace("\"wrong\":0", "\"wrong\":1"), FINE.replace("\"joined\":2", "\"joined\":1")]
        {
            assert_eq!(
                parse(&broken).failures(),
                ["6.12.1: two programs under a controller: see the result"]
            );
        }
    }
}
