//! Quotas of users and containers, alone and together.

use std::os::fd::{AsRawFd as _, OwnedFd};

use super::*;

/// Admits a process of a user, and opens claims on devices for it; returns how many the quotas allow.
fn opens(bench: &mut Bench, uid: u32, pid: u32, devices: impl IntoIterator<Item = u32>) -> usize {
    opens_as(bench, &Peer::unknown(pid, uid), devices)
}

/// The same for any process.
fn opens_as(bench: &mut Bench, peer: &Peer, devices: impl IntoIterator<Item = u32>) -> usize {
    let id = bench.0.admit(peer, &hello(0), None).unwrap().id;
    let wanted = |device| OpenClaim {
        kind: PacketKind::OpenClaim as u32,
        device: device_key(7, device >> 5, device & 0x1f, 0),
        ..OpenClaim::new_zeroed()
    };
    devices.into_iter().take_while(|&device| bench.0.open(id, &wanted(device)).is_ok()).count()
}

#[test]
fn users_that_take_their_maximum_of_claims_leave_some_for_others() {
    let mut bench = Bench::new("");
    for user in 0..3 {
        for process in 0..64 {
            opens(&mut bench, USER + user, 100 * (user + 1) + process, [1; 64]);
        }
    }
    for user in 3..32 {
        assert_eq!(opens(&mut bench, USER + user, 1000 + user, [1; 64]), 64, "user {user}");
    }
    assert_eq!(opens(&mut bench, 0, 2000, [1; 64]), 64);
}

#[test]
fn a_device_that_others_use_costs_no_quota() {
    let mut bench = Bench::new("");
    // All of eight accelerators in eight partitions each, and a few more.
    assert_eq!(opens(&mut bench, USER, 1, 0..64), 64);
    assert_eq!(opens(&mut bench, USER, 2, 64..128), 4);
    for user in 1..40 {
        assert_eq!(opens(&mut bench, USER + user, 10 + user, 0..64), 64, "user {user}");
    }
    // They count for the user with the smallest number.
    assert_eq!(opens(&mut bench, USER - 1, 100, 0..64), 64);
    assert_eq!(opens(&mut bench, USER, 101, 128..192), 4, "none of the others counts for this user");
    assert_eq!(opens(&mut bench, 0, 102, 0..64), 64);
    assert_eq!(opens(&mut bench, USER, 103, 192..256), 60, "they count for no user");
}

#[test]
fn root_in_a_container_leaves_some_for_root_outside() {
    let mut bench = Bench::new("");
    let admit =
        |bench: &mut Bench, peer: &Peer| bench.0.admit(peer, &hello(0), None).map(|admitted| admitted.id);
    let (mut contained, wish) = (1.., Wish { priority: Some(-1), ..Wish::default() });
    while let Ok(id) = admit(&mut bench, &Peer::contained(contained.next().unwrap(), 0, 7)) {
        bench.0.clients.get_mut(&id).unwrap().set = wish;
    }
    assert_eq!(bench.0.clients.len(), 1024);
    let outside = Peer::by_pid(std::process::id(), 0).unwrap();
    let id = admit(&mut bench, &outside).expect("root is admitted");
    // What was set for it is kept when it connects again, however many others have left.
    for other in bench.0.clients.keys().copied().filter(|other| *other != id).collect::<Vec<_>>() {
        bench.0.leave(other);
    }
    bench.0.clients.get_mut(&id).unwrap().set = wish;
    bench.0.leave(id);
    admit(&mut bench, &outside).unwrap();
    assert_eq!(bench.list().processes[0].parameters.priority, -1);

    let mut runs = Vec::new();
    let mut run = |bench: &mut Bench, actor| {
        let token = format!("{:032x}", runs.len() + 1);
        runs.push(Attendance::default());
        bench.0.order(actor, Request::Run { wish, token }, runs.last_mut().unwrap())
    };
    let contained = Actor::of(&Peer::contained(1, 0, 7));
    while matches!(run(&mut bench, contained), Answer::Run { .. }) {}
    let answer = run(&mut bench, ROOT);
    assert!(matches!(answer, Answer::Run { .. }), "{answer:?}");
}

/// All processes in pods are root, as the kernel shows them, or any user that this root becomes.
#[test]
fn a_container_that_takes_its_maximum_leaves_some_for_others_of_the_same_user() {
    let mut bench = Bench::new("");
    for process in 0..64 {
        let greedy = Peer::contained(1 + process, process, 7);
        opens_as(&mut bench, &greedy, (32 * process)..(32 * process + 32));
        opens_as(&mut bench, &Peer::contained(101 + process, 0, 7), [1; 64]);
    }
    for container in 8..20 {
        let other = |pid| Peer::contained(1000 * container + pid, 0, container.into());
        let devices = 4000 + 8 * container..4008 + 8 * container;
        assert_eq!(opens_as(&mut bench, &other(1), devices), 4, "devices of container {container}");
        assert_eq!(opens_as(&mut bench, &other(2), [1; 64]), 60, "its other claims");
    }
    assert_eq!(opens(&mut bench, USER, 1, [1; 64]), 64);
}

