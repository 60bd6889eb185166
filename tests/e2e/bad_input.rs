//! Every mistake gets a message that names its object, a hint, and its documented exit code.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, hip_sim, shim, xsched_ctl as binary};
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, Running, calls, run, wait_for_bytes, xsched_ctl};

#[track_caller]
fn assert_fails(outcome: &Outcome, code: i32, message: &str) {
    assert_eq!(outcome.code, code, "{}", outcome.stderr);
    assert!(outcome.stderr.contains(&format!("xsched-ctl: {message}")), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\nhint: "), "{}", outcome.stderr);
}

/// A pid that no process has: larger than the kernel's maximum.
const NO_PID: &str = "4194305";

#[needs(ROOT)]
fn no_such_process() {
    for verb in ["trace", "attach"] {
        let outcome = run(&mut xsched_ctl([verb, "--pid", NO_PID]));
        assert_fails(&outcome, 66, "no process has the id 4194305");
    }
}

#[needs(ROOT)]
fn a_process_without_hip() {
    let own = std::process::id().to_string();
    for verb in ["trace", "attach"] {
        let outcome = run(&mut xsched_ctl([verb, "--pid", &own]));
        assert_fails(&outcome, 66, &format!("process {own} (bad_input"));
        assert!(outcome.stderr.contains("uses neither HIP nor CUDA"), "{}", outcome.stderr);
    }
    // A container has no such thread, and another process may have the id.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        for arguments in [["trace", "--pid", "2"], ["doctor", "--pid", "2"]] {
            let outcome = run(&mut xsched_ctl(arguments));
            assert_fails(&outcome, 66, "process 2 cannot be inspected: it is a kernel thread");
        }
    }
}

#[needs(ROOT)]
fn a_file_that_is_not_a_runtime() {
    let dir = tempfile::tempdir().unwrap();
    for (file, message) in [
        ("/there/is/no/such.so", "`--runtime`: cannot open /there/is/no/such.so: "),
        ("/bin/true", "`--runtime`: /bin/true exports none of HIP's or CUDA's functions"),
        ("/etc/passwd", "`--runtime`: cannot read the symbols of /etc/passwd: "),
    ] {
        let outcome = run(xsched_ctl(["trace", "--runtime", file, "-o"]).arg(dir.path().join("x.perfetto")));
        assert_fails(&outcome, 66, message);
    }
}

#[needs(ROOT)]
fn not_root() {
    // A copy where the other user can reach it.
    let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
    let copy = dir.path().join("xsched-ctl");
    std::fs::copy(binary(), &copy).unwrap();
    let as_nobody = |arguments: &[&str]| {
        run(Command::new("setpriv").args(["--reuid", "nobody", "--clear-groups"]).arg(&copy).args(arguments))
    };
    let outcome = as_nobody(&["trace", "--", "true"]);
    assert_fails(&outcome, 77, "tracing is not permitted: missing CAP_BPF");
    let doctor = as_nobody(&["doctor"]);
    assert_eq!(doctor.code, 77, "{}", doctor.stdout);
    assert!(doctor.stdout.contains("privileges   missing"), "{}", doctor.stdout);
    let json = as_nobody(&["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&json.stdout).expect("it is one object");
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with(' '));
        lines.map(|line| line[..12].trim_end().to_owned()).collect()
    };
    let findings = found["findings"].as_array().expect("it is a list");
    let named: Vec<_> = findings.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(named, names(&doctor.stdout), "the same lines in the same order");
    let fields = ["name", "ok", "verdict", "detail", "remedy"];
    assert!(findings.iter().all(|one| fields.iter().all(|field| one.get(field).is_some())), "{found}");
    let privileges = findings.iter().find(|one| one["name"] == "privileges").unwrap();
    assert_eq!((&privileges["ok"], &privileges["verdict"]), (&false.into(), &"missing".into()));
    assert!(privileges["remedy"].as_str().unwrap().contains("sudo"), "{privileges}");
    assert_eq!((json.code, &found["tracing"]), (77, &false.into()));
    assert_eq!(as_nobody(&["doctor", "--json", "--pid", "1"]).code, 64);
}

