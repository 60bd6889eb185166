use super::*;

/// A folder with the reports of both and the log.
fn folder(service: &str, batch: &str, log: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("service", service), ("batch", batch), ("executions", log)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

const BATCH: &str = "ready 8\n{\"wrong\":0,\"requests\":[]}\n";

/// Requests every 10 ms, of 1 ms each, beside kernels of 4 ms without a pause from 95 ms on; the last request takes 5 ms.
fn half_beside() -> Observed {
    let ms = |(from, to): (u64, u64)| (from * 1_000_000, to * 1_000_000);
    let last = |n| if n == 39 { 5 } else { 1 };
    Observed {
        requests: (0..40).map(|n| ms((10 * n, 10 * n + last(n)))).collect(),
        service: (0..40).map(|n| ms((10 * n, 10 * n + 1))).collect(),
        batch: (0..100).map(|n| ms((95 + 4 * n, 99 + 4 * n))).collect(),
    }
}

#[test]
fn a_run_consists_of_both_reports_and_the_devices_log() {
    let service = "ready 7\n{\"wrong\":0,\"cpu_us\":1.0,\"requests\":[[10,12,30]],\"children\":[0,0]}\n";
    let folder =
        folder(service, BATCH, "12 14 11 7 0 2 1 step\n20 25 11 8 0 3 1 step\n14 20 11 8 0 3 1 step\n");
    let observed = Observed::read(folder.path()).unwrap();
    let batch = vec![(14, 20), (20, 25)];
    assert_eq!(observed, Observed { requests: vec![(10, 30)], service: vec![(12, 14)], batch });
}

#[test]
fn lost_kernels_and_incomplete_reports_are_errors() {
    let lost = "ready 7\n{\"wrong\":2,\"requests\":[]}\n";
    let error = Observed::read(folder(lost, BATCH, "").path()).unwrap_err();
    assert_eq!(error.to_string(), "2 kernels were lost, repeated or reordered");
    let error = Observed::read(folder("ready 7\n", BATCH, "").path()).unwrap_err();
    assert!(error.to_string().ends_with("service is no report of a client"), "{error}");
}

#[test]
fn only_requests_beside_the_batch_job_count() {
    let figures = Figures::beside(&half_beside()).unwrap();
    assert_eq!(figures.requests(), 30, "those from 100 ms on");
    assert!((figures.latency_ms(50) - 1.0).abs() < 1e-9 && (figures.latency_ms(99) - 5.0).abs() < 1e-9);
    // They start at 95, 99, 103 ms and so on: one during the last request, at 391 ms.
    assert!((figures.between - 1.0 / 30.0).abs() < 1e-9, "{}", figures.between);
    assert!((figures.batch_kernel_ms - 4.0).abs() < 1e-9);
    assert!((figures.batch_rate - 250.0).abs() < 4.0, "{}", figures.batch_rate);
    assert!((figures.service_share - 0.1).abs() < 0.01, "{}", figures.service_share);
}

#[test]
fn kernels_between_are_those_that_start_during_a_request() {
    let requests: Vec<_> = (1..=20).map(|n| (100 * n, 100 * n + 50)).collect();
    // One runs already, two start, one starts as the request is done.
    let of_one =
        |n: u64| [(90, 100), (100, 120), (120, 150), (150, 160)].map(|(a, b)| (100 * n + a, 100 * n + b));
    let batch: Vec<_> = (0..20).flat_map(of_one).collect();
    let observed = Observed { service: requests.clone(), requests, batch };
    assert!((Figures::alone(&observed).unwrap().between - 2.0).abs() < 1e-9);
}

#[test]
fn a_handful_of_requests_is_too_few() {
    let mut observed = half_beside();
    observed.requests.truncate(25);
    let error = Figures::beside(&observed).unwrap_err();
    assert!(error.to_string().starts_with("only 15 requests of the service count"), "{error}");
}