#[test]
fn containers_with_the_same_user_have_processes_and_tokens_of_their_own() {
    let mut bench = Bench::new("");
    let mut admit =
        |pid, container| bench.0.admit(&Peer::contained(pid, 0, container), &hello(0), None).is_ok();
    assert_eq!((1..5000).take_while(|&pid| admit(pid, 7)).count(), 1024);
    assert!(admit(5000, 8));

    let run = Request::Run { wish: Wish { priority: Some(-1), ..Wish::default() }, token: "1".repeat(32) };
    let mut order = |container| {
        let mut attendance = Attendance::default();
        bench.0.order(Actor::of(&Peer::contained(1, 0, container)), run.clone(), &mut attendance)
    };
    assert!(matches!(order(7), Answer::Run { .. }));
    assert!(!matches!(order(8), Answer::Run { .. }), "it would replace what the other has requested");
}

#[test]
fn a_refused_user_is_logged_once() {
    let mut bench = Bench::new("");
    assert_eq!(opens(&mut bench, USER, 1, 0..64), 64);
    assert_eq!(opens(&mut bench, USER, 2, 64..128), 4);
    assert_eq!(bench.0.refusals.logged().keys().collect::<Vec<_>>(), [&Party::User(USER)]);
    let first = bench.0.refusals.logged()[&Party::User(USER)];
    assert_eq!(opens(&mut bench, USER, 3, 128..129), 0);
    assert_eq!(bench.0.refusals.logged()[&Party::User(USER)], first);
}

#[test]
fn users_that_name_their_maximum_of_devices_leave_some_for_others() {
    let mut bench = Bench::new("");
    for user in 0..3 {
        for process in 0..8 {
            let first = 256 * user + 32 * process;
            opens(&mut bench, USER + user, 100 * (user + 1) + process, first..first + 32);
        }
    }
    for user in 3..32 {
        let first = 2000 + 4 * user;
        assert_eq!(opens(&mut bench, USER + user, 1000 + user, first..first + 4), 4, "user {user}");
    }
    assert_eq!(opens(&mut bench, 0, 2000, 4000..4064), 64);
}

#[test]
fn a_user_with_many_claims_leaves_some_for_others() {
    let mut bench = Bench::new("");
    let mut open = |pid, uid| {
        let id = bench.0.admit(&Peer::unknown(pid, uid), &hello(0), None).unwrap().id;
        let wanted = |priority| OpenClaim {
            kind: PacketKind::OpenClaim as u32,
            device: device_key(0, 1, 0, 0),
            stream_priority: priority,
            ..OpenClaim::new_zeroed()
        };
        (0..64).filter(|priority| bench.0.open(id, &wanted(*priority)).is_ok()).count()
    };
    let taken: usize = (1..=64).map(|pid| open(pid, USER)).sum();
    assert_eq!(taken, 1856, "everything that is not guaranteed to others");
    assert_eq!((open(100, USER + 1), open(101, 0)), (64, 64));
}

/// How many sources an epoll instance has.
fn sources(instance: &OwnedFd) -> usize {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", instance.as_raw_fd())).unwrap();
    info.lines().filter(|line| line.starts_with("tfd:")).count()
}

/// The process can keep the kernel from changing an instance that it has: a thread that tries to change it waits.
#[test]
fn an_epoll_instance_that_was_given_away_is_not_changed() {
    let mut bench = Bench::new("");
    let id = bench.admit(1, hello(0));
    let mut instances = Vec::new();
    for (bus, is_new) in [(1, true), (1, false), (2, true), (1, false), (3, true)] {
        let wake = bench.open_with_wake(id, bus).1;
        assert_eq!(wake.is_some(), is_new, "device {bus}");
        instances.extend(wake);
        let expected: Vec<_> = (1..=instances.len()).collect();
        assert_eq!(instances.iter().map(sources).collect::<Vec<_>>(), expected);
    }
}

/// The device may have another index by then, or another device its index.
#[test]
fn a_process_that_uses_a_device_again_is_told_of_it_again() {
    let mut bench = Bench::new("");
    let id = bench.admit(1, hello(0));
    let (claim, first) = bench.open_with_wake(id, 1);
    bench.report(id, claim, Report::Close);
    let (_, second) = bench.open_with_wake(id, 1);
    assert_eq!((first.map(|wake| sources(&wake)), second.map(|wake| sources(&wake))), (Some(1), Some(1)));
}

#[test]
fn a_user_that_begins_to_use_devices_again_and_again_is_no_longer_woken_and_others_are() {
    let mut bench = Bench::new("");
    let mut given = 0;
    for _ in 0..=wakes::AT_ONCE + 16 {
        let id = bench.admit(1, hello(0));
        let (opened, wake) = bench.open_with_wake(id, 1);
        given += u64::from(wake.is_some());
        assert_ne!(opened.brings & Opened::GATE, 0);
        bench.0.leave(id);
    }
    let all = wakes::AT_ONCE;
    // It gets some more while this runs.
    assert!((all..all + 16).contains(&given), "{given}");
    let other = bench.0.admit(&Peer::unknown(2, USER + 1), &hello(0), None).unwrap().id;
    assert!(bench.open_with_wake(other, 1).1.is_some());
}
