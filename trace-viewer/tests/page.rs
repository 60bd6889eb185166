//! The page's server as a browser and others meet it: over the command line and over TCP.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use xsched_perfetto::{Annotation, Clocks, Process, ProcessId, Slice, ThreadId, TraceWriter};

/// Generous: nothing here should take a second.
const PATIENCE: Duration = Duration::from_secs(30);
const HOSTILE: &str = "<script>alert(1)</script>";

fn trace() -> Vec<u8> {
    let clocks = Clocks { boottime_ns: 1_000, monotonic_ns: 1_000, realtime_ns: 0 };
    let mut writer = TraceWriter::new(Vec::new(), clocks).unwrap();
    let process = ProcessId { pid: 7, start_ns: 1 };
    writer.process(&Process { id: process, name: HOSTILE, cmdline: &[] }).unwrap();
    let thread = ThreadId { process, tid: 7 };
    for number in 0..1_000 {
        let (begin_ns, end_ns) = (number * 1_000, Some(number * 1_000 + 500));
        let annotations = [Annotation::new("origin", HOSTILE), Annotation::new("kernel", "gemm")];
        let (category, name) = ("hip.launch", "hipLaunchKernel");
        writer.slice(&Slice { thread, begin_ns, end_ns, category, name, annotations: &annotations }).unwrap();
    }
    writer.finish().unwrap()
}

/// The program while it serves.
struct Serving {
    program: Child,
    address: String,
    /// `/TOKEN/`.
    root: String,
    file: PathBuf,
    _folder: TempDir,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        Self::of(&trace(), arguments)
    }

    fn of(trace: &[u8], arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my <run>.perfetto");
        fs::write(&file, trace).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_trace-viewer"))
            .arg(&file)
            .args(arguments)
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let (address, root) = url.trim_end().strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (address, root) = (address.to_owned(), format!("/{root}"));
        Self { program, address, root, file, _folder: folder }
    }

    /// Sends a request; returns the status, the head of the answer, in lower case, and its body.
    fn request(&self, method: &str, path: &str, headers: &str) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host =
            if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        write!(stream, "{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let head_len = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let body = answer.split_off(head_len);
        let head = String::from_utf8(answer).unwrap().to_lowercase();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head, body)
    }

    /// What is at a path below the token.
    fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.request("GET", &format!("{}{path}", self.root), "");
        (status, String::from_utf8(body).unwrap())
    }

    fn is_running(&mut self) -> bool {
        self.program.try_wait().unwrap().is_none()
    }

    fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it still serves");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn the_page_is_there_and_trusts_nobody() {
    let serving = Serving::start(&[]);
    let (status, head, body) = serving.request("GET", &serving.root, "");
    assert_eq!(status, 200);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header} is not in {head}");
    }
    assert!(!head.contains("access-control-allow"), "{head}");
    let page = String::from_utf8(body).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script>"), "{page}");
    assert!(page.contains("my &lt;run&gt;.perfetto"));
    for asset in ["style.css", "main.js", "timeline.js", "icon.svg"] {
        assert_eq!(serving.get(asset).0, 200, "{asset}");
    }
    let (status, _, file) = serving.request("GET", &format!("{}trace", serving.root), "");
    assert_eq!((status, file == fs::read(&serving.file).unwrap()), (200, true));
}

#[test]
fn what_is_asked_for_is_answered() {
    let serving = Serving::start(&[]);
    let json = |path: &str| -> serde_json::Value {
        let (status, body) = serving.get(path);
        assert_eq!(status, 200, "{path}");
        serde_json::from_str(&body).unwrap()
    };
    let tracks = json("api/tracks");
    assert_eq!(tracks["tracks"][0]["slices"], 1_000);
    assert_eq!(tracks["groups"][0]["name"], format!("{HOSTILE} (7)"));
    let tiles = json("api/tiles?tracks=0&from=0&to=1000000&bins=10");
    let counts = tiles["tracks"][0]["rows"][0]["count"].as_array().unwrap();
    assert!(counts.len() <= 20);
    assert_eq!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 1_000);
    assert_eq!(json("api/search?q=GEMM")["total"], 1_000);
    assert_eq!(json("api/search?q=%3Cscript%3E")["total"], 1_000);
    assert_eq!(json("api/hit?q=gemm&n=3")["place"]["begin_ns"], 3_000);
    assert_eq!(json("api/hit?q=gemm&from=5400")["n"], 6);
    let slice = json("api/slice?track=0&index=999");
    assert_eq!((&slice["name"], &slice["next"]), (&"hipLaunchKernel".into(), &serde_json::Value::Null));
}

