//! Serves one file to the Perfetto UI, on this machine only.
//!
//! The UI is a page of another origin, so the answers name it in `Access-Control-Allow-Origin`: no other page
//! can read them. Nor can other users of this machine without the address, which holds a random token.
//! Chromium asks first whether a public page may reach into the local network (a preflight with
//! `Access-Control-Request-Private-Network`); that is answered for this one file.
//! The UI also asks `/status`, by which it looks for a trace processor on this port; as everything else, that
//! is not found.

use std::{
    fs::File,
    io::{self, Read, Seek as _, SeekFrom, Write as _},
    net::{Ipv4Addr, TcpListener},
    path::Path,
};

use tiny_http::{Header, Method, Request, Response, Server, StatusCode};

use crate::{failure::Failure, token::Token};

/// The only port of this machine from which the Perfetto UI may fetch: its content security policy says so.
pub(crate) const PORT_ALLOWED_BY_THE_UI: u16 = 9001;

const UI_ORIGIN: &str = "https://ui.perfetto.dev";

/// A file that waits to be fetched.
pub(crate) struct HandOver {
    server: Server,
    port: u16,
    /// `/TOKEN/NAME`, the only path that is served.
    path: String,
    trace: File,
}

impl HandOver {
    /// Listens on `port`, or on any free port if that is 0.
    pub(crate) fn listen(file: &Path, trace: File, port: u16) -> Result<Self, Failure> {
        let failure = |source| Failure::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failure)?;
        let port = listener.local_addr().map_err(failure)?.port();
        let server = Server::from_listener(listener, None)
            .map_err(|error| Failure::Serve { source: io::Error::other(error) })?;
        let token = Token::random().map_err(|source| Failure::Serve { source })?;
        Ok(Self { server, port, path: format!("/{}/{}", token.as_str(), shown_name(file)), trace })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address that makes the UI fetch the file.
    pub(crate) fn ui_url(&self) -> String {
        format!("{UI_ORIGIN}/#!/?url=http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// Answers until the file was fetched once, whole; for ever if `keep`.
    pub(crate) fn serve(mut self, keep: bool) -> Result<(), Failure> {
        loop {
            let request = self.server.recv().map_err(|source| Failure::Serve { source })?;
            if self.answer(request)? && !keep {
                return Ok(());
            }
        }
    }

    /// Returns whether the whole file was passed on. A client that goes away before that is its own affair.
    fn answer(&mut self, request: Request) -> Result<bool, Failure> {
        let is_file = request.url() == self.path;
        match request.method() {
            Method::Get if is_file => {
                let response = self.file().map_err(|source| Failure::Serve { source })?;
                Ok(send(request, response).is_ok())
            }
            Method::Options if is_file => {
                let _ = request.respond(preflight());
                Ok(false)
            }
            _ => {
                let _ = request.respond(Response::empty(404));
                Ok(false)
            }
        }
    }

    /// The file as it is now: a recording may still grow.
    fn file(&mut self) -> io::Result<Response<io::Take<&File>>> {
        self.trace.seek(SeekFrom::Start(0))?;
        let len = self.trace.metadata()?.len();
        let headers = vec![
            header("Access-Control-Allow-Origin", UI_ORIGIN),
            header("Cache-Control", "no-store"),
            header("Content-Type", "application/octet-stream"),
        ];
        let body = (&self.trace).take(len);
        let response = Response::new(StatusCode(200), headers, body, Some(len as usize), None);
        // Chunks would hide the length, by which the UI shows its progress.
        Ok(response.with_chunked_threshold(usize::MAX))
    }
}

/// What `Request::respond` does, except that this reports a client that has gone away.
fn send(request: Request, response: Response<impl Read>) -> io::Result<()> {
    let version = request.http_version().clone();
    let headers = request.headers().to_vec();
    let mut client = request.into_writer();
    response.raw_print(&mut client, version, &headers, false, None)?;
    client.flush()
}

fn preflight() -> Response<io::Empty> {
    Response::empty(204)
        .with_header(header("Access-Control-Allow-Origin", UI_ORIGIN))
        .with_header(header("Access-Control-Allow-Methods", "GET"))
        .with_header(header("Access-Control-Allow-Private-Network", "true"))
}

/// The file's name with what has a meaning in an address replaced. It is only shown.
fn shown_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("names and values are constants of plain ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless_in_an_address() {
        assert_eq!(shown_name(Path::new("/tmp/run-1.perfetto")), "run-1.perfetto");
        assert_eq!(shown_name(Path::new("x/a b&c#d?ü%.pb")), "a_b_c_d___.pb");
    }
}
