//! The hand-over to the Perfetto UI, and the command line.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, TcpListener},
    path::Path,
    process::{Child, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use xsched_perfetto::{Clocks, ProcessId, Slice, ThreadId, TraceWriter};

use crate::serving::{PATIENCE, Serving, program};

/// A trace of a few megabytes, more than sockets buffer.
fn trace() -> Vec<u8> {
    static TRACE: OnceLock<Vec<u8>> = OnceLock::new();
    TRACE.get_or_init(record).clone()
}

fn record() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), Clocks::now()).unwrap();
    let thread = ThreadId { process: ProcessId { pid: 7, start_ns: 1 }, tid: 7 };
    for number in 0..100_000 {
        let (begin_ns, end_ns) = (number * 10, Some(number * 10 + 5));
        let slice = Slice { thread, begin_ns, end_ns, category: "hip", name: "hipMalloc", annotations: &[] };
        writer.slice(&slice).unwrap();
    }
    writer.finish().unwrap()
}

/// Runs the program to its end.
fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn serve(arguments: &[&str]) -> Serving {
    let arguments = [&["--perfetto", "--port", "0"], arguments].concat();
    let serving = Serving::start(&trace(), "my run.perfetto", &arguments);
    assert_eq!(serving.before, "https://ui.perfetto.dev/#!/?url=");
    serving
}

/// Sends a request as the page would; returns the head of the answer, in lower case, and its body.
fn request(serving: &Serving, method: &str, path: &str) -> (String, Vec<u8>) {
    let (_, head, body) = serving.request(method, path, "Origin: https://ui.perfetto.dev\r\n");
    (head, body)
}

#[test]
fn the_program_ends_once_the_ui_has_the_file() {
    let mut serving = serve(&[]);
    assert!(serving.path.ends_with("/my_run.perfetto"), "{}", serving.path);
    let (head, body) = request(&serving, "GET", &serving.path);
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert!(head.contains("\r\naccess-control-allow-origin: https://ui.perfetto.dev\r\n"), "{head}");
    assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", trace().len())), "{head}");
    assert!(body == trace(), "{} bytes instead of {}", body.len(), trace().len());
    assert_eq!(serving.wait(), Some(0));

    let mut messages = String::new();
    serving.stderr.read_to_string(&mut messages).unwrap();
    assert!(messages.contains("my run.perfetto: 1 process, 100000 slices, "), "{messages}");
    assert!(messages.contains("open this address in a browser"), "there is no desktop here: {messages}");
}

#[test]
fn nothing_else_is_served_and_none_of_it_ends_the_program() {
    let mut serving = serve(&[]);
    let token_only = serving.path.rsplit_once('/').unwrap().0.to_owned();
    let refused = [
        ("GET", "/".to_owned()),
        ("GET", "/my_run.perfetto".to_owned()),
        ("GET", token_only.clone()),
        ("GET", format!("{token_only}/../../etc/passwd")),
        ("GET", format!("{}?x", serving.path)),
        ("GET", "/etc/passwd".to_owned()),
        // The UI looks for a trace processor on this port.
        ("POST", "/status".to_owned()),
        ("POST", serving.path.clone()),
        ("HEAD", serving.path.clone()),
    ];
    for (method, path) in refused {
        let (head, body) = request(&serving, method, &path);
        assert!(head.starts_with("http/1.1 404 "), "{method} {path}: {head}");
        assert!(!head.contains("access-control-allow-origin"), "{head}");
        assert!(body.is_empty(), "{method} {path}");
    }
    serving.connect().write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n").unwrap();
    assert!(serving.is_running());
    assert!(request(&serving, "GET", &serving.path).1 == trace());
    assert_eq!(serving.wait(), Some(0));
}

/// Chromium sends a preflight before it lets a public page reach into the local network.
#[test]
fn a_preflight_is_answered_and_does_not_end_the_program() {
    let mut serving = serve(&[]);
    let (head, _) = request(&serving, "OPTIONS", &serving.path);
    assert!(head.starts_with("http/1.1 204 "), "{head}");
    assert!(head.contains("\r\naccess-control-allow-origin: https://ui.perfetto.dev\r\n"), "{head}");
    assert!(head.contains("\r\naccess-control-allow-private-network: true\r\n"), "{head}");
    assert!(serving.is_running());
    assert!(request(&serving, "GET", &serving.path).1 == trace());
    assert_eq!(serving.wait(), Some(0));
}

#[test]
fn an_aborted_download_can_be_repeated() {
    let mut serving = serve(&[]);
    let mut stream = serving.connect();
    write!(stream, "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", serving.path, serving.address).unwrap();
    stream.read_exact(&mut [0; 1_000]).unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
    drop(stream);
    assert!(request(&serving, "GET", &serving.path).1 == trace());
    assert_eq!(serving.wait(), Some(0));
}

