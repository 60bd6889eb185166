//! The viewer: `xsched-ctl view` in a browser, and the page of `xsched-ctl report --html`.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{
    fs,
    io::{BufRead as _, BufReader, BufWriter},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use xsched_harness::needs;
use xsched_perfetto::{Annotation, Clocks, Process, ProcessId, Slice, ThreadId, TraceWriter};
use xsched_tests::needs::BROWSER;
use xsched_tests::{artifacts::xsched_ctl, browser, synthetic_timeline};

/// Two bursts of urgent work, and a batch job that waits.
const LAUNCHES: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// `xsched-ctl view` while it serves.
struct Serving {
    program: Child,
    url: String,
}

impl Serving {
    fn start(file: &Path) -> Self {
        let mut program = Command::new(xsched_ctl())
            .args(["view", "--no-open"])
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { program, url: url.trim_end().to_owned() }
    }

    /// Waits until the program ends by itself.
    fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the program still serves");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn recording(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("run.perfetto");
    synthetic_timeline::write(BufWriter::new(fs::File::create(&file).unwrap()), LAUNCHES).unwrap();
    file
}

/// Searches, zooms, selects, explains a wait, and downloads the file, in the light and the dark scheme; then closes the page.
#[needs(BROWSER)]
fn the_viewer_shows_why_a_launch_waited() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    for scheme in ["light", "dark"] {
        let mut check = browser::script("check.py");
        let mut serving = Serving::start(&file);
        let output = check.arg(&serving.url).arg(folder.path()).arg(scheme).output().unwrap();
        assert!(output.status.success(), "{scheme}: {}", String::from_utf8_lossy(&output.stderr));
        for picture in ["overview", "timeline", "wait"] {
            let picture = folder.path().join(format!("{scheme}-{picture}.png"));
            assert!(fs::metadata(&picture).unwrap().len() > 10_000, "{}", picture.display());
        }
        assert_eq!(serving.wait(), Some(0), "the server ends when its page is closed");
    }
}

/// Recorded programs choose the names of their processes, threads, kernels and libraries.
#[needs(BROWSER)]
fn names_that_are_markup_stay_text() {
    const HOSTILE: &str = "<img src=x onerror=\"document.title='executed'\">";
    let mut check = browser::script("hostile.py");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("<b>run.perfetto");
    let mut writer = TraceWriter::new(fs::File::create(&file).unwrap(), Clocks::now()).unwrap();
    let process = ProcessId { pid: 7, start_ns: 1 };
    let thread = ThreadId { process, tid: 7 };
    writer.process(&Process { id: process, name: HOSTILE, cmdline: &[HOSTILE] }).unwrap();
    writer.thread(thread, HOSTILE).unwrap();
    let names = ["origin", "library", "kernel", "chain", "callers", "stream", HOSTILE];
    let annotations = names.map(|name| Annotation::new(name, HOSTILE));
    for number in 0..10 {
        let (begin_ns, end_ns) = (1_000 + number * 2_000, Some(2_500 + number * 2_000));
        let (category, name) = ("hip.launch", HOSTILE);
        writer.slice(&Slice { thread, begin_ns, end_ns, category, name, annotations: &annotations }).unwrap();
    }
    writer.finish().unwrap();
    let serving = Serving::start(&file);
    let output = check.arg(&serving.url).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[needs(nothing)]
fn a_report_has_no_external_resources() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (recording(folder.path()), folder.path().join("report.html"));
    let output =
        Command::new(xsched_ctl()).arg("report").arg(&file).arg("--html").arg(&page).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(page).unwrap();
    for expected in ["Preemptions", "serve.py (4822)", "librocblas.so.4", "class=\"suspended"] {
        assert!(page.contains(expected), "{expected}");
    }
    for outside in ["<script", "<link", "<img", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[needs(nothing)]
fn a_file_that_is_not_a_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("notes.txt"), folder.path().join("report.html"));
    fs::write(&file, "hello, world").unwrap();
    for arguments in [&["view", "--no-open"][..], &["report", "--html", page.to_str().unwrap()]] {
        let output = Command::new(xsched_ctl()).args(arguments).arg(&file).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(65), "{stderr}");
        assert!(stderr.starts_with("xsched-ctl: ") && stderr.contains(" is not a timeline: "), "{stderr}");
        assert!(stderr.contains("\nhint: ") && output.stdout.is_empty(), "{stderr}");
    }
    assert!(!page.exists());
}

fn main() -> ExitCode {
    xsched_harness::main()
}
