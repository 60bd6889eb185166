//! Launches of CUDA kernels with and without the preloaded shim: time per launch in its caller, on a simulated libcuda that does next to
//! nothing.
//!
//! Each round starts `cuda_client` twice, natively and with the shim: alone, or under a controller beside another process that
//! has launched once and waits.

use std::{error::Error, process::Command};

use xsched_tests::artifacts::{cuda_shim, cuda_sim};
use xsched_tests::bench::{Paired, Row, alternate};
use xsched_tests::device_load::DeviceLoad;
use xsched_tests::serving::Serving;

const BENCH: &str = "cuda-shim";
const ROUNDS: usize = 11;

/// Pieces of 500 launches.
const LAUNCHES: &str = "launches 2000 0";

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = alternate(ROUNDS, || ns(&mut client()), || ns(shimmed(&mut client())))?;
    print(&rounds, "launch, alone: added".to_owned())?;
    beside("as urgent", "0")?;
    beside("more urgent", "10")
}

fn beside(than: &str, priority: &str) -> Result<(), Box<dyn Error>> {
    let controller = Serving::start("")?;
    let mut other = program("urgent 1 1 1 1");
    let other = shimmed(other.env(SOCKETS, controller.folder()).env("XSCHED_AUTO_XQUEUE_PRIORITY", priority));
    let _other = DeviceLoad::start(other)?;
    controller.wait_for_queues(1)?;
    let below = || {
        let mut client = client();
        let mut load = DeviceLoad::start(shimmed(client.env(SOCKETS, controller.folder())))?;
        controller.wait_for_queues(2)?;
        load.begin()?;
        found(load)
    };
    let rounds = alternate(ROUNDS, || ns(&mut client()), below)?;
    print(&rounds, format!("launch, beside an idle process that is {than}: added"))
}

fn print(rounds: &[(f64, f64)], metric: String) -> Result<(), Box<dyn Error>> {
    Ok(Row::added(BENCH, metric, "ns", &Paired::new(rounds)).print()?)
}

/// The time of a launch.
fn ns(client: &mut Command) -> Result<f64, Box<dyn Error>> {
    let mut load = DeviceLoad::start(client)?;
    load.begin()?;
    found(load)
}

fn found(load: DeviceLoad) -> Result<f64, Box<dyn Error>> {
    load.findings()?.get("ns").copied().ok_or_else(|| "the client said no time".into())
}

/// The variable by which processes find their controller.
const SOCKETS: &str = "XSCHED_SOCKET_DIR";

fn client() -> Command {
    program(LAUNCHES)
}

fn program(mode: &str) -> Command {
    let mut command = Command::new(cuda_sim().join("cuda_client"));
    command.args(mode.split(' ')).env("HIP_SIM_NULL", "1");
    for variable in ["LD_PRELOAD", "XSCHED_SCHEDULER", "XSCHED_TEST_SUSPEND"] {
        command.env_remove(variable);
    }
    command
}

fn shimmed(command: &mut Command) -> &mut Command {
    command.env("LD_PRELOAD", cuda_shim())
}
