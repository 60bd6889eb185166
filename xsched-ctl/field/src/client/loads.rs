//! What the minimal client does with a device. Everything before `begin` is preparation; nothing of it is measured.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::device::{Device, Shape};
use super::libraries::Operation;
use super::trouble::Trouble;
use crate::speech::{Outcome, Series};

/// Something to launch.
type Launch<'a> = &'a dyn Fn() -> Result<(), Trouble>;

/// Kernels that a batch job launches ahead.
const AHEAD: usize = 16;
/// The largest number of samples of one kind that are kept.
const SAMPLES_MAX: usize = 20_000;

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn series(name: &str, mut samples: Vec<f64>) -> Series {
    for sample in &mut samples {
        *sample = (*sample * 1e4).round() / 1e4;
    }
    Series { name: name.to_owned(), samples }
}

/// Launches every kernel once.
pub(super) fn warm_up(device: &Device) -> Result<(), Trouble> {
    device.launch_nothing()?;
    device.launch_burn(Shape::Filling, 1)?;
    device.launch_burn(Shape::Small, 1)?;
    device.synchronize()
}

/// Launches that do not commute, and the word that they leave.
pub(super) fn steps(
    device: &Device,
    launches: u32,
    begin: impl Fn() -> Result<(), Trouble>,
) -> Result<Outcome, Trouble> {
    let mut expected = device.read_word()?;
    begin()?;
    let begun = Instant::now();
    for value in 0..launches {
        device.launch_step(value)?;
        expected = expected.wrapping_mul(5).wrapping_add(value);
    }
    device.synchronize()?;
    let took = begun.elapsed();
    if device.read_word()? != expected {
        return Err(Trouble::Wrong(1, 1));
    }
    let values = vec![("launches".to_owned(), launches.into()), ("ms".to_owned(), ms(took))];
    Ok(Outcome { values, ..Outcome::default() })
}

/// How long a kernel of this shape and length takes: the shortest of three.
fn burn_time(device: &Device, shape: Shape, count: u32) -> Result<Duration, Trouble> {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        device.launch_burn(shape, count)?;
        device.synchronize()?;
        best = best.min(begun.elapsed());
    }
    Ok(best)
}

/// Lengths of kernels: of a millisecond that fills the device, and of a tenth of one that does not.
pub(super) fn calibrate(
    device: &Device,
    begin: impl Fn() -> Result<(), Trouble>,
) -> Result<Outcome, Trouble> {
    begin()?;
    let filling = count_per_ms(device, Shape::Filling)?;
    let small = count_per_ms(device, Shape::Small)?;
    let values = vec![("filling_per_ms".to_owned(), filling), ("small_per_100us".to_owned(), small / 10.0)];
    Ok(Outcome { values, ..Outcome::default() })
}

/// Lengthens a kernel until it takes some milliseconds. Two lengths are compared, so the time of a launch is left out.
fn count_per_ms(device: &Device, shape: Shape) -> Result<f64, Trouble> {
    const LONG_ENOUGH: Duration = Duration::from_millis(5);
    let mut count = 1_000_u32;
    loop {
        let time = burn_time(device, shape, count)?;
        if time >= LONG_ENOUGH || count > u32::MAX / 16 {
            let (short, long) = (time, burn_time(device, shape, count * 4)?);
            if long < short * 2 {
                return Err(Trouble::Calibration { short_us: us(short), long_us: us(long) });
            }
            return Ok(f64::from(count) * 3.0 / ms(long.saturating_sub(short)));
        }
        count *= 2;
    }
}

/// What an urgent client asks for each time.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) kernels: u32,
    /// The length of each kernel.
    pub(super) count: u32,
}

/// Requests at a rate. Each is timed from its first launch to the end of its last kernel.
pub(super) fn urgent(
    device: &Device,
    request: Request,
    hz: f64,
    seconds: f64,
    begin: impl Fn() -> Result<(), Trouble>,
) -> Result<Outcome, Trouble> {
    /// The first requests meet others that have not all started.
    const LEFT_OUT_S: f64 = 0.5;
    let ask = || {
        (0..request.kernels).try_for_each(|_| device.launch_burn(Shape::Small, request.count))?;
        device.synchronize()
    };
    (0..5).try_for_each(|_| ask())?;
    begin()?;
    let start = Instant::now();
    let (mut samples, mut moments) = (Vec::new(), Vec::new());
    for number in 0_u32.. {
        let due = f64::from(number) / hz;
        // Where requests are late, the others end before the last is due.
        if due.max(start.elapsed().as_secs_f64()) >= seconds + LEFT_OUT_S || samples.len() == SAMPLES_MAX {
            break;
        }
        if let Some(left) = Duration::from_secs_f64(due).checked_sub(start.elapsed()) {
            sleep(left);
        }
        let begun = Instant::now();
        ask()?;
        if (begun - start).as_secs_f64() >= LEFT_OUT_S {
            samples.push(ms(begun.elapsed()));
            moments.push((begun - start).as_secs_f64());
        }
    }
    Ok(Outcome { series: vec![series("request", samples), series("at", moments)], ..Outcome::default() })
}

