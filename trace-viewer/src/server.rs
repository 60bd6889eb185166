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
mod presence;
mod routes;

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tiny_http::{Header, Method, Request, Response, Server as HttpServer, StatusCode};

use self::presence::Presence;
use crate::{failure::Failure, page, search::Found, store::Store, token::Token};

/// Requests that are answered at the same time.
const WORKERS: usize = 3;
/// How often it is looked whether to end.
const TICK: Duration = Duration::from_millis(200);

/// What the browser is to allow the page: what comes from here, and nothing that is written into the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A timeline that waits to be looked at.
pub(crate) struct Server {
    http: HttpServer,
    port: u16,
    token: Token,
    /// What it is called.
    name: String,
    path: PathBuf,
    store: Store,
    /// The page, once it has been asked for: summing up takes a moment.
    index: Mutex<Option<std::sync::Arc<str>>>,
    /// What was searched for last.
    found: Mutex<Option<(String, std::sync::Arc<Found>)>>,
    presence: Mutex<Presence>,
}

impl Server {
    /// Listens on `port`, or on any free one if that is 0.
    pub(crate) fn listen(path: PathBuf, store: Store, port: u16) -> Result<Self, Failure> {
        let failure = |source| Failure::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failure)?;
        let port = listener.local_addr().map_err(failure)?.port();
        let http = HttpServer::from_listener(listener, None)
            .map_err(|error| Failure::Serve { source: io::Error::other(error) })?;
        let token = Token::random().map_err(|source| Failure::Serve { source })?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self {
            http,
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

    /// Answers until the last page is closed or gives no sign of life; for ever if `keep`.
    pub(crate) fn serve(&self, keep: bool) -> Result<(), Failure> {
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| self.work(&ends))).collect();
            while !workers.iter().any(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(TICK);
                if !keep && lock(&self.presence).is_over() {
                    break;
                }
            }
            ends.store(true, Ordering::Relaxed);
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    fn work(&self, ends: &AtomicBool) -> Result<(), Failure> {
        while !ends.load(Ordering::Relaxed) {
            let request = self.http.recv_timeout(TICK).map_err(|source| Failure::Serve { source })?;
            if let Some(request) = request {
                self.answer(request);
            }
        }
        Ok(())
    }

    /// A client that goes away before it has its answer is its own affair.
    fn answer(&self, request: Request) {
        let route = match gate::admit(&request, &self.token) {
            Ok(route) => route.to_owned(),
            Err(status) => {
                let _ = request.respond(bare(status));
                return;
            }
        };
        lock(&self.presence).request();
        if route == "trace" && *request.method() == Method::Get {
            let _ = match File::open(&self.path) {
                Ok(file) => request.respond(with_headers(Response::from_file(file), OCTETS)),
                Err(_) => request.respond(bare(404)),
            };
            return;
        }
        let answer = routes::answer(self, request.method(), &route);
        let _ = match answer {
            Some(answer) => {
                request.respond(with_headers(Response::from_data(answer.body), answer.content_type))
            }
            None => request.respond(bare(404)),
        };
    }

    /// The page.
    fn index(&self) -> std::sync::Arc<str> {
        lock(&self.index).get_or_insert_with(|| page::index(&self.name, &self.store).into()).clone()
    }

    /// What `word` finds.
    fn found(&self, word: &str) -> std::sync::Arc<Found> {
        let mut last = lock(&self.found);
        match &*last {
            Some((known, found)) if known == word => found.clone(),
            _ => {
                let found = std::sync::Arc::new(crate::search::search(&self.store, word));
                *last = Some((word.to_owned(), found.clone()));
                found
            }
        }
    }
}

const OCTETS: &str = "application/octet-stream";

fn bare(status: u16) -> Response<io::Empty> {
    Response::empty(StatusCode(status))
}

/// `Referrer-Policy`: the address holds the token. `Cross-Origin-Opener-Policy`: the page opens the Perfetto UI, and
/// talks to it.
fn with_headers<R: io::Read>(response: Response<R>, content_type: &str) -> Response<R> {
    [
        ("Content-Type", content_type),
        ("Content-Security-Policy", POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin-allow-popups"),
    ]
    .into_iter()
    .fold(response.with_chunked_threshold(usize::MAX), |response, (name, value)| {
        let header = Header::from_bytes(name, value).expect("names and values are constants of plain ASCII");
        response.with_header(header)
    })
}

/// A worker that panicked has not left anything half done that others could see.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