#[needs(ROOT)]
fn a_command_that_is_missing_or_not_a_program() {
    let outcome = run(&mut xsched_ctl(["trace", "--", "no-such-command"]));
    assert_fails(&outcome, 127, "cannot run `no-such-command`: not found");
    let outcome = run(&mut xsched_ctl(["trace", "--", "/etc/hostname"]));
    assert_fails(&outcome, 126, "cannot run `/etc/hostname`: ");
}

/// tracefs is root's alone, and is not missing.
#[needs(ROOT)]
fn the_documented_capabilities_are_enough_and_a_missing_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let copy = dir.path().join("xsched-ctl");
    std::fs::copy(binary(), &copy).unwrap();
    let with = |capabilities: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "nobody", "--clear-groups"]).current_dir(&dir);
        command.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]).arg(&copy);
        run(command.args(arguments).env("LD_LIBRARY_PATH", hip_sim(6)))
    };
    let program = app("vector_add").display().to_string();
    let trace = ["trace", "-o", "f", "--", &program];
    let documented = "+bpf,+perfmon,+sys_ptrace,+dac_read_search";
    let outcome = with(documented, &trace);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("300 launches"), "{}", outcome.stderr);
    let fewer = "+bpf,+perfmon,+sys_ptrace";
    let outcome = with(fewer, &trace);
    assert_fails(
        &outcome,
        77,
        "cannot attach `task_new` to task/task_newtask: /sys/kernel/tracing may not be read",
    );
    assert!(outcome.stderr.contains("grant CAP_DAC_READ_SEARCH"), "{}", outcome.stderr);
    let doctor = with(fewer, &["doctor"]).stdout;
    assert!(doctor.contains("tracefs      reduced  /sys/kernel/tracing may not be read"), "{doctor}");
    assert!(doctor.contains("CAP_DAC_READ_SEARCH") && !doctor.contains("mount -t tracefs"), "{doctor}");
}

/// A shell that executes xsched-ctl after this.
fn after(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{script}; exec \"$@\""), "bash"]).arg(binary());
    command
}

#[needs(ROOT)]
fn limits_are_named_and_neither_the_kernel_nor_this_program_is_blamed() {
    let dir = tempfile::tempdir().unwrap();
    let (few, little) = ("this process may open too few files", "memory is short, or limited");
    let limits =
        [("ulimit -n 64", few), ("ulimit -n 32", few), ("ulimit -n 17", few), ("ulimit -v 200000", little)];
    for (limit, hint) in limits {
        let mut command = after(limit);
        let outcome = run(command.args(["trace", "-o", "f", "--"]).arg(app("vector_add")).current_dir(&dir));
        assert_eq!(outcome.code, 71, "{limit}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(&format!("\nhint: {hint}")), "{limit}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("the kernel"), "{limit}: {}", outcome.stderr);
    }
}

#[needs(ROOT)]
fn a_low_limit_of_open_files_is_raised_for_the_tracer_and_not_for_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let shim = shim().display().to_string();
    for verb in [&["trace", "-o", "f"][..], &["run", "--shim", &shim]] {
        let mut command = after("ulimit -S -n 48");
        command.args(verb).args(["--", "sh", "-c", "ulimit -S -n; ulimit -H -n"]).current_dir(&dir);
        let outcome = run(&mut command);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let hard = run(Command::new("sh").args(["-c", "ulimit -H -n"])).stdout;
        assert_eq!(outcome.stdout, format!("48\n{hard}"));
    }
}

/// That a process uses no GPU runtime helps only a user with the rights to trace it.
#[needs(ROOT)]
fn a_missing_right_is_named_before_a_missing_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let denied = dir.path().join("denied");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/denied.c");
    assert!(Command::new("cc").arg(source).arg("-o").arg(&denied).status().unwrap().success());
    let own = std::process::id().to_string();
    for (errno, code, hint) in
        [("1", 77, "no capability is missing"), ("38", 69, "this kernel lacks that, or a container's")]
    {
        for verb in ["attach", "trace"] {
            let mut command = Command::new(&denied);
            let outcome = run(command.arg(errno).arg(binary()).args([verb, "--pid", &own]).current_dir(&dir));
            assert_fails(&outcome, code, "cannot follow the mappings of processes: watch processes");
            assert!(outcome.stderr.contains(&format!("\nhint: {hint}")), "{}", outcome.stderr);
        }
    }
}