/// Kernels of one to three milliseconds that fill the device, some of them launched ahead.
pub(super) fn batch(
    device: &Device,
    count_per_ms: u32,
    seconds: f64,
    begin: impl Fn() -> Result<(), Trouble>,
) -> Result<Outcome, Trouble> {
    let events = (0..AHEAD).map(|_| device.event()).collect::<Result<Vec<_>, _>>()?;
    // The same kernels in every run.
    let mut random = fastrand::Rng::with_seed(1);
    begin()?;
    let start = Instant::now();
    let (mut kernels, mut work_ms) = (0_usize, 0.0);
    while start.elapsed().as_secs_f64() < seconds {
        let length_ms = 1.0 + 2.0 * random.f64();
        let event = events[kernels % AHEAD];
        if kernels >= AHEAD {
            device.wait_for(event)?;
        }
        device.launch_burn(Shape::Filling, (f64::from(count_per_ms) * length_ms) as u32)?;
        device.record(event)?;
        kernels += 1;
        work_ms += length_ms;
    }
    device.synchronize()?;
    let part = work_ms / ms(start.elapsed());
    let values = vec![("kernels".to_owned(), kernels as f64), ("part".to_owned(), part)];
    Ok(Outcome { values, ..Outcome::default() })
}

/// The host's time for a launch: hundreds of empty kernels, then a wait that is not counted.
pub(super) fn launch(
    device: &Device,
    seconds: f64,
    begin: impl Fn() -> Result<(), Trouble>,
) -> Result<Outcome, Trouble> {
    const IN_A_ROW: u32 = 200;
    begin()?;
    let start = Instant::now();
    let mut samples = Vec::new();
    while start.elapsed().as_secs_f64() < seconds && samples.len() < SAMPLES_MAX {
        let begun = Instant::now();
        (0..IN_A_ROW).try_for_each(|_| device.launch_nothing())?;
        samples.push(us(begun.elapsed()) / f64::from(IN_A_ROW));
        device.synchronize()?;
    }
    Ok(Outcome { series: vec![series("launch", samples)], ..Outcome::default() })
}

/// What an open gate before each kernel costs: empty kernels and short ones, with gates and without in turn.
pub(super) fn gate(
    device: &Device,
    count_of_20us: u32,
    seconds: f64,
    begin: impl Fn() -> Result<(), Trouble>,
) -> Result<Outcome, Trouble> {
    const IN_A_ROW: u32 = 500;
    let gate = device.gate()?;
    gate.pass()?;
    device.synchronize()?;
    begin()?;
    let empty = || device.launch_nothing();
    let short = || device.launch_burn(Shape::Small, count_of_20us);
    let nothing = || Ok(());
    let pass = || gate.pass();
    let kinds: [(&str, Launch<'_>, Launch<'_>); 4] = [
        ("empty kernels", &nothing, &empty),
        ("empty kernels, each behind an open gate", &pass, &empty),
        ("kernels of 20 us", &nothing, &short),
        ("kernels of 20 us, each behind an open gate", &pass, &short),
    ];
    let mut samples = kinds.map(|_| Vec::new());
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        for ((_, before, kernel), samples) in kinds.iter().zip(&mut samples) {
            let begun = Instant::now();
            for _ in 0..IN_A_ROW {
                before()?;
                kernel()?;
            }
            device.synchronize()?;
            samples.push(us(begun.elapsed()) / f64::from(IN_A_ROW));
        }
    }
    let series = kinds.iter().zip(samples).map(|((name, ..), samples)| series(name, samples)).collect();
    Ok(Outcome { series, ..Outcome::default() })
}

/// Waits, as a process that has used the device.
pub(super) fn idle(seconds: f64, begin: impl Fn() -> Result<(), Trouble>) -> Result<Outcome, Trouble> {
    begin()?;
    sleep(Duration::from_secs_f64(seconds));
    Ok(Outcome::default())
}

/// A library's call, again and again; its result is checked before and after.
pub(super) fn operation(
    device: &Device,
    operation: &dyn Operation,
    seconds: f64,
    begin: impl Fn() -> Result<(), Trouble>,
) -> Result<Outcome, Trouble> {
    let check = || match operation.wrong()? {
        (0, _) => Ok(()),
        (wrong, count) => Err(Trouble::Wrong(wrong, count)),
    };
    operation.launch()?;
    device.synchronize()?;
    check()?;
    begin()?;
    let start = Instant::now();
    let mut samples = Vec::new();
    while start.elapsed().as_secs_f64() < seconds && samples.len() < SAMPLES_MAX {
        let begun = Instant::now();
        operation.launch()?;
        device.synchronize()?;
        samples.push(ms(begun.elapsed()));
    }
    check()?;
    let facts = vec![("library".to_owned(), operation.library().to_owned())];
    Ok(Outcome { series: vec![series("call", samples)], facts, ..Outcome::default() })
}
