//! Streams' queues on private devices.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;

/// Longer than a thread of these tests is kept from running on a busy machine.
const LONG_NS: u64 = 500_000_000;

fn queue(device: &Arc<Device>) -> Queue {
    Queue::new(0, Arc::clone(device), 0)
}

#[test]
fn commands_run_in_order() {
    let queue = queue(&Device::private(0));
    let log = Arc::new(Mutex::new(Vec::new()));
    for number in 0..100 {
        let log = Arc::clone(&log);
        queue.submit(Command::transfer(move || log.lock().unwrap().push(number)));
    }
    queue.submit(Command::marker()).wait();
    assert_eq!(*log.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn back_to_back_kernels_leave_no_gap_on_the_timeline() {
    let queue = queue(&Device::private(0));
    let (gate, open) = Command::gate();
    queue.submit(gate);
    let spans: Vec<_> = (0..20).map(|_| queue.submit(Command::kernel(300_000, || ()))).collect();
    drop(open);
    let spans: Vec<Span> = spans.iter().map(|c| c.wait()).collect();
    for pair in spans.windows(2) {
        assert_eq!(pair[1].start_ns, pair[0].end_ns);
    }
    assert!(clock::now_ns() >= spans[19].end_ns, "a kernel is not finished before its time");
}

#[test]
fn a_dependency_is_awaited() {
    let device = Device::private(0);
    let (first, second) = (queue(&device), queue(&device));
    let value = Arc::new(AtomicU32::new(0));
    let set = {
        let value = Arc::clone(&value);
        move || value.store(1, Ordering::SeqCst)
    };
    let seen = Arc::new(AtomicU32::new(9));
    let before = first.submit(Command::kernel(2_000_000, set));
    let read = {
        let (value, seen) = (Arc::clone(&value), Arc::clone(&seen));
        move || seen.store(value.load(Ordering::SeqCst), Ordering::SeqCst)
    };
    let mut command = Command::transfer(read);
    command.waits.push(Arc::clone(&before));
    let after = second.submit(command).wait();
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    assert!(after.start_ns >= before.wait().end_ns);
}

#[test]
fn a_panicking_command_still_finishes() {
    let queue = queue(&Device::private(0));
    queue.submit(Command::transfer(|| panic!("expected by this test"))).wait();
    queue.submit(Command::marker()).wait();
}

#[test]
fn kernels_that_fit_overlap_and_others_alternate() {
    let device = Device::private(0);
    let (first, second) = (queue(&device), queue(&device));
    let half = Work::Kernel { units: device.compute_units() / 2, duration_ns: LONG_NS };
    let spans =
        [&first, &second].map(|queue| queue.submit(Command::on_device(half, || ()))).map(|c| c.wait());
    assert!(spans[1].start_ns < spans[0].end_ns, "{spans:?}");
    let spans =
        [&first, &second].map(|queue| queue.submit(Command::kernel(2_000_000, || ()))).map(|c| c.wait());
    assert!(spans[1].start_ns >= spans[0].end_ns, "{spans:?}");
}

#[test]
fn copies_go_beside_kernels() {
    let device = Device::private(0);
    let (first, second) = (queue(&device), queue(&device));
    let kernel = first.submit(Command::kernel(LONG_NS, || ()));
    let copy = Work::Copy { is_from_device: false, duration_ns: 1_000_000 };
    let copied = second.submit(Command::on_device(copy, || ())).wait();
    assert!(copied.end_ns < kernel.wait().end_ns);
}

#[test]
fn streams_beyond_the_number_of_hardware_queues_share_them() {
    let device = Device::private(0);
    let queues: Vec<_> = (0..64).map(|_| queue(&device)).collect();
    let small = Work::Kernel { units: 1, duration_ns: 1_000_000 };
    let (gate, open) = Command::gate();
    queues[0].submit(gate);
    let completions: Vec<_> =
        queues.iter().map(|queue| queue.submit(Command::on_device(small, || ()))).collect();
    drop(open);
    let spans: Vec<Span> = completions.iter().map(|completion| completion.wait()).collect();
    let most = spans
        .iter()
        .map(|span| spans.iter().filter(|o| (o.start_ns..o.end_ns).contains(&span.start_ns)).count());
    assert!(most.max().unwrap() <= crate::config::get().queues);
}

#[test]
fn a_full_queue_blocks_its_submitter_and_loses_nothing() {
    let queue = queue(&Device::private(0));
    let count = Arc::new(AtomicU32::new(0));
    let (gate, open) = Command::gate();
    queue.submit(gate);
    let is_open = Arc::new(AtomicBool::new(false));
    let opens = Arc::clone(&is_open);
    let opener = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        opens.store(true, Ordering::SeqCst);
        drop(open);
    });
    for expected in 0..PENDING_MAX as u32 + 10 {
        let count = Arc::clone(&count);
        queue.submit(Command::transfer(move || {
            assert_eq!(count.fetch_add(1, Ordering::Relaxed), expected);
        }));
    }
    assert!(is_open.load(Ordering::SeqCst), "a full queue blocks until the gate opens");
    queue.submit(Command::marker()).wait();
    assert_eq!(count.load(Ordering::Relaxed), PENDING_MAX as u32 + 10);
    opener.join().unwrap();
}

