//! The text of a configuration, as `serve --check` shows it.

use std::fmt::Write as _;
use std::time::Duration;

use xsched_control_api::parameters::{Ceiling, Parameters};
use xsched_metrics::Listen;

use super::Config;

impl Config {
    /// Everything that applies, in the order in which it is considered.
    pub(crate) fn shown(&self) -> String {
        let mut text = self.shown_scheduler();
        let file = self.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        text.push_str("\nThe first matching rule sets the parameters of a process:\n");
        for rule in &self.process_rules {
            let parameters = rule.value.applied_to(Parameters::default());
            let _ = writeln!(text, "  {file}:{}: {}: {parameters}", rule.line, rule.selector);
        }
        let _ = writeln!(text, "  otherwise: {}", Parameters::default());
        text.push_str("\nThe first matching ceiling limits how far its user may raise it:\n");
        for rule in &self.ceilings {
            let _ = writeln!(text, "  {file}:{}: {}: {}", rule.line, rule.selector, ceiling(rule.value));
        }
        let _ = writeln!(text, "  otherwise: {}", ceiling(Ceiling::default()));
        text
    }

    fn shown_scheduler(&self) -> String {
        let mut text = match &self.file {
            Some(file) => format!("{}:\n", file.display()),
            None => format!("There is no {}, so the defaults apply:\n", super::DEFAULT_FILE),
        };
        let starvation = match self.starvation {
            Duration::ZERO => "no time slice for waiting processes".to_owned(),
            bound => format!("a process kept waiting for {} gets a time slice", time(bound)),
        };
        let poll = match self.poll {
            Duration::ZERO => "never".to_owned(),
            below => format!("recently preempted processes with kernels shorter than {}", time(below)),
        };
        let in_flight = self.in_flight.map_or_else(|| "measured".to_owned(), time);
        let lines = [
            ("policy", format!("{}: {}", self.policy, self.policy.about())),
            ("starvation", starvation),
            ("lease", time(self.lease)),
            ("linger", time(self.linger)),
            ("one_at_a_time", time(self.one_at_a_time)),
            ("side_by_side", self.side_by_side.to_string()),
            ("poll", poll),
            ("in_flight", in_flight),
            ("preemption", self.preemption_mode.to_string()),
            ("observe", self.observe.to_string()),
            ("metrics", self.metrics.listen.as_ref().map_or_else(|| "none".to_owned(), Listen::to_string)),
            (
                "kubernetes",
                self.kubernetes.as_ref().map_or_else(
                    || "no".to_owned(),
                    |kubernetes| {
                        kubernetes
                            .sockets
                            .iter()
                            .map(|socket| socket.display().to_string())
                            .collect::<Vec<_>>()
                            .join(" or ")
                    },
                ),
            ),
        ];
        for (key, value) in lines {
            let _ = writeln!(text, "  {key:<13}  {value}");
        }
        text
    }
}

fn time(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

fn ceiling(Ceiling { priority, weight, share }: Ceiling) -> String {
    let none = if share.is_none() { ", no share" } else { "" };
    format!("{}{none}", Parameters { priority, weight, share, ..Parameters::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_holds_is_shown_in_order() {
        let text = "[scheduler]\npolicy = 'fair'\nstarvation = '0s'\npoll = '0s'\nin_flight = '2ms'\n[metrics]\nlisten = '127.0.0.1:9464'\n[[rule]]\n\
                    executable = '*/online-*'\nuser = 'alice'\nclass = 'high'\n[[rule]]\nweight = 7\n\
                    [[ceiling]]\ncgroup = '/a*'\nshare = 30\n";
        let config = Config { file: Some("c.toml".into()), ..Config::parse(text).unwrap() };
        let shown = [
            "c.toml:",
            "  policy         fair: processes of equal priority share device time by weight",
            "  starvation     no time slice for waiting processes",
            "  lease          50ms",
            "  linger         100us",
            "  one_at_a_time  1s",
            "  side_by_side   1",
            "  poll           never",
            "  in_flight      2ms",
            "  preemption     2",
            "  observe        false",
            "  metrics        127.0.0.1:9464",
            "  kubernetes     no",
            "",
            "The first matching rule sets the parameters of a process:",
            "  c.toml:8: executable */online-*, user alice: priority 100 (high), weight 100",
            "  c.toml:12: any process: priority 0 (normal), weight 7",
            "  otherwise: priority 0 (normal), weight 100",
            "",
            "The first matching ceiling limits how far its user may raise it:",
            "  c.toml:14: cgroup /a*: priority 49 (normal), weight 100, share 30 %",
            "  otherwise: priority 49 (normal), weight 100, no share",
            "",
        ];
        assert_eq!(config.shown(), shown.join("\n"));
    }

    #[test]
    fn without_a_file_what_is_built_in_is_shown() {
        let shown = Config::default().shown();
        assert!(shown.starts_with(
            "There is no /etc/xsched/config.toml, so the defaults apply:\n  policy         priority: "
        ));
        assert!(
            shown.contains("  starvation     a process kept waiting for 1s gets a time slice\n"),
            "{shown}"
        );
    }
}
