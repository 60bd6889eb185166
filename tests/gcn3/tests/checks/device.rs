//! The program `gcn3-device`, with files in place of the guest's memory and the device's.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use xsched_gcn3::{APERTURES, Isa, Launch, Memory as _};

use crate::support::{BASE, Device};

/// Where the device's memory begins in its address space, and in it the page tables.
const VRAM: u64 = 0xf4_0000_0000;
const DIRECTORY: u64 = 0x1_0000;
const TABLES: u64 = 0x2_0000;

/// Bus address of the guest's memory.
const GUEST: u64 = 0x8000_0000;

struct Process {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// What the kernels see at `BASE`.
    guest: File,
    _folder: tempfile::TempDir,
}

impl Process {
    /// Starts the program with the memory of a device, whose pages the tables map to the guest's.
    fn new(device: &Device) -> Self {
        Self::with(device, &[])
    }

    /// The same with these variables.
    fn with(device: &Device, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (vram, guest) = (folder.path().join("vram"), folder.path().join("guest"));
        let bytes = device.memory.bytes();
        fs::write(&guest, bytes).unwrap();
        let mut tables = vec![0; 1 << 20];
        let mut put = |at: u64, entry: u64| tables[at as usize..][..8].copy_from_slice(&entry.to_le_bytes());
        for page in 0..bytes.len() as u64 / 4096 {
            let virtual_page = BASE / 4096 + page;
            let (block, within) = (virtual_page >> 9, virtual_page & 511);
            put(DIRECTORY + block * 8, (VRAM + TABLES + block * 4096) | 1);
            // Readable, writable, in the guest's memory.
            put(TABLES + block * 4096 + within * 8, (GUEST + page * 4096) | 0x63);
        }
        fs::write(&vram, tables).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_gcn3-device"))
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let file = File::options().read(true).write(true).open(&guest).unwrap();
        let mut process = Self { child, commands, answers, guest: file, _folder: folder };
        process.tell(&format!("vram {} {} {VRAM} 0", vram.display(), 1 << 20));
        process.tell(&format!("map {GUEST} {} {} 0", bytes.len(), guest.display()));
        assert_eq!([process.hear(), process.hear()], ["ok", "ok"]);
        process
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    fn hear(&mut self) -> String {
        self.answers.next().unwrap().unwrap()
    }

    fn run(&mut self, id: u32, launch: &Launch) {
        let tables = VRAM + DIRECTORY;
        self.tell(&format!("run {id} {tables} 9 {} {}", launch.packet_address, launch.queue_address));
    }

    fn dword(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        self.guest.read_exact_at(&mut bytes, address - BASE).unwrap();
        u32::from_le_bytes(bytes)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A device with a kernel that waits for a flag, the flag's address and that of its results.
fn waiting() -> (Device, Launch, u64, u64) {
    let mut device = Device::new(Isa::Gfx8, "groups");
    let flag = device.buffer([[0; 4]]);
    let to = device.buffer((0..64).map(|_| [0; 4]));
    let launch = device.launch("waits", [64, 1, 1], [64, 1, 1]);
    (device, launch, flag, to)
}

#[test]
fn a_kernel_runs_in_memory_that_other_processes_share() {
    let (device, launch, flag, to) = waiting();
    let mut process = Process::new(&device);
    process.run(7, &launch);
    // While it waits, others are answered; then this process writes what it waits for.
    process.tell("unmap 4096 4096");
    assert_eq!(process.hear(), "ok");
    process.guest.write_all_at(&40_u32.to_le_bytes(), flag - BASE).unwrap();
    let answer = process.hear();
    assert!(answer.starts_with("done 7 "), "{answer}");
    let results: Vec<u32> = (0..64).map(|lane| process.dword(to + lane * 4)).collect();
    assert_eq!(results, (40..104).collect::<Vec<_>>());
}

#[test]
fn a_kernel_lasts_as_long_as_the_model_says_on_a_slow_clock() {
    let (device, launch, flag, _) = waiting();
    let mut process = Process::with(&device, &[("FAKEGPU_TIME", "1 1"), ("FAKEGPU_SLOWER", "1000")]);
    process.guest.write_all_at(&1_u32.to_le_bytes(), flag - BASE).unwrap();
    let begin = Instant::now();
    process.run(1, &launch);
    let answer = process.hear();
    let instructions: u32 = answer.strip_prefix("done 1 ").unwrap().parse().unwrap();
    // Four cycles each, of a microsecond of the device: a millisecond of this machine.
    assert!(begin.elapsed() >= Duration::from_millis(4) * instructions, "{answer}");
}

#[test]
fn a_kernel_that_waits_takes_no_time_before_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    let (device, launch, flag, _) = waiting();
    let variables = [("FAKEGPU_TIME", "1 1"), ("FAKEGPU_LIST", list.to_str().unwrap())];
    let mut process = Process::with(&device, &variables);
    process.run(1, &launch);
    thread::sleep(Duration::from_millis(200));
    // The device's clock began with Unix's.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    process.guest.write_all_at(&1_u32.to_le_bytes(), flag - BASE).unwrap();
    let answer = process.hear();
    let all: u64 = answer.strip_prefix("done 1 ").unwrap().parse().unwrap();
    let list = fs::read_to_string(list).unwrap();
    let numbers: Vec<u64> =
        list.trim_end().split(' ').skip(1).map(|number| number.parse().unwrap()).collect();
    let &[arrived, begin, end, instructions] = &numbers[..] else { panic!("{list}") };
    assert!(arrived < begin && now < begin, "{now}: {list}");
    assert_eq!(end - begin, instructions * 4000, "{list}");
    assert!((1..64).contains(&instructions) && instructions < all, "{all}: {list}");
}

#[test]
fn a_kernel_that_waits_is_stopped_while_another_runs_on() {
    let (device, launch, flag, _) = waiting();
    let mut process = Process::new(&device);
    process.run(1, &launch);
    process.run(2, &launch);
    process.tell("stop 1");
    assert_eq!(process.hear(), "stopped 1");
    process.guest.write_all_at(&1_u32.to_le_bytes(), flag - BASE).unwrap();
    let answer = process.hear();
    assert!(answer.starts_with("done 2 "), "{answer}");
}

#[test]
fn what_cannot_run_is_answered_with_its_reason() {
    let mut device = Device::new(Isa::Gfx8, "basic");
    device.argument(&0x1234_0000_0000_u64.to_le_bytes());
    device.buffer((0..64).map(|_| [0; 4]));
    let launch = device.launch("reads_nothing", [64, 1, 1], [64, 1, 1]);
    let mut process = Process::new(&device);
    process.run(1, &launch);
    let answer = process.hear();
    assert!(answer.starts_with("memory 1 flat_load_dword v"), "{answer}");
    assert!(answer.ends_with("no memory at 0x123400000000"), "{answer}");

    // The queue's descriptor names no private memory here.
    let mut device = Device::new(Isa::Gfx8, "basic");
    let from = device.buffer((0..64).map(|_| [0; 4]));
    device.argument(&from.to_le_bytes());
    let launch = device.launch("private_array", [64, 1, 1], [64, 1, 1]);
    assert_eq!(device.memory.read_u32(launch.queue_address + 64), Ok(APERTURES[0]));
    let mut process = Process::new(&device);
    process.run(2, &launch);
    assert_eq!(process.hear(), "scratch 2");

    // Without the guest's memory, not even the packet is there.
    process.tell(&format!("unmap {GUEST} {}", 1_u64 << 40));
    assert_eq!(process.hear(), "ok");
    process.run(3, &launch);
    let answer = process.hear();
    assert!(answer.starts_with("fault 3 ") && answer.contains("no memory at"), "{answer}");
}
