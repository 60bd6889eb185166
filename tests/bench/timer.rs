//! How late the controller reaches the scheduler's deadlines, compared with a timer of tokio.
//!
//! In alternation within each round, on one thread as in the controller. Deadlines are a time slice and less away.

use std::{error::Error, time::Duration};

use xsched_controller::Timer;
use xsched_symbols::now_ns;
use xsched_tests::bench::{Paired, Row, Samples};

const BENCH: &str = "timer";
const ROUNDS: usize = 7;
/// Deadlines of each kind in a round.
const DEADLINES: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rounds = runtime.block_on(measure())?;
    for fraction in [0.5, 0.99] {
        let late = |times: &[f64]| Samples::new(times.to_vec()).quantile(fraction);
        let pairs: Vec<_> = rounds.iter().map(|[usual, own]| (late(usual), late(own))).collect();
        let metric = format!("a deadline is reached late, p{:.0}", 100.0 * fraction);
        Row::compared(BENCH, metric, "us", &Paired::new(&pairs)).print()?;
    }
    Ok(())
}

/// By round: by how many microseconds deadlines were missed with each of the two.
async fn measure() -> Result<Vec<[Vec<f64>; 2]>, Box<dyn Error>> {
    let mut timer = Timer::new()?;
    let mut random = fastrand::Rng::with_seed(0x5eed);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut late = [const { Vec::new() }; 2];
        for _ in 0..DEADLINES {
            let ahead_ns = random.u64(100_000..4_000_000);
            let due_ns = now_ns() + ahead_ns;
            tokio::time::sleep(Duration::from_nanos(ahead_ns)).await;
            late[0].push((now_ns() - due_ns) as f64 / 1e3);
            let due_ns = now_ns() + ahead_ns;
            timer.reach(Some(due_ns)).await?;
            late[1].push((now_ns() - due_ns) as f64 / 1e3);
        }
        rounds.push(late);
    }
    Ok(rounds)
}
