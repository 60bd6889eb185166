//! `gcn3-device`: the compute units of the stand-in GPU (`tests/vm/gpu/fakegpu.py`), as a process of its own.
//!
//! Reads one command a line from standard input, with numbers in decimal:
//!
//! | command | meaning | answer |
//! | --- | --- | --- |
//! | `vram FILE SIZE BASE NANOSECONDS` | the device's memory, its address there, and when the device began (Unix time) | `ok` |
//! | `map ADDRESS SIZE FILE OFFSET` | memory of the guest at a bus address | `ok` |
//! | `unmap ADDRESS SIZE` | no memory there any more | `ok` |
//! | `run ID TABLES BITS PACKET QUEUE` | run the dispatch packet of a queue, both by virtual address | see below |
//! | `stop ID` | end that run where it is | none |
//!
//! `FAKEGPU_SLOWER`, `FAKEGPU_TIME` and `FAKEGPU_LIST` are in `clock.rs`.
//!
//! A run ends with one of `done ID INSTRUCTIONS`, `fault ID TEXT`, `memory ID TEXT` (an address without memory), `scratch ID` (the
//! queue has too little private memory) or `stopped ID`. Before that it may say `interrupt ID NUMBER`.

mod clock;
mod mapped;
mod translation;

use std::collections::HashMap;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, SystemTime};

use clock::{Clock, Executed};
use mapped::Mapped;
use translation::{Memories, Tables, View};
use xsched_gcn3::{Cause, Isa, Launch, LaunchError, Memory, Run, Scratch, Step, Unmapped};

/// Instructions after which a run looks for orders, and forgets translations.
const SLICE: u64 = 50_000;

/// How long a run rests whose waves only sleep.
const REST: Duration = Duration::from_micros(200);

/// The memories, which runs use and commands change.
#[derive(Debug)]
struct Shared {
    memories: RwLock<Memories>,
    clock: Clock,
}

/// A run to begin.
#[derive(Clone, Copy, Debug)]
struct Order {
    id: u64,
    tables: Tables,
    packet: u64,
    queue: u64,
}

/// Prints an answer; the reader may be gone, which ends this process soon.
fn answer(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// Reads the launch of a packet from the packet and its queue's descriptor.
fn launch(order: Order, memory: &mut dyn Memory) -> Result<Launch, Unmapped> {
    let mut packet = [0; 64];
    memory.read(order.packet, &mut packet)?;
    // The fields of amd_queue_t.
    let field = |memory: &mut dyn Memory, at: u64| memory.read_u32(order.queue.wrapping_add(at));
    let mut resource = [0; 4];
    for (word, at) in resource.iter_mut().zip((144..).step_by(4)) {
        *word = field(memory, at)?;
    }
    Ok(Launch {
        isa: Isa::Gfx8,
        packet,
        packet_address: order.packet,
        queue_address: order.queue,
        scratch: Scratch {
            base: memory.read_u64(order.queue.wrapping_add(160))?,
            size: memory.read_u64(order.queue.wrapping_add(168))?,
            resource,
        },
        apertures: [field(memory, 64)?, field(memory, 68)?],
    })
}

/// Executes a packet; returns what to answer.
fn execute(order: Order, shared: &Shared, stop: &AtomicBool) -> String {
    let id = order.id;
    let arrived = shared.clock.now();
    let mut has_waited = false;
    let mut run = None;
    let (end, done) = loop {
        if stop.load(Ordering::Relaxed) {
            return format!("stopped {id}");
        }
        let step = {
            let memories = shared.memories.read().unwrap_or_else(PoisonError::into_inner);
            let mut view = View::new(&memories, order.tables, &shared.clock);
            let run = match &mut run {
                Some(run) => run,
                None => match begin(order, &mut view) {
                    Ok(begun) => run.insert(begun),
                    Err(LaunchError::Scratch { .. }) => return format!("scratch {id}"),
                    Err(error) => return format!("fault {id} {error}"),
                },
            };
            let step = run.step(&mut view, SLICE);
            for number in run.interrupts() {
                answer(&format!("interrupt {id} {number}"));
            }
            match step {
                Ok(Step::Done) => {
                    let process = order.tables.base;
                    let ready = if has_waited { shared.clock.now() } else { arrived };
                    match shared.clock.end(Executed { process, arrived, ready, waves: run.waves() }) {
                        Ok(end) => break (end, format!("done {id} {}", run.executed())),
                        Err(error) => return format!("fault {id} {error}"),
                    }
                }
                Ok(step) => step,
                Err(fault) if matches!(fault.cause, Cause::Memory(_)) => {
                    return format!("memory {id} {fault}");
                }
                Err(fault) => return format!("fault {id} {fault}"),
            }
        };
        // The lock is free here, for commands that change the memories.
        match step {
            Step::Waits => {
                has_waited = true;
                thread::sleep(REST);
            }
            _ => thread::yield_now(),
        }
    };
    while let Some(left) = shared.clock.until(end) {
        if stop.load(Ordering::Relaxed) {
            return format!("stopped {id}");
        }
        thread::sleep(left.min(REST));
    }
    done
}

fn begin(order: Order, memory: &mut dyn Memory) -> Result<Run, LaunchError> {
    let launch = launch(order, memory)?;
    Run::new(launch, memory)
}

/// The words of a command after its name.
struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn text(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "the command is too short".into())
    }

    fn number(&mut self) -> Result<u64, String> {
        let text = self.text()?;
        text.parse().map_err(|error| format!("{text}: {error}"))
    }
}