#[needs(ROOT)]
fn the_exit_code_is_that_of_the_command() {
    assert_eq!(run(&mut xsched_ctl(["trace", "--", "sh", "-c", "exit 5"])).code, 5);
    assert_eq!(run(&mut xsched_ctl(["trace", "--", "sh", "-c", "kill -9 $$"])).code, 137);
    let outcome = run(&mut xsched_ctl(["trace", "--", "true"]));
    assert_eq!(outcome.code, 0);
    assert!(outcome.stderr.contains("no calls were seen"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn output_that_cannot_be_written() {
    let outcome = run(xsched_ctl(["trace", "-o", "/no/such/folder/f", "--"]).arg(app("vector_add")));
    assert_fails(&outcome, 73, "cannot write /no/such/folder/f: ");
    assert_eq!(outcome.stdout, "", "the command must not have run");
    // A full disk is noticed later. The command still runs to its end.
    let outcome = run(xsched_ctl(["trace", "-o", "/dev/full", "--"]).arg(app("vector_add")));
    assert_fails(&outcome, 74, "writing the trace to /dev/full failed: No space left on device");
    assert!(outcome.stdout.contains("vector_add: 300 launches"), "{}", outcome.stdout);
}

#[needs(ROOT)]
fn a_recording_that_does_not_start_keeps_the_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let (older, new) = (dir.path().join("older.perfetto"), dir.path().join("new.perfetto"));
    std::fs::write(&older, "older").unwrap();
    for options in [&[] as &[_], &["--ring", "4M"]] {
        for path in [&older, &new] {
            let mut trace = xsched_ctl(["trace", "-o"]);
            let outcome = run(trace.arg(path).args(options).args(["--", "no-such-command"]));
            assert_fails(&outcome, 127, "cannot run `no-such-command`: not found");
        }
    }
    assert_eq!(std::fs::read_to_string(older).unwrap(), "older");
    assert!(!new.exists());
}

/// A pipe without a reader, as after `| head`.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    writer.into()
}

#[needs(ROOT)]
fn output_has_no_reader() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut tracer = xsched_ctl(["trace", "-o"]);
    tracer.arg(&trace).arg("--").arg(app("vector_add")).stdout(Stdio::null()).stderr(unread());
    assert_eq!(tracer.status().unwrap().code(), Some(0));
    let launches = calls(&trace).unwrap().into_iter().filter(|call| call.category == "hip.launch");
    assert_eq!(launches.count(), 300);

    let report = ["report", trace.to_str().unwrap()];
    for arguments in [&["doctor"] as &[_], &report, &["rules", "check"], &["report", "/no/such/file"]] {
        let status = xsched_ctl(arguments).stdout(unread()).stderr(unread()).status().unwrap();
        assert_eq!(status.code(), Some(run(&mut xsched_ctl(arguments)).code), "{arguments:?}");
    }
}

#[needs(ROOT)]
fn a_watch_ends_when_its_reader_ends() {
    let mut app = Running::start(Command::new(app("two_libraries")).args(["--seconds", "300"]));
    app.wait_for_stdout("ready ");
    let mut watch = xsched_ctl(["attach", "--interval", "0.1", "--pid"]);
    let watch = Running::start_with_stdout(watch.arg(app.pid().to_string()), unread());
    let outcome = watch.finish();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the summaries are no longer read"), "{}", outcome.stderr);
}

#[needs(nothing)]
fn a_report_that_cannot_be_written() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = xsched_ctl(["rules", "check"]).stdout(full()).status().unwrap();
    assert_eq!(status.code(), Some(74));
}

