use super::*;

impl Config {
    /// Reads the text of a file.
    pub(crate) fn parse(text: &str) -> Result<Self, Mistakes> {
        let (config, mistakes) = Self::read(text);
        mistakes.map_or(Ok(config), Err)
    }
}

fn subject(executable: &str, user: &str, cgroup: &str) -> Subject {
    Subject {
        container: None,
        pod: None,
        pid: 1,
        uid: 1000,
        users: vec![user.to_owned()],
        executable: executable.into(),
        command: "x".to_owned(),
        cgroup: cgroup.to_owned(),
        nice: 0,
    }
}

/// The example at the head of the module.
fn example() -> String {
    include_str!("../config.rs")
        .lines()
        .skip_while(|line| *line != "//! ```toml")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .flat_map(|line| [line.trim_start_matches("//!").trim_start(), "\n"])
        .collect()
}

#[test]
fn the_documented_example_is_read_as_documented() {
    let config = Config::parse(&example()).unwrap();
    assert_eq!(config.policy, PolicyKind::Priority);
    assert_eq!(config.in_flight, Some(Duration::from_millis(2)));
    assert_eq!(config.counts(), (1, 1));
    let online = subject("/opt/online-serve", "alice", "/system.slice/online.service/worker");
    assert_eq!(
        config.parameters(&online),
        Parameters {
            priority: 100,
            weight: 200,
            share: Some(50),
            quota: Some("20ms/100ms".parse().unwrap()),
            deadline: Some(Nanos::from_millis(33)),
            work: Some(Nanos::from_millis(5)),
            slo: Some("p99 < 12ms".parse().unwrap()),
        }
    );
    for other in [
        subject("/opt/offline", "alice", "/system.slice/online.service"),
        subject("/opt/online-serve", "bob", "/system.slice/online.service"),
        subject("/opt/online-serve", "alice", "/user.slice"),
    ] {
        assert_eq!(config.parameters(&other), Parameters::default(), "{other:?}");
    }
    assert_eq!(config.ceiling(&online).priority, Class::High.highest());
}

#[test]
fn defaults_are_those_of_the_documented_example() {
    let (example, built_in) = (Config::parse(&example()).unwrap(), Config::parse("").unwrap());
    let times =
        |config: &Config| (config.starvation, config.lease, config.linger, config.one_at_a_time, config.poll);
    assert_eq!(times(&example), times(&built_in));
    assert_eq!(
        (example.policy, example.preemption_mode, example.observe),
        (built_in.policy, built_in.preemption_mode, built_in.observe)
    );
}

/// The packages install it as /etc/xsched/config.toml.
#[test]
fn the_installed_file_changes_nothing_and_shows_every_default() {
    let installed = include_str!("../../../packaging/config.toml");
    assert_eq!(format!("{:?}", Config::parse(installed).unwrap()), format!("{:?}", Config::default()));
    let uncommented = |line: &'static str| {
        let line = line.strip_prefix("# ").unwrap_or(line);
        let is_key = |key: &&str| line.starts_with(*key) && line.contains(" = ");
        SCHEDULER_KEYS.iter().find(|key| is_key(key)).map(|key| (*key, line))
    };
    let shown: std::collections::BTreeMap<_, _> = installed.lines().filter_map(uncommented).collect();
    assert!(shown.keys().eq(SCHEDULER_KEYS.iter()), "{shown:?}");
    let lines = shown.into_iter().filter(|(key, _)| *key != "in_flight").map(|(_, line)| format!("{line}\n"));
    let all: String = std::iter::once("[scheduler]\n".to_owned()).chain(lines).collect();
    assert_eq!(format!("{:?}", Config::parse(&all).unwrap()), format!("{:?}", Config::default()));
}

#[test]
fn the_first_matching_rule_decides() {
    let config = Config::parse(
        "[[rule]]\nexecutable = 'python3*'\npriority = 7\n[[rule]]\nuser = '1000'\nweight = 5\n[[rule]]\nclass = 'low'",
    )
    .unwrap();
    let python = subject("/usr/bin/python3.11", "alice", "/");
    assert_eq!(config.parameters(&python), Parameters { priority: 7, ..Parameters::default() });
    let other = subject("/usr/bin/other", "alice", "/");
    assert_eq!(config.parameters(&other), Parameters { weight: 5, ..Parameters::default() });
    let root = Subject { uid: 0, ..other };
    assert_eq!(config.parameters(&root).priority, Class::Low.priority());
}

#[track_caller]
fn assert_refused(text: &str, message: &str) {
    assert_eq!(Config::parse(text).unwrap_err().to_string(), message);
}

