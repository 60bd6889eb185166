//! Answers requests for metrics, on a thread of its own.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /metrics` | the metrics, in OpenMetrics or, if the reader does not ask for that, in Prometheus's own format |
//! | any other path | 404 |
//! | any other method | 405 |
//! | over loopback, a `Host` that is neither an address nor `localhost` | 403: a web page of another site cannot read metrics |
//!
//! Connections, the length of a request and the time for it are bounded, and the controller is asked at most every [`FRESH`].

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::error::MetricsError;
use crate::listen::{Access, Listen};
use crate::snapshot::{Format, Snapshot};
use crate::socket::{Socket, SocketFile};

/// Connections at the same time. A monitoring system needs one.
const CONNECTIONS_MAX: usize = 16;

/// How long a connection may take for its request and the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the controller may take for a snapshot. It takes less than a millisecond, unless the machine is overloaded.
const CONTROLLER_PATIENCE: Duration = Duration::from_secs(5);

/// Longest request line with its headers; hyper demands at least this.
const HEAD_LEN_MAX: usize = 8 << 10;

/// Readers within this time get the same answer, so that they cost the controller a bounded part of its time.
const FRESH: Duration = Duration::from_millis(250);

/// How long to wait when no connection can be accepted for lack of descriptors.
const SHORTAGE: Duration = Duration::from_millis(100);

/// A request to the controller for a snapshot.
pub type Ask = oneshot::Sender<Snapshot>;

/// The endpoint. It answers until this is dropped.
#[derive(Debug)]
pub struct Endpoint {
    requests: mpsc::Receiver<Ask>,
    _file: Option<SocketFile>,
    /// When this is dropped, the thread ends.
    _end: oneshot::Sender<Infallible>,
}

impl Endpoint {
    /// Listens, and starts the thread.
    pub fn start(listen: &Listen, access: Access) -> Result<Self, MetricsError> {
        let (socket, file) = Socket::make(listen, access)?;
        let (ask, requests) = mpsc::channel(1);
        let (end, ended) = oneshot::channel();
        let is_loopback = matches!(listen, Listen::Tcp(_)) && listen.is_local();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(MetricsError::Thread)?;
        thread::Builder::new()
            .name("xsched-metrics".to_owned())
            .spawn(move || {
                let server = Arc::new(Server { ask, is_loopback, texts: Mutex::default() });
                runtime.block_on(async {
                    tokio::select! {
                        _ = ended => {}
                        error = serve(socket, server) => tracing::error!("metrics are no longer answered: {error}"),
                    }
                });
            })
            .map_err(MetricsError::Thread)?;
        Ok(Self { requests, _file: file, _end: end })
    }

    /// The next request; `None` if the thread has ended.
    pub async fn next(&mut self) -> Option<Ask> {
        self.requests.recv().await
    }
}

struct Server {
    ask: mpsc::Sender<Ask>,
    /// Any process of this machine can connect, a browser among them.
    is_loopback: bool,
    /// The last texts, and when each was made.
    texts: Mutex<HashMap<Format, (Instant, Bytes)>>,
}

/// Accepts connections; returns only if that cannot go on.
async fn serve(socket: Socket, server: Arc<Server>) -> io::Error {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let listener = match socket {
        Socket::Tcp(listener) => TcpListener::from_std(listener).map(Ok),
        Socket::Unix(listener) => UnixListener::from_std(listener).map(Err),
    };
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return error,
    };
    loop {
        // Further connections wait in the kernel's queue, which is bounded too.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return io::ErrorKind::Other.into() };
        let accepted: io::Result<Box<dyn Stream>> = match &listener {
            Ok(tcp) => tcp.accept().await.map(|(stream, _)| Box::new(stream) as _),
            Err(unix) => unix.accept().await.map(|(stream, _)| Box::new(stream) as _),
        };
        match accepted {
            Ok(stream) => {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    let answers = service_fn(|request| {
                        let server = Arc::clone(&server);
                        async move { Ok::<_, Infallible>(server.answer(&request).await) }
                    });
                    let mut http = http1::Builder::new();
                    http.keep_alive(false).max_buf_size(HEAD_LEN_MAX);
                    // An error or the end of patience closes the connection, and concerns its reader only.
                    let _ = timeout(PATIENCE, http.serve_connection(TokioIo::new(stream), answers)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!("a reader of metrics cannot be accepted: {error}");
                sleep(SHORTAGE).await;
            }
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Server {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if self.is_loopback && !names_this_machine(request.headers()) {
            return plain(
                StatusCode::FORBIDDEN,
                "read this by an address, such as http://127.0.0.1, or by localhost\n",
            );
        }
        if request.uri().path() != "/metrics" {
            return plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
            refusal.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("it is printable"));
            return refusal;
        }
        let format = format(request.headers());
        match self.text(format).await {
            Some(text) => response(StatusCode::OK, format.content_type(), text),
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "the controller does not answer at the moment\n"),
        }
    }

    /// The metrics; `None` if the controller is too busy, or ends. Readers that come meanwhile wait for the same answer.
    async fn text(&self, format: Format) -> Option<Bytes> {
        let mut texts = self.texts.lock().await;
        if let Some((made, text)) = texts.get(&format)
            && made.elapsed() < FRESH
        {
            return Some(text.clone());
        }
        let (reply, snapshot) = oneshot::channel();
        self.ask.try_send(reply).ok()?;
        let snapshot = timeout(CONTROLLER_PATIENCE, snapshot).await.ok()?.ok()?;
        let text: Bytes = snapshot.text(format).ok()?.into();
        texts.insert(format, (Instant::now(), text.clone()));
        Some(text)
    }
}

