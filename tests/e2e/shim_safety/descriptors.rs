//! Programs that close, replace or count descriptors, while the shim has some open: the program's own files are never touched,
//! and the shim does without.

use std::process::Command;

use xsched_harness::needs;
use xsched_tests::artifacts::shim;
use xsched_tests::small_controller::SmallController;
use xsched_tests::tracer::run;

use crate::python;

/// What the programs have in common: work for the device, and files that only the program may touch.
const PROGRAM: &str = "
import resource
folder = sys.argv[2]
stream, memory = new(hip.hipStreamCreate), new(hip.hipMalloc, size)
def work(seconds):
    end, count = time.time() + seconds, 0
    while time.time() < end:
        ok(hip.hipMemsetAsync(memory, count % 256, size, stream))
        ok(hip.hipStreamSynchronize(stream))
        count += 1
    assert count > 10, count
def file(name): return os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT)
def sleeps():
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(1)
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 0.3, used
work(0.3)
";

/// Runs a program under a controller, and returns how many connections it made.
#[track_caller]
fn connections(script: &str, start: impl FnOnce(&mut Command)) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let controller = SmallController::start(folder.path()).unwrap();
    let mut command = python(&format!("{PROGRAM}{script}"));
    command.arg(folder.path()).env("LD_PRELOAD", shim()).env("XSCHED_SOCKET_DIR", folder.path());
    start(&mut command);
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    controller.processes()
}

#[needs(nothing)]
fn a_program_that_closes_everything_loses_nothing_and_is_scheduled_again() {
    let script = "
os.closerange(3, 70000)
own = [file(str(number)) for number in range(40)]
assert own == list(range(3, 43)), own
work(0.3)
sleeps()
work(0.6)
assert all(os.fstat(number).st_size == 0 for number in own)
assert all(os.path.samefile(number, os.path.join(folder, str(number - 3))) for number in own)
";
    let count = connections(script, |_| {});
    assert_eq!(count, 2, "it connects again");
}

#[needs(nothing)]
fn files_that_a_program_puts_onto_the_shims_numbers_are_neither_read_nor_written_nor_closed() {
    let script = "
data = file('data')
assert os.write(data, b'only mine') == 9
os.lseek(data, 0, 0)
reading, writing = os.pipe()
os.set_blocking(reading, False)
def check(numbers, own):
    assert all(os.path.sameopenfile(number, own) for number in numbers), (numbers, own)
    assert os.fstat(data).st_size == 9 and os.lseek(data, 0, 1) == 0
    assert os.read(reading, 99) == b'unread'
    os.write(writing, b'unread')
os.write(writing, b'unread')
for own in (data, reading, writing):
    numbers = [int(name) for name in os.listdir('/proc/self/fd') if int(name) > writing]
    numbers = [number for number in numbers if os.path.exists(f'/proc/self/fd/{number}')]
    assert len(numbers) >= 3, numbers
    for number in numbers: os.dup2(own, number)
    work(0.3)
    child = os.fork()
    if child == 0:
        try: check(numbers, own); os._exit(0)
        finally: os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    sleeps()
    work(0.4)
    check(numbers, own)
";
    assert_eq!(connections(script, |_| {}), 4, "it connects again each time");
}

#[needs(nothing)]
fn a_program_without_standard_streams_gets_their_numbers_for_its_files() {
    let script = "
own = [file(str(number)) for number in range(3)]
assert own == [0, 1, 2], own
work(0.3)
sleeps()
assert all(os.fstat(number).st_size == 0 for number in own)
";
    let without_streams = |command: &mut Command| {
        let program: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec python3 \"$@\" <&- >&- 2>&-", "sh"]).args(program);
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        *command = shell;
        command.env("XSCHED_LOG", "stderr").env("XSCHED_VERBOSE", "2");
    };
    assert_eq!(connections(script, without_streams), 1);
}
