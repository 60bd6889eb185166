//! A list for tests: an urgent service, a batch job that waits for it, and a process without a claim.

use xsched_control_api::answer::{
    Claim, Counts, Device, From, List, Origin, PageKeeper, Process, Settings, Sight, State, Status,
};
use xsched_control_api::parameters::{Class, Parameters};

pub(super) fn list() -> List {
    let origins = |names: &[(&str, f64, u64)]| {
        let origin = |&(library, device_share, device_ns): &(&str, f64, u64)| Origin {
            library: library.to_owned(),
            device_share,
            device_ns,
        };
        names.iter().map(origin).collect()
    };
    let serve = Claim {
        ready: true,
        device_share: 0.25,
        origins: origins(&[("librocblas.so.4", 0.25, 1_230_000_000)]),
        ..claim(3, 1)
    };
    let train = Claim {
        ready: true,
        suspended: true,
        waits_for: vec![3],
        device_share: 0.6,
        suspended_ns: 1_500_000,
        origins: origins(&[("libtorch_hip.so", 0.5, 7_000_000_000), ("librocblas.so.4", 0.1, 2_000_000)]),
        ..claim(5, 2)
    };
    let alone = Claim { alone: true, device: "0000:c2:00.0".to_owned(), ..claim(9, 1) };
    List {
        controller: Status {
            version: "1".to_owned(),
            pid: 7,
            uid: 0,
            state: State::Active,
            policy: "priority".to_owned(),
            keeper: PageKeeper::Programs,
            sight: Sight::Chains,
            settings: Settings::default(),
            uptime_ns: 5,
            counts: Counts::default(),
        },
        devices: vec![Device { device: "0000:c1:00.0".to_owned(), busy: 0.85 }],
        processes: vec![
            process(4711, "serve.py", Class::High, vec![serve]),
            process(4712, "train-a-large-model", Class::Low, vec![train, alone]),
            process(4713, "evil\u{1b}[2J", Class::Normal, Vec::new()),
        ],
    }
}

fn claim(slot: u32, level: u64) -> Claim {
    Claim {
        slot,
        device: "0000:c1:00.0".to_owned(),
        parameters: None,
        stream_priority: 0,
        level,
        ready: false,
        suspended: false,
        waits_for: Vec::new(),
        alone: false,
        device_share: 0.0,
        device_ns: 0,
        origins: Vec::new(),
        launched: 0,
        deferred: 0,
        suspended_ns: 0,
        latency_ns: None,
    }
}

fn process(pid: u32, command: &str, class: Class, claims: Vec<Claim>) -> Process {
    Process {
        pid,
        uid: 0,
        user: "anna".to_owned(),
        command: command.to_owned(),
        cgroup: String::new(),
        pod: None,
        parameters: Parameters { priority: class.priority(), ..Parameters::default() },
        class: class.to_string(),
        from: From::Run,
        reports: PageKeeper::Programs,
        claims,
    }
}