#[test]
fn nothing_else_is_served() {
    let mut serving = Serving::start(&[]);
    let root = serving.root.clone();
    let other = Serving::start(&[]);
    let refused = [
        ("GET", "/".to_owned(), ""),
        ("GET", "/style.css".to_owned(), ""),
        ("GET", root.trim_end_matches('/').to_owned(), ""),
        ("GET", format!("{root}nothing"), ""),
        ("GET", format!("{root}../../../../etc/passwd"), ""),
        ("GET", format!("{root}api/nothing"), ""),
        ("GET", format!("{root}api/slice?track=0&index=1000"), ""),
        ("GET", format!("{root}api/slice?track=99&index=0"), ""),
        ("GET", format!("{root}api/slice?track=-1"), ""),
        ("GET", format!("{root}api/mark?track=0&index=0"), ""),
        ("GET", format!("{root}api/tiles?tracks=0,99&from=0&to=10&bins=1"), ""),
        ("GET", format!("{root}api/tiles?tracks=0&from=10&to=10&bins=1"), ""),
        ("GET", format!("{root}api/tiles?tracks=0&from=0&to=99999999999999999999&bins=1"), ""),
        ("GET", format!("{root}api/hit?q=gemm&n=1000"), ""),
        ("POST", root.clone(), ""),
        ("PUT", format!("{root}trace"), ""),
        // Another user's token, or one's own for another recording.
        ("GET", other.root.clone(), ""),
        ("GET", format!("{}api/tracks", other.root), ""),
        // Other pages, and names that were made to point here.
        ("GET", root.clone(), "Host: example.org\r\n"),
        ("GET", root.clone(), "Origin: https://example.org\r\n"),
        ("GET", format!("{root}api/tracks"), "Sec-Fetch-Site: cross-site\r\n"),
    ];
    for (method, path, headers) in refused {
        let (status, head, body) = serving.request(method, &path, headers);
        assert!(matches!(status, 403 | 404), "{method} {path} {headers}: {head}");
        assert!(body.is_empty(), "{method} {path} {headers}");
    }
    let mut stream = TcpStream::connect(&serving.address).unwrap();
    stream.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n").unwrap();
    assert!(serving.is_running());
    assert_eq!(serving.get("").0, 200);
}

#[test]
fn it_ends_when_the_last_page_is_closed() {
    let mut serving = Serving::start(&[]);
    let tell = |serving: &Serving, what: &str| {
        serving.request("POST", &format!("{}api/{what}", serving.root), "Content-Length: 0\r\n").0
    };
    assert_eq!([tell(&serving, "here?page=a"), tell(&serving, "here?page=b")], [200, 200]);
    assert_eq!(tell(&serving, "gone?page=a"), 200);
    assert!(serving.is_running());
    assert_eq!(tell(&serving, "gone?page=b"), 200);
    assert_eq!(serving.wait(), Some(0));
}

#[test]
fn what_is_there_of_a_damaged_recording_is_shown() {
    let whole = trace();
    let text = |trace: &[u8]| Serving::of(trace, &[]).get("").1;
    assert!(!text(&whole).contains("class=\"warning\""));
    assert!(text(&whole[..whole.len() - 1]).contains("The file was cut off"));
    assert!(text(&[&whole[..], b"xxx"].concat()).contains("The file is damaged: failed to find a packet"));
    let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    compressed.write_all(&whole).unwrap();
    let compressed = compressed.finish().unwrap();
    assert!(text(&compressed[..compressed.len() / 2]).contains("The file was cut off"));
    let clocks = Clocks { boottime_ns: 1_000, monotonic_ns: 1_000, realtime_ns: 0 };
    let without_events = TraceWriter::new(Vec::new(), clocks).unwrap().finish().unwrap();
    assert!(text(&without_events).contains("There are no events in this recording."));
}

#[test]
fn what_is_no_recording_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trace();
    let refused = [
        ("empty", &b""[..], 65, " is empty\nhint: "),
        ("text", b"hello, world", 65, " is not a timeline: "),
        ("start", &whole[..5], 65, " is no timeline, or was cut off at its very beginning\nhint: "),
    ];
    for (name, content, exit_code, said) in refused {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_trace-viewer")).arg(&file).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(exit_code), "{stderr}");
        assert!(stderr.contains(said) && output.stdout.is_empty(), "{stderr}");
    }
}
