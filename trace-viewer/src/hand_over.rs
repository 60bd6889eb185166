//! Serves one file to the Perfetto UI, on this machine only.
//!
//! The UI is a page of another origin. `Access-Control-Allow-Origin` names that origin, so no other page can read the
//! answers. Other users of this machine cannot read them either without the address, which holds a random token. Chromium
//! first asks whether a public page may reach into the local network: a preflight request with
//! `Access-Control-Request-Private-Network` (<https://wicg.github.io/private-network-access/>). It is granted for this one
//! file. The UI also requests `/status`, to find a trace processor on this port; the answer is 404, as for every other
//! path.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

use crate::{failure::Failure, http, positioned::PositionedReader, token::Token};

/// The only port of this machine from which the content security policy of the Perfetto UI lets it fetch.
pub(crate) const PORT_ALLOWED_BY_THE_UI: u16 = 9001;

const UI_ORIGIN: &str = "https://ui.perfetto.dev";

/// A file that is ready to be fetched.
pub(crate) struct HandOver {
    listener: TcpListener,
    port: u16,
    served: Served,
}

/// The file that is served, and its path.
struct Served {
    /// `/TOKEN/NAME`, the only path.
    path: String,
    trace: File,
}

impl HandOver {
    /// Listens on `port`, or on any free port if that is 0.
    pub(crate) fn listen(file: &Path, trace: File, port: u16) -> Result<Self, Failure> {
        let failure = |source| Failure::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failure)?;
        let port = listener.local_addr().map_err(failure)?.port();
        let token = Token::random().map_err(|source| Failure::Serve { source })?;
        let path = format!("/{}/{}", token.as_str(), shown_name(file));
        Ok(Self { listener, port, served: Served { path, trace } })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address that makes the UI fetch the file.
    pub(crate) fn ui_url(&self) -> String {
        format!("{UI_ORIGIN}/#!/?url=http://127.0.0.1:{}{}", self.port, self.served.path)
    }

    /// Serves until one client has fetched the whole file, or for ever if `keep`.
    pub(crate) fn serve(self, keep: bool) -> Result<(), Failure> {
        let (sender, outcomes) = mpsc::channel();
        thread::spawn(move || {
            let (listener, served) = (self.listener, Arc::new(self.served));
            let of_connections = sender.clone();
            let error = http::accept(&listener, move |stream| {
                if let Some(outcome) = served.answer(stream)? {
                    // Nothing receives once `serve` has returned, and then the process ends.
                    let _ = of_connections.send(outcome);
                }
                Ok(())
            });
            let _ = sender.send(Err(error));
        });
        for outcome in outcomes {
            outcome.map_err(|source| Failure::Serve { source })?;
            if !keep {
                break;
            }
        }
        Ok(())
    }
}

impl Served {
    /// Answers one request. Returns `Some(Ok(()))` if that has delivered the whole file, and `Some(Err(_))` if the file
    /// cannot be served any more. An error of the connection is the client's: it may fetch the file again.
    fn answer(&self, stream: &TcpStream) -> io::Result<Option<io::Result<()>>> {
        let Some(request) = http::read(stream)? else { return Ok(None) };
        match request.method.as_str() {
            "GET" if request.url == self.path => {
                // The present length: a recording may still grow.
                let len = match self.trace.metadata() {
                    Ok(metadata) => metadata.len(),
                    Err(error) => return Ok(Some(Err(error))),
                };
                let headers = [
                    ("Access-Control-Allow-Origin", UI_ORIGIN),
                    ("Cache-Control", "no-store"),
                    ("Content-Type", "application/octet-stream"),
                ];
                http::respond(stream, 200, &headers, &mut PositionedReader::new(&self.trace), len)?;
                Ok(Some(Ok(())))
            }
            "OPTIONS" if request.url == self.path => {
                let headers = [
                    ("Access-Control-Allow-Origin", UI_ORIGIN),
                    ("Access-Control-Allow-Methods", "GET"),
                    ("Access-Control-Allow-Private-Network", "true"),
                ];
                http::respond_empty(stream, 204, &headers)?;
                Ok(None)
            }
            _ => {
                http::respond_empty(stream, 404, &[])?;
                Ok(None)
            }
        }
    }
}

/// The file's name, with every character replaced that has a meaning in an address. It is only shown.
fn shown_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
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
