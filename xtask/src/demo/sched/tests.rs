use super::*;

/// The environment from what `cargo xtask test` has built.
fn stage() -> Stage {
    let [xsched_ctl, artifacts] = ["XSCHED_CTL", "XSCHED_ARTIFACTS"].map(|name| env::var_os(name).unwrap());
    Stage::new(xsched_ctl.as_ref(), &Path::new(&artifacts).join("apps")).unwrap()
}

#[test]
#[ignore = "needs cargo xtask test"]
fn the_batch_job_is_preempted_under_the_demos_controller_and_not_natively() {
    let stage = stage();
    let native = Figures::beside(&stage.run("native", Rights::Own, &beside("", "", 2)).unwrap()).unwrap();
    let controller = Controller::start(&stage, Rights::Own).unwrap();
    let scheduled = Figures::beside(&stage.run("scheduled", Rights::Own, &scheduled(2)).unwrap()).unwrap();
    drop(controller);
    // Hardware queues alternate: one kernel of the other's for each of the request's, however slow this machine is.
    assert!(native.between > 4.0, "{}", native.between);
    assert!(scheduled.between < native.between / 2.0, "{} of {}", scheduled.between, native.between);
    assert!(scheduled.batch_rate > 0.0);
}

#[test]
#[ignore = "needs cargo xtask test"]
fn a_failed_command_gives_no_figures() {
    let stage = stage();
    // No controller listens there.
    let error = stage.run("scheduled", Rights::Own, &scheduled(1)).unwrap_err();
    assert!(error.to_string().contains("ended with exit status: 69"), "{error}");
}

fn figures(latencies_ms: &[f64], between: f64, batch_rate: f64) -> Figures {
    Figures::given(latencies_ms.to_vec(), between, batch_rate)
}

#[test]
fn the_table_shows_gain_and_cost() {
    let table = Table {
        alone: figures(&[0.9; 60], 0.0, 500.0),
        native: figures(&[17.0; 60], 8.04, 480.0),
        scheduled: figures(&[2.1; 60], 0.3, 475.0),
    };
    assert_eq!(
        table.to_string(),
        "                                               alone    native  xsched-ctl
requests                                          60        60          60
request, p50                                  0.9 ms   17.0 ms      2.1 ms
request, p99                                  0.9 ms   17.0 ms      2.1 ms
batch kernels that start during a request          -       8.0         0.3
batch kernels a second                           500       480         475

Beside the batch job a request takes 16.1 ms longer than alone, under xsched-ctl 1.2 ms (p50);
one kernel of the batch job takes 2.0 ms.
The batch job keeps 95 % of its kernels a second, natively 96 %; the service needs 3 % of the device."
    );
}

#[test]
fn a_run_without_a_gain_is_reported_as_such() {
    let latencies = |longest: f64| [[1.0; 59].as_slice(), &[longest]].concat();
    let table = Table {
        alone: figures(&[0.9; 60], 0.0, 500.0),
        native: figures(&latencies(5.0), 8.0, 480.0),
        scheduled: figures(&latencies(6.0), 8.0, 480.0),
    };
    assert!(table.to_string().contains("NOT answered sooner than natively"), "{table}");
}