/// Each tracer probes the kernel's features with probes on its own code. All run the same file, so that the probes of one fire in the others.
#[needs(ROOT)]
fn tracers_that_start_together_do_not_mislead_each_other() {
    let found = |text: &str| text.lines().find(|line| line.starts_with("BPF ")).map(str::to_owned);
    let alone = found(&run(&mut xsched_ctl(["doctor"])).stdout);
    assert!(alone.is_some());
    for _ in 0..4 {
        let together: Vec<_> = (0..8).map(|_| Running::start(&mut xsched_ctl(["doctor"]))).collect();
        for doctor in together {
            assert_eq!(found(&doctor.finish().stdout), alone);
        }
    }
}

/// Records into a file system of four megabytes in a mount namespace of its own; prints the resulting trace.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o size=4m tmpfs "$1"
"$2" trace -o "$1/run.perfetto" -- "$3" --launches 100000
code=$?
cp "$1/run.perfetto" "$4"
exit $code
"#;

#[needs(ROOT)]
fn a_disk_that_is_full_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, kept) = (dir.path().join("disk"), dir.path().join("kept"));
    std::fs::create_dir(&disk).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", SMALL_DISK, "bash"]).arg(&disk).arg(binary());
    let outcome = run(command.arg(app("vector_add")).arg(&kept));
    let trace = disk.join("run.perfetto").display().to_string();
    assert_fails(&outcome, 74, &format!("writing the trace to {trace} failed: No space left on device"));
    assert!(outcome.stdout.contains("vector_add: 100000 launches"), "{}", outcome.stdout);
    // The written chunks are a valid trace.
    let size = std::fs::metadata(&kept).unwrap().len();
    assert!(size > 1_000_000, "{size}");
    let mut sql = Sql::open(&kept).unwrap();
    let launches = sql.query("select count(*) as n from slice where category = 'hip.launch'").unwrap();
    assert!(launches[0]["n"].as_i64().unwrap() > 1000, "{launches:?}");
}

/// A full disk in a mount namespace of its own, with a file of one page; prints the state of new files.
const FULL_DISK: &str = r#"
"$2" trace -o "$4" -- "$3" 2> /dev/null && mount -t tmpfs -o size=64k tmpfs "$1" && cd "$1" || exit 1
echo older > page.html
head -c 64k /dev/zero > filler 2> /dev/null
for verb in "report $4 --html page.html" "trace -o run.perfetto -- $3" "trace --ring 1M -o ring.perfetto -- $3"; do
    "$2" $verb
    echo "code $?"
done
"$2" trace -- "$3" > stdout.perfetto
echo "code $?"
rm filler
wc -c *
"#;

#[needs(ROOT)]
fn a_disk_that_is_full_from_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", FULL_DISK, "bash"]).arg(&disk).arg(binary());
    let outcome = run(command.arg(app("vector_add")).arg(dir.path().join("run.perfetto")));
    let said: Vec<_> = outcome.stdout.lines().map(str::trim).filter(|line| !line.ends_with(", ok")).collect();
    let files = ["6 page.html", "0 ring.perfetto", "0 run.perfetto", "0 stdout.perfetto", "6 total"];
    assert_eq!(
        said,
        [&["code 73", "code 74", "code 74", "code 74"], &files[..]].concat(),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stderr.matches("hint: there is nothing in it to load: free space").count(), 3);
}

#[needs(nothing)]
fn a_wrong_command_line() {
    for line in [&["bogus"][..], &[], &["trace", "--pid", "x"], &["trace", "--pidd", "1"], &["attach"]] {
        assert_eq!(run(&mut xsched_ctl(line)).code, 64, "{line:?}");
    }
    for line in [&["--help"][..], &["trace", "--help"], &["--version"]] {
        let outcome = run(&mut xsched_ctl(line));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{line:?}");
    }
}

#[needs(ROOT)]
fn killed_in_the_middle_of_writing() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut app = Running::start(Command::new(app("vector_add")).args(["--seconds", "120"]));
    app.wait_for_stdout("ready ");
    let tracer = Running::start(xsched_ctl(["trace", "--pid", &app.pid().to_string(), "-o"]).arg(&trace));
    wait_for_bytes(&trace, 600_000);
    tracer.signal(Signal::KILL);
    assert_eq!(tracer.finish().code, 137);
    assert!(calls(&trace).unwrap().len() > 1000);
    app.signal(Signal::KILL);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