/// As many queues as there are hardware queues, and one more that shares the first's.
fn sharing(device: &Arc<Device>) -> (Vec<Queue>, Queue) {
    let own: Vec<_> = (0..crate::config::get().queues)
        .map(|_| {
            let queue = queue(device);
            queue.submit(Command::marker()).wait();
            queue
        })
        .collect();
    let shares = queue(device);
    shares.submit(Command::marker()).wait();
    let [first, last] = [&own[0], &shares].map(|queue| &queue.shared.hw_queues().compute);
    assert!(Arc::ptr_eq(first, last));
    (own, shares)
}

fn small(duration_ns: u64) -> Command {
    Command::on_device(Work::Kernel { units: 1, duration_ns }, || ())
}

#[test]
fn a_wait_for_the_host_blocks_streams_that_share_the_hardware_queue() {
    let (own, shares) = sharing(&Device::private(0));
    let (gate, open) = Command::gate();
    let opened = own[0].submit(gate);
    let (kernel, marker) = (shares.submit(small(1000)), shares.submit(Command::marker()));
    let copy = Work::Copy { is_from_device: false, duration_ns: 1000 };
    queue(&own[0].shared.device).submit(Command::on_device(copy, || ())).wait();
    own[1].submit(small(1000)).wait();
    assert_eq!((kernel.poll(), marker.poll()), (None, None));
    drop(open);
    assert!(kernel.wait().start_ns >= opened.wait().end_ns);
    marker.wait();
}

#[test]
fn a_wait_for_another_stream_blocks_streams_that_share_the_hardware_queue() {
    let (own, shares) = sharing(&Device::private(0));
    let long = own[1].submit(small(5_000_000));
    own[0].submit(Command { waits: vec![Arc::clone(&long)], ..Command::marker() });
    let behind = shares.submit(small(1000)).wait();
    assert!(behind.start_ns >= long.wait().end_ns);
}

#[test]
fn a_kernel_behind_a_copy_blocks_streams_that_share_the_hardware_queue() {
    let (own, shares) = sharing(&Device::private(0));
    let copy = Work::Copy { is_from_device: false, duration_ns: LONG_NS };
    let copied = own[0].submit(Command::on_device(copy, || ()));
    let beside = shares.submit(small(1000));
    assert!(beside.wait().start_ns < copied.wait().end_ns, "a copy alone blocks no other stream");
    let copied = own[0].submit(Command::on_device(copy, || ()));
    own[0].submit(small(1000));
    assert!(shares.submit(small(1000)).wait().start_ns >= copied.wait().end_ns);
}

#[test]
fn a_marker_ends_after_the_packets_before_it_in_its_hardware_queue() {
    let (own, shares) = sharing(&Device::private(0));
    let long = own[0].submit(small(5_000_000));
    assert!(shares.submit(Command::marker()).wait().end_ns >= long.wait().end_ns);
}

#[test]
fn a_new_stream_gets_the_hardware_queue_with_the_fewest_streams() {
    let device = Device::private(0);
    let (mut own, shares) = sharing(&device);
    let left = own.remove(2);
    let free = Arc::clone(&left.shared.hw_queues().compute);
    drop(left);
    while free.streams() > 0 {
        std::thread::yield_now(); // its thread is about to end
    }
    assert!(Arc::ptr_eq(&queue(&device).shared.hw_queues().compute, &free));
    drop(shares);
}

#[test]
fn streams_that_wait_for_each_other_all_finish_in_the_order_of_their_hardware_queues() {
    let (device, seed) = (Device::private(0), 0x5eed_u64);
    let queues: Vec<_> = (0..11).map(|_| queue(&device)).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut next = |bound: usize| random.usize(..bound);
    let mut submitted: Vec<(usize, bool, Arc<Completion>)> = Vec::new();
    for _ in 0..2000 {
        let queue = next(queues.len());
        let mut command = match next(5) {
            0 => Command::transfer(|| ()),
            1 => Command::on_device(Work::Copy { is_from_device: next(2) == 0, duration_ns: 500 }, || ()),
            2 => Command::marker(),
            _ => small(1000),
        };
        let is_copy = matches!(command.work, Some(Work::Copy { .. }));
        if next(3) == 0 && !submitted.is_empty() {
            command.waits.push(Arc::clone(&submitted[next(submitted.len())].2));
        }
        submitted.push((queue, is_copy, queues[queue].submit(command)));
    }
    for hw_queue in queues.iter().map(|queue| &queue.shared.hw_queues().compute).take(4) {
        let mut free_ns = 0;
        let in_it = |queue: usize| Arc::ptr_eq(&queues[queue].shared.hw_queues().compute, hw_queue);
        for (_, _, completion) in submitted.iter().filter(|(queue, is_copy, _)| !is_copy && in_it(*queue)) {
            let span = completion.wait();
            assert!(span.start_ns >= free_ns, "{span:?} before {free_ns}, seed {seed:#x}");
            free_ns = span.end_ns;
        }
    }
}
