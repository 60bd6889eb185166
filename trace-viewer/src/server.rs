//! Serves the page and what it asks for, on 127.0.0.1 and to whoever knows the token.
//!
//! | address | what |
//! | --- | --- |
//! | `GET /TOKEN/` | the page |
//! | `GET /TOKEN/NAME` | a script or the style sheet, from inside this program |
//! | `GET /TOKEN/trace` | the file, for handing it to the Perfetto UI |
//! | `GET /TOKEN/api/…` | see `routes` |
//! | `POST /TOKEN/api/here`, `…/gone` | a sign of life of a page, and its end |
//!
//! Nothing else exists. A page from elsewhere can neither read an answer nor cause one: its requests carry an `Origin` of
//! their own, or a `Host` that is not this machine (a name that was made to point here).

mod answers;
mod gate;
mod http;
mod presence;
mod routes;

use std::{
    fs::File,
    io::{self, Read},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use self::presence::Presence;
use crate::{failure::Failure, page, search::Found, store::Store, token::Token};

/// Connections at the same time. A browser has half a dozen for a page.
const CONNECTIONS_MAX: usize = 64;
/// How often it is looked whether to end.
const TICK: Duration = Duration::from_millis(200);

/// What the browser is to allow the page: what comes from here, and nothing that is written into the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const OCTETS: &str = "application/octet-stream";

/// A timeline that waits to be looked at.
pub(crate) struct Server {
    listener: TcpListener,
    port: u16,
    token: Token,
    /// What it is called.
    name: String,
    path: PathBuf,
    store: Store,
    /// The page, once it has been summed up, which takes a moment.
    index: Mutex<Option<Arc<str>>>,
    /// What was searched for last.
    found: Mutex<Option<(String, Arc<Found>)>>,
    presence: Mutex<Presence>,
    connections: AtomicUsize,
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
            connections: AtomicUsize::new(0),
        })
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token.as_str())
    }

    /// Answers until the last page is closed or gives no sign of life; for ever if `keep`. What is being answered at the
    /// end goes with the process.
    pub(crate) fn serve(self, keep: bool) -> Result<(), Failure> {
        let server = Arc::new(self);
        let accepting = thread::spawn({
            let server = Arc::clone(&server);
            move || server.accept()
        });
        // Summed up while the browser starts: the page is what it asks for first.
        thread::spawn({
            let server = Arc::clone(&server);
            move || server.index()
        });
        while !accepting.is_finished() {
            thread::sleep(TICK);
            if !keep && lock(&server.presence).is_over() {
                return Ok(());
            }
        }
        let outcome = accepting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        outcome.map_err(|source| Failure::Serve { source })
    }

    fn accept(self: &Arc<Self>) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                // Whoever it was has gone away already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            if self.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let server = Arc::clone(self);
            thread::spawn(move || {
                let _open = Open(&server.connections);
                // A client that goes away before it has its answer is its own affair.
                let _ = server.connection(&stream);
            });
        }
    }

    fn connection(&self, stream: &TcpStream) -> io::Result<()> {
        let Some(request) = http::read(stream)? else { return Ok(()) };
        let route = match gate::admit(&request, &self.token) {
            Ok(route) => route,
            Err(status) => return http::respond(stream, status, &[], &mut io::empty(), 0),
        };
        lock(&self.presence).request();
        if route == "trace" && request.method == "GET" {
            return match File::open(&self.path).and_then(|file| Ok((file.metadata()?.len(), file))) {
                Ok((len, mut file)) => send(stream, OCTETS, &mut file, len),
                Err(_) => http::respond(stream, 404, &[], &mut io::empty(), 0),
            };
        }
        match routes::answer(self, &request.method, route) {
            Some(answer) => send(stream, answer.content_type, &mut &*answer.body, answer.body.len() as u64),
            None => http::respond(stream, 404, &[], &mut io::empty(), 0),
        }
    }

    /// The page.
    fn index(&self) -> Arc<str> {
        lock(&self.index).get_or_insert_with(|| page::index(&self.name, &self.store).into()).clone()
    }

    /// What `word` finds.
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

/// A connection, for as long as it is counted.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends what was asked for. `Referrer-Policy`: the address holds the token. `Cross-Origin-Opener-Policy`: the page opens
/// the Perfetto UI, and talks to it.
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

/// Whoever panicked with it has not left anything half done that others could see.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