#[test]
fn mistakes_are_named_with_their_line() {
    assert_refused(
        "[scheduler]\nstarvaton = '1s'",
        "line 2: there is no key `starvaton`; did you mean `starvation`?",
    );
    assert_refused("[schedular]", "line 1: there is no table `schedular`; did you mean `scheduler`?");
    assert_refused(
        "[scheduler]\n\npolicy = 'priorty'",
        "line 3: there is no policy `priorty`; did you mean `priority`?",
    );
    assert_refused("[scheduler]\nlease = '1ms'", "line 2: `lease`: expected 5ms to 10s");
    assert_refused(
        "[scheduler]\nlease = 50",
        "line 2: `lease` must be a time such as \"50ms\", not a number",
    );
    assert_refused(
        "[scheduler]\nstarvation = '1us'",
        "line 2: `starvation`: the bound on waiting is 1µs, not between 10ms and 3600s",
    );
    assert_refused("[scheduler]\nlinger = '-1ms'", "line 2: `linger`: expected a time such as \"50ms\"");
    assert_refused("[scheduler]\npreemption = 3", "line 2: `preemption`: expected 1 to 2");
    assert_refused(
        "\n[[rule]]\nuser = 'x'",
        "line 2: a rule needs a class, priority, weight, share, quota, deadline, work or slo",
    );
    assert_refused(
        "[[rule]]\nquota = '200ms/100ms'",
        "line 2: `quota`: the time of a quota may be 100µs to 100ms, not 200ms",
    );
    assert_refused(
        "[[rule]]\nslo = '12ms'",
        "line 2: `slo`: expected an SLO such as `p99 < 12ms`, not `12ms`",
    );
    assert_refused(
        "[[rule]]\ndeadline = '1ns'",
        "line 2: `deadline`: a deadline may be 500µs to 3600s, not 1ns",
    );
    assert_refused("[[ceiling]]", "line 1: a ceiling needs a class, priority, weight or share");
    assert_refused(
        "[[ceiling]]\nclass = 'low'\n[[ceiling]]\nuser = 'x'",
        "line 3: a ceiling needs a class, priority, weight or share",
    );
    assert_refused("[[rule]]\nclass = 'high'\npriority = 3", "line 1: give a class or a priority, not both");
    assert_refused("[[rule]]\npriority = 256", "line 2: `priority`: expected -255 to 255");
    assert_refused(
        "[[ceiling]]\nexecutable = 'x'\nclass = 'high'",
        "line 2: there is no key `executable`; there are: cgroup, class, namespace, priority, share, user, weight",
    );
    assert_refused("[[rule]]\nuser = ''\nclass = 'high'", "line 2: an empty pattern matches nothing");
    assert_refused(
        "[[rule]]\ncgroup = 'system.slice/online*'\nclass = 'high'",
        "line 2: a cgroup is a path from the root on, such as \"/system.slice/*\"",
    );
    assert_refused(
        "[[ceiling]]\ncgroup = '/system.slice/'\nclass = 'high'",
        "line 2: a cgroup's path must not end with a slash; it also matches the cgroups below",
    );
    assert_refused(
        "[[rule]]\nexecutable = 'bin/app'\nclass = 'high'",
        "line 2: a name with a slash must be a path from the root, such as \"/opt/*/app\" or \"*/app\"",
    );
    assert_refused(
        "[rule]\nclass = 'high'",
        "line 1: `rule` must be a list of tables, each with its name in double brackets, not a table",
    );
}

#[test]
fn all_mistakes_are_named_at_once_and_the_rest_is_read() {
    let text = "rules = 'r.toml'\n[scheduler]\npolicy = 'fiar'\nlease = 3\nlinger = '1ms'\n[[rule]]\nuser = 'x'\n\
                [[rule]]\nclas = 'high'\npriority = 999\n[[ceiling]]\nclass = 'high'\npriority = 3\n[[rool]]\n";
    let (config, mistakes) = Config::read(text);
    let lines = [
        "f.toml, line 3: there is no policy `fiar`; there are: priority, fair, partition, quota, edf, laxity, slo, mlfq, nice",
        "f.toml, line 4: `lease` must be a time such as \"50ms\", not a number",
        "f.toml, line 6: a rule needs a class, priority, weight, share, quota, deadline, work or slo",
        "f.toml, line 9: there is no key `clas`; did you mean `class`?",
        "f.toml, line 10: `priority`: expected -255 to 255",
        "f.toml, line 11: give a class or a priority, not both",
        "f.toml, line 14: there is no table `rool`; there are: ceiling, kubernetes, metrics, rule, rules, scheduler",
    ];
    assert_eq!(mistakes.unwrap().of_file("f.toml".as_ref()), lines.join("\n"));
    assert_eq!((config.rules, config.linger), (Some("r.toml".into()), Duration::from_millis(1)));
}

#[test]
fn unknown_users_are_named() {
    let text = "[[rule]]\nuser = 'root'\nclass = 'high'\n[[rule]]\nuser = 'no-such-user'\nclass = 'high'\n\
                [[rule]]\nuser = 'no-such-*'\nclass = 'high'\n[[ceiling]]\nuser = '4711'\nclass = 'high'\n\
                [[ceiling]]\nuser = 'no-such-user'\nclass = 'high'\n";
    let config = Config { file: Some("c.toml".into()), ..Config::parse(text).unwrap() };
    assert_eq!(config.user_names(), ["root".to_owned(), "no-such-user".to_owned()].into());
    let warnings = config.warnings(&Users::read(config.user_names()), Cgroups::Unified);
    let starts: Vec<_> =
        warnings.iter().filter_map(|warning| warning.split_once(',')?.1.split_once(',')).collect();
    let missing = " there is no user `no-such-user`";
    assert_eq!(
        starts.iter().map(|(start, _)| *start).collect::<Vec<_>>(),
        [" line 4:", " line 13:"].map(|line| format!("{line}{missing}"))
    );
}

