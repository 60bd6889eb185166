//! The server of the page.

use std::{fs, io::Write as _};

use xsched_perfetto::{Annotation, Clocks, Process, ProcessId, Slice, ThreadId, TraceWriter};

use crate::serving::{Serving, program};

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

/// Serves the page of a recording.
fn serve() -> Serving {
    serve_page_of(&trace())
}

fn serve_page_of(trace: &[u8]) -> Serving {
    Serving::start(trace, "my <run>.perfetto", &[])
}

/// The answer to a path below the token.
fn get(serving: &Serving, path: &str) -> (u16, String) {
    let (status, _, body) = serving.request("GET", &format!("{}{path}", serving.path), "");
    (status, String::from_utf8(body).unwrap())
}

#[test]
fn the_page_is_served_with_its_policy() {
    let serving = serve();
    let (status, head, body) = serving.request("GET", &serving.path, "");
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
        assert_eq!(get(&serving, asset).0, 200, "{asset}");
    }
    let (status, _, file) = serving.request("GET", &format!("{}trace", serving.path), "");
    assert_eq!((status, file == fs::read(&serving.file).unwrap()), (200, true));
}

#[test]
fn requests_are_answered() {
    let serving = serve();
    let json = |path: &str| -> serde_json::Value {
        let (status, body) = get(&serving, path);
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
    assert_eq!(json("api/hit?q=gemm&n=3")["position"]["begin_ns"], 3_000);
    assert_eq!(json("api/hit?q=gemm&from=5400")["n"], 6);
    let slice = json("api/slice?track=0&index=999");
    assert_eq!((&slice["name"], &slice["next"]), (&"hipLaunchKernel".into(), &serde_json::Value::Null));
}

#[test]
fn nothing_else_is_served() {
    let mut serving = serve();
    let root = serving.path.clone();
    let other = serve();
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
        // The token of another server.
        ("GET", other.path.clone(), ""),
        ("GET", format!("{}api/tracks", other.path), ""),
        // Pages of other origins, and foreign names that resolve to this machine.
        ("GET", root.clone(), "Host: example.org\r\n"),
        ("GET", root.clone(), "Origin: https://example.org\r\n"),
        ("GET", format!("{root}api/tracks"), "Sec-Fetch-Site: cross-site\r\n"),
    ];
    for (method, path, headers) in refused {
        let (status, head, body) = serving.request(method, &path, headers);
        assert!(matches!(status, 403 | 404), "{method} {path} {headers}: {head}");
        assert!(body.is_empty(), "{method} {path} {headers}");
    }
    let mut stream = serving.connect();
    stream.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n").unwrap();
    assert!(serving.is_running());
    assert_eq!(get(&serving, "").0, 200);
}

#[test]
fn the_server_ends_when_the_last_page_is_closed() {
    let mut serving = serve();
    let notify = |serving: &Serving, what: &str| {
        serving.request("POST", &format!("{}api/{what}", serving.path), "Content-Length: 0\r\n").0
    };
    assert_eq!([notify(&serving, "here?page=a"), notify(&serving, "here?page=b")], [200, 200]);
    assert_eq!(notify(&serving, "gone?page=a"), 200);
    assert!(serving.is_running());
    assert_eq!(notify(&serving, "gone?page=b"), 200);
    assert_eq!(serving.wait(), Some(0));
}

#[test]
fn damaged_recordings_are_shown_up_to_the_damage() {
    let whole = trace();
    let text = |trace: &[u8]| get(&serve_page_of(trace), "").1;
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
fn files_that_are_not_recordings_are_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trace();
    let refused = [
        ("empty", &b""[..], 65, " is empty\nhint: "),
        ("text", b"hello, world", 65, " is not a timeline: failed to "),
        ("start", &whole[..5], 65, " is no timeline, or was cut off at its very beginning\nhint: "),
    ];
    for (name, content, exit_code, said) in refused {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        let output = program().arg(&file).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(exit_code), "{stderr}");
        assert!(stderr.contains(said) && output.stdout.is_empty(), "{stderr}");
    }
}