/// A recording may grow while it is served: a reload shows more.
#[test]
fn keep_serves_the_file_again_with_what_was_added() {
    let mut serving = serve(&["--keep"]);
    assert!(request(&serving, "GET", &serving.path).1 == trace());
    let more = [&trace()[..], &trace()[..]].concat();
    fs::OpenOptions::new().append(true).open(&serving.file).unwrap().write_all(&trace()).unwrap();
    assert!(request(&serving, "GET", &serving.path).1 == more);
    assert!(serving.is_running());
}

fn file_with(folder: &TempDir, name: &str, content: &[u8]) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs the program on input that it must refuse; returns its standard error.
fn refused(file: &str, exit_code: i32) -> String {
    let output = run(&[file, "--perfetto", "--port", "0"]);
    assert_eq!(output.status.code(), Some(exit_code), "{}", stderr(&output));
    assert!(output.stdout.is_empty(), "a file that is not served has no address");
    stderr(&output)
}

fn gzip(trace: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(trace).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let missing = refused("/nonexistent/run.perfetto", 66);
    assert!(
        missing.starts_with("trace-viewer: cannot read /nonexistent/run.perfetto: No such file"),
        "{missing}"
    );
    assert!(missing.contains("\nhint: "), "{missing}");

    let directory = refused(folder.path().to_str().unwrap(), 66);
    assert!(directory.contains("Is a directory"), "{directory}");

    let empty = refused(&file_with(&folder, "empty", b""), 65);
    assert!(empty.contains(" is empty\nhint: "), "{empty}");

    let text = refused(&file_with(&folder, "text", b"hello, world"), 65);
    assert!(text.contains(" is not a timeline: ") && text.contains("\nhint: "), "{text}");

    let compressed = refused(&file_with(&folder, "run.gz", &gzip(&trace())[..40]), 65);
    assert!(compressed.contains(" is compressed and was cut off\nhint: "), "{compressed}");

    let trace = trace();
    let damaged = refused(&file_with(&folder, "damaged", &[&trace[..], b"xxx"].concat()), 65);
    assert!(damaged.contains(&format!(" is damaged after {} bytes: ", trace.len())), "{damaged}");
    assert!(
        damaged.contains(&format!("hint: what precedes the damage can be shown: `head -c {} ", trace.len()))
    );
}

#[test]
fn a_port_in_use_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let file = file_with(&folder, "run.perfetto", &trace());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&[&file, "--perfetto", "--port", &port]);
    assert_eq!(output.status.code(), Some(69));
    let messages = stderr(&output);
    assert!(messages.contains(&format!("listen on 127.0.0.1:{port}: Address already in use")), "{messages}");
    assert!(messages.contains(&format!("`ss -ltnp 'sport = :{port}'`")), "{messages}");
}

#[test]
fn usage_errors_and_help_have_their_own_exit_codes() {
    for arguments in [&[][..], &["--no-such-option"], &["a", "b"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(stderr(&output).contains("Usage: trace-viewer"), "{arguments:?}");
    }
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("ssh -L 8000") && help.contains("Exit status:"), "{help}");
    let short = String::from_utf8(run(&["-h"]).stdout).unwrap();
    assert!(short.lines().count() <= 24, "the help does not fit a screen: {short}");
}

/// On a desktop, `xdg-open` gets the address.
#[test]
fn a_browser_is_opened_where_there_is_a_desktop() {
    let folder = tempfile::tempdir().unwrap();
    let file = file_with(&folder, "run.perfetto", &trace());
    let seen = folder.path().join("seen");
    let opener = folder.path().join("xdg-open");
    fs::write(&opener, "#!/bin/sh\nprintf %s \"$1\" > \"$SEEN.part\" && mv \"$SEEN.part\" \"$SEEN\"\n")
        .unwrap();
    fs::set_permissions(&opener, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let start = |arguments: &[&str]| {
        program()
            .arg(&file)
            .args(["--perfetto", "--port", "0"])
            .args(arguments)
            .env("PATH", &path)
            .env("DISPLAY", ":nowhere")
            .env("SEEN", &seen)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let url_of = |program: &mut Child| {
        let mut url = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut url).unwrap();
        url.trim_end().to_owned()
    };

    let mut quiet = start(&["--no-open"]);
    url_of(&mut quiet);
    let mut messages = String::new();
    BufReader::new(quiet.stderr.take().unwrap())
        .by_ref()
        .lines()
        .take(2)
        .for_each(|line| messages += &line.unwrap());
    assert!(messages.contains("open this address in a browser"), "{messages}");
    quiet.kill().unwrap();
    quiet.wait().unwrap();
    assert!(!seen.exists());

    let mut opening = start(&[]);
    let url = url_of(&mut opening);
    let opened = wait_for(&seen);
    opening.kill().unwrap();
    opening.wait().unwrap();
    assert_eq!(opened, url);
}

fn wait_for(file: &Path) -> String {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Ok(content) = fs::read_to_string(file) {
            return content;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{} never appeared", file.display());
}