/// The device, once its memory is known.
#[derive(Debug, Default)]
struct Device {
    shared: Option<Arc<Shared>>,
    stops: HashMap<u64, Arc<AtomicBool>>,
}

impl Device {
    fn shared(&self) -> Result<&Arc<Shared>, String> {
        self.shared.as_ref().ok_or_else(|| "the device has no memory yet".into())
    }

    fn obey(&mut self, line: &str) -> Result<(), String> {
        let mut words = Words(line.split_ascii_whitespace());
        let map = |path: &str, offset, size| {
            Mapped::new(Path::new(path), offset, size).map_err(|error| format!("{path}: {error}"))
        };
        match words.text()? {
            "vram" => {
                let path = words.text()?;
                let vram = map(path, 0, words.number()? as usize)?;
                let memories = RwLock::new(Memories::new(vram, words.number()?));
                let begin = SystemTime::UNIX_EPOCH + Duration::from_nanos(words.number()?);
                let clock = Clock::from_environment(begin)?;
                self.shared = Some(Arc::new(Shared { memories, clock }));
                answer("ok");
            }
            "map" => {
                let (address, size, path) = (words.number()?, words.number()?, words.text()?);
                let memory = map(path, words.number()?, size as usize)?;
                let shared = self.shared()?;
                shared.memories.write().unwrap_or_else(PoisonError::into_inner).add(address, memory);
                answer("ok");
            }
            "unmap" => {
                let (address, size) = (words.number()?, words.number()?);
                let shared = self.shared()?;
                shared.memories.write().unwrap_or_else(PoisonError::into_inner).remove(address, size);
                answer("ok");
            }
            "run" => {
                let id = words.number()?;
                let tables = Tables { base: words.number()?, block_bits: words.number()? as u32 & 31 };
                let order = Order { id, tables, packet: words.number()?, queue: words.number()? };
                self.start(order)?;
            }
            "stop" => {
                if let Some(stop) = self.stops.remove(&words.number()?) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            other => return Err(format!("no command `{other}`")),
        }
        Ok(())
    }

    fn start(&mut self, order: Order) -> Result<(), String> {
        let shared = Arc::clone(self.shared()?);
        // Only this and the run's thread know a flag: with one owner, the run has ended.
        self.stops.retain(|_, stop| Arc::strong_count(stop) > 1);
        let stop = Arc::new(AtomicBool::new(false));
        self.stops.insert(order.id, Arc::clone(&stop));
        thread::Builder::new()
            .name(format!("run-{}", order.id))
            .spawn(move || answer(&execute(order, &shared, &stop)))
            .map_err(|error| error.to_string())?;
        Ok(())
    }
}

fn main() -> ExitCode {
    let mut device = Device::default();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if let Err(error) = device.obey(&line) {
            eprintln!("gcn3-device: {line}: {error}");
            return ExitCode::FAILURE;
        }
    }
    if let Some(complaint) = device.shared.and_then(|shared| shared.clock.complaint()) {
        eprintln!("gcn3-device: {complaint}");
    }
    ExitCode::SUCCESS
}
