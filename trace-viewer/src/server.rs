//! Serves the page and its requests, on 127.0.0.1 and only to clients that know the token.
//!
//! | address | answer |
//! | --- | --- |
//! | `GET /TOKEN/` | the page |
//! | `GET /TOKEN/NAME` | a script or the style sheet, both part of this program |
//! | `GET /TOKEN/trace` | the file, which the page hands over to the Perfetto UI |
//! | `GET /TOKEN/api/…` | see `routes` |
//! | `POST /TOKEN/api/here`, `…/gone` | nothing: a page's heartbeat, and the notice that it was closed |
//!
//! Every other address is refused. A page of another origin can neither read an answer nor cause one. Its requests carry that
//! origin in `Origin`, or, after DNS rebinding (a foreign name that resolves to 127.0.0.1), a `Host` that does not name this
//! machine.

mod access;
mod answers;
mod presence;
mod routes;

use std::{
    fs::File,
    io::{self, Read},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use self::presence::Presence;
use crate::{failure::Failure, http, page, search::Found, store::Store, token::Token};

/// How often the server checks whether to end.
const TICK: Duration = Duration::from_millis(200);

/// What the page may load: files of this server, and no script or style inside the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const OCTETS: &str = "application/octet-stream";

/// A timeline that is ready to be shown.
pub(crate) struct Server {
    listener: TcpListener,
    port: u16,
    token: Token,
    /// The file's name.
    name: String,
    path: PathBuf,
    store: Store,
    /// The page, once its overview has been computed, which takes a moment.
    index: Mutex<Option<Arc<str>>>,
    /// The last search and its result.
    found: Mutex<Option<(String, Arc<Found>)>>,
    presence: Mutex<Presence>,
}

impl Server {
    /// Listens on `port`, or on any free one if that is 0.
    pub(crate) fn listen(path: PathBuf, store: Store, port: u16) -> Result<Self, Failure> {
        let failure = |source| Failure::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failure)?;
        let port = listener.local_addr().map_err(failure)?.port();
        let token = Token::random().map_err(|source| Failure::Serve { source })?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self {
            listener,
            port,
            token,
            name,
            path,
            store,
            index: Mutex::default(),
            found: Mutex::default(),
            presence: Mutex::default(),
        })
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token.as_str())
    }

    /// Answers until the last page is closed or has stopped sending heartbeats, or for ever if `keep`. Answers that are
    /// under way then end with the process.
    pub(crate) fn serve(self, keep: bool) -> Result<(), Failure> {
        let server = Arc::new(self);
        let accepting = thread::spawn({
            let server = Arc::clone(&server);
            move || {
                let answering = Arc::clone(&server);
                http::accept(&server.listener, move |stream| answering.connection(stream))
            }
        });
        // The browser requests the page first, so the page is composed while the browser starts.
        thread::spawn({
            let server = Arc::clone(&server);
            move || server.index()
        });
        while !accepting.is_finished() {
            thread::sleep(TICK);
            if !keep && lock(&server.presence).is_over(Instant::now()) {
                return Ok(());
            }
        }
        let source = accepting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Err(Failure::Serve { source })
    }

    fn connection(&self, stream: &TcpStream) -> io::Result<()> {
        let Some(request) = http::read(stream)? else { return Ok(()) };
        let route = match access::check(&request, &self.token) {
            Ok(route) => route,
            Err(status) => return http::respond_empty(stream, status, &[]),
        };
        lock(&self.presence).request(Instant::now());
        if route == "trace" && request.method == "GET" {
            return match File::open(&self.path).and_then(|file| Ok((file.metadata()?.len(), file))) {
                Ok((len, mut file)) => send(stream, OCTETS, &mut file, len),
                Err(_) => http::respond_empty(stream, 404, &[]),
            };
        }
        match routes::answer(self, &request.method, route) {
            Some(answer) => send(stream, answer.content_type, &mut &*answer.body, answer.body.len() as u64),
            None => http::respond_empty(stream, 404, &[]),
        }
    }

    /// The page.
    fn index(&self) -> Arc<str> {
        lock(&self.index).get_or_insert_with(|| page::index(&self.name, &self.store).into()).clone()
    }

    /// The result of a search for `word`.
    fn found(&self, word: &str) -> Arc<Found> {
        let mut last = lock(&self.found);
        match &*last {
            Some((known, found)) if known == word => found.clone(),
            _ => {
                let found = Arc::new(crate::search::search(&self.store, word));
                *last = Some((word.to_owned(), found.clone()));
                found
            }
        }
    }
}

/// Sends an answer. `Referrer-Policy`: the address holds the token. `Cross-Origin-Opener-Policy`: the page opens the Perfetto
/// UI and exchanges messages with it.
fn send(stream: &TcpStream, content_type: &str, body: &mut dyn Read, len: u64) -> io::Result<()> {
    let headers = [
        ("Content-Type", content_type),
        ("Content-Security-Policy", POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin-allow-popups"),
    ];
    http::respond(stream, 200, &headers, body, len)
}

/// A thread that panicked while it held the lock has left no partial change that others could see.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