#[test]
fn rules_that_promise_more_than_100_percent_are_named() {
    let rules = |shares: &[u8]| {
        let rules =
            shares.iter().map(|share| format!("[[rule]]\nexecutable = 'x{share}'\nshare = {share}\n"));
        Config::parse(&rules.collect::<Vec<_>>().concat())
            .unwrap()
            .warnings(&Users::default(), Cgroups::Unified)
    };
    assert_eq!(rules(&[50, 20, 30]), [""; 0], "all of it is not too much");
    assert_eq!(
        rules(&[60, 1, 70]),
        [
            "lines 1, 4, 7: shares of these rules come to 131 %, so all shrink in proportion where a process of each uses one device"
        ]
    );
}

#[test]
fn entries_behind_one_for_all_processes_are_named() {
    let warnings = |text: &str| Config::parse(text).unwrap().warnings(&Users::default(), Cgroups::Unified);
    let (all, some) = ("class = 'low'\n", "user = '7'\nclass = 'low'\n");
    assert_eq!(
        warnings(&format!("[[ceiling]]\n{some}[[ceiling]]\n{all}[[rule]]\n{some}[[rule]]\n{all}")),
        [""; 0]
    );
    assert_eq!(
        warnings(&format!(
            "[[ceiling]]\nuser = '*'\n{all}[[ceiling]]\n{some}[[rule]]\n{all}[[rule]]\n{some}[[rule]]\n{all}"
        )),
        [
            "lines 9, 12: never used, because the one at line 7 matches every process",
            "line 4: never used, because the one at line 1 matches every process",
        ]
    );
}

#[test]
fn rules_by_cgroup_are_named_where_cgroups_are_unavailable() {
    let text = "[[rule]]\ncgroup = '/a'\nclass = 'low'\n[[rule]]\nuser = '7'\nclass = 'low'\n\
                [[ceiling]]\ncgroup = '/a'\nclass = 'high'\n";
    let config = Config { file: Some("c.toml".into()), ..Config::parse(text).unwrap() };
    let start = |cgroups| {
        let warnings = config.warnings(&Users::default(), cgroups);
        let starts =
            warnings.iter().map(|warning| warning.split(": ").take(2).collect::<Vec<_>>().join(": "));
        starts.collect::<Vec<_>>()
    };
    assert_eq!(start(Cgroups::Unified), [""; 0]);
    assert_eq!(start(Cgroups::Old), ["c.toml, lines 1, 7: `cgroup` matches no process"]);
    assert_eq!(start(Cgroups::Mixed), ["c.toml, lines 1, 7: `cgroup` may match no process"]);
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let missing = Path::new("/nonexistent/config.toml");
    assert!(matches!(Config::read_file(Some(missing)), (_, Some(FileError::Unreadable { .. }))));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "[scheduler]\nobserve = 1").unwrap();
    let refused = Config::read_file(Some(file.path())).1.unwrap().to_string();
    assert!(refused.ends_with("line 2: `observe` must be true or false, not a number"), "{refused}");
}

#[test]
fn a_namespace_is_that_of_the_pod() {
    let text = "[[rule]]\nnamespace = 'team-*'\nweight = 7\n[[ceiling]]\nnamespace = 'prod'\nclass = 'high'";
    let config = Config::parse(text).unwrap();
    let of = |namespace: &str| {
        let pod = xsched_pods::Container {
            namespace: namespace.to_owned(),
            pod: "p".to_owned(),
            name: "c".to_owned(),
            asked: xsched_pods::Asked::default(),
        };
        Subject { pod: Some(pod.into()), ..subject("/bin/a", "alice", "/kubepods/x") }
    };
    assert_eq!(config.parameters(&of("team-a")).weight, 7);
    assert_eq!(config.ceiling(&of("prod")).priority, Class::High.highest());
    for other in [of("production"), subject("/bin/a", "alice", "/")] {
        assert_eq!(config.parameters(&other), Parameters::default());
        assert_eq!(config.ceiling(&other), Ceiling::default(), "before the pod is known, too");
    }
}

#[test]
fn the_endpoint_for_metrics_is_read_and_kept_from_other_machines() {
    let config = Config::parse("[metrics]\nlisten = 'unix:/run/m.sock'\nmode = '0640'").unwrap();
    assert_eq!(config.metrics.listen, Some("unix:/run/m.sock".parse().unwrap()));
    assert_eq!(config.metrics.access, Access { is_public: false, mode: 0o640 });
    assert!(Config::parse("[metrics]\nlisten = '10.0.0.1:9464'\npublic = true").is_ok());
    assert_refused(
        "[metrics]\nlisten = '10.0.0.1:9464'",
        "line 1: other machines can reach `listen`; `public = true` allows that",
    );
}