fn format(headers: &HeaderMap) -> Format {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepts.into_iter().any(|value| value.contains("application/openmetrics-text")) {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    }
}

/// Whether the reader has used an address or `localhost`. A name may be one that another site lets lead to this machine (DNS
/// rebinding).
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return true };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || address.parse::<IpAddr>().is_ok()
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::snapshot::Facts;
    use crate::tally::Tally;

    /// An endpoint, and a thread in place of the controller. The folder goes last.
    struct Running {
        path: PathBuf,
        _folder: tempfile::TempDir,
    }

    fn start(answer: impl Fn(Ask) + Send + 'static) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let mut endpoint = Endpoint::start(&Listen::Unix(path.clone()), Access::default()).unwrap();
        thread::spawn(move || {
            let endpoint = &mut endpoint;
            while let Some(ask) = endpoint.requests.blocking_recv() {
                answer(ask);
            }
        });
        Running { path, _folder: folder }
    }

    /// Sends `text`, and returns the answer. The endpoint may answer a bad request and close before it has read all of it. The
    /// rest of the request is then refused, and the end of the answer is an error.
    fn say(path: &Path, text: &str) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        let _ = stream.write_all(text.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn get(path: &Path, what: &str) -> String {
        say(path, &format!("GET {what} HTTP/1.1\r\nHost: h\r\nAccept: application/openmetrics-text\r\n\r\n"))
    }

    fn reply(ask: Ask) {
        let facts = Facts { processes: 7, ..Facts::default() };
        let snapshot = Snapshot::new(facts, &mut Tally::<u32>::default(), xsched_sched::Nanos::ZERO);
        // The reader may have gone.
        let _ = ask.send(snapshot);
    }

    #[test]
    fn requests_get_the_answer_that_they_deserve() {
        let running = start(reply);
        let answer = get(&running.path, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"), "{answer}");
        assert!(answer.contains("\nxsched_processes 7\n") && answer.ends_with("# EOF\n"), "{answer}");
        let plain = say(&running.path, "GET /metrics HTTP/1.0\r\n\r\n");
        assert!(plain.contains("version=0.0.4") && !plain.contains("# EOF"), "{plain}");
        assert!(get(&running.path, "/").starts_with("HTTP/1.1 404"));
        let posted = say(&running.path, "POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
        assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
        let long = say(&running.path, &format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_LEN_MAX)));
        assert!(long.starts_with("HTTP/1.1 4"), "{long}");
        assert!(!say(&running.path, "\x16\x03\x01 no HTTP\r\n\r\n").contains("200 OK"));
    }

    #[test]
    fn silent_readers_do_not_keep_others_out() {
        let running = start(reply);
        let silent: Vec<_> =
            (1..CONNECTIONS_MAX).map(|_| UnixStream::connect(&running.path).unwrap()).collect();
        assert!(get(&running.path, "/metrics").contains("200 OK"));
        drop(silent);
    }

    #[test]
    fn readers_that_come_together_cost_one_snapshot() {
        let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let running = start(move |ask| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            reply(ask);
        });
        let began = Instant::now();
        for _ in 0..20 {
            assert!(get(&running.path, "/metrics").contains("200 OK"));
        }
        let most = 1 + began.elapsed().as_millis() / FRESH.as_millis();
        let asked = asked.load(std::sync::atomic::Ordering::Relaxed);
        assert!(u128::from(asked) <= most, "{asked} of at most {most}");
    }

    #[test]
    fn a_controller_that_does_not_answer_is_reported() {
        let running = start(drop);
        assert!(get(&running.path, "/metrics").starts_with("HTTP/1.1 503"));
    }

    #[test]
    fn web_pages_of_other_sites_are_refused() {
        let of = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            names_this_machine(&headers)
        };
        for host in ["127.0.0.1:9464", "[::1]:9464", "localhost", "10.0.0.7:80"] {
            assert!(of(host), "{host}");
        }
        for host in ["evil.example", "evil.example:9464", "localhost.evil.example:9464"] {
            assert!(!of(host), "{host}");
        }
        assert!(names_this_machine(&HeaderMap::new()), "a browser always sends one");
    }
}
