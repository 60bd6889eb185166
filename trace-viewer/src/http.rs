//! HTTP for the two servers on 127.0.0.1 (`server`, `hand_over`): a connection carries one request and one answer, then it is
//! closed.
//!
//! `httparse` parses the requests; it is hyper's parser. The code around it stays because the libraries do less here:
//!
//! * tiny_http limits neither the length nor the duration of a request. Its thread pool still counts a thread as waiting
//!   after it has assigned a connection to that thread
//!   (<https://github.com/tiny-http/tiny-http/blob/0.12.0/src/util/task_pool.rs>). Of two connections that arrive together,
//!   the second can therefore be queued behind the first. A browser keeps the first open for minutes, and tiny_http cannot
//!   close a connection after its answer.
//! * hyper needs an async runtime, and the viewer has no other use for one.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

/// Connections at the same time. A browser opens about six for a page.
const CONNECTIONS_MAX: usize = 64;
/// The longest request line with its headers.
const HEAD_LEN_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// How long a connection may be silent. Browsers open some connections in advance.
const PATIENCE: Duration = Duration::from_mins(1);

/// Accepts connections and runs `answer` for each, on a thread of its own. Connections beyond the limit are closed. Returns
/// only when accepting fails.
pub(crate) fn accept<F>(listener: &TcpListener, answer: F) -> io::Error
where
    F: Fn(&TcpStream) -> io::Result<()> + Clone + Send + 'static,
{
    // Each connection holds a copy for as long as it is open.
    let open = Arc::new(());
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // The client has closed the connection already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return error,
        };
        // Only this thread adds connections, so none can be added between the check and the addition.
        if Arc::strong_count(&open) > CONNECTIONS_MAX {
            continue;
        }
        let (counted, answer) = (Arc::clone(&open), answer.clone());
        thread::spawn(move || {
            // An error means that the client has disconnected before it had the whole answer. The server goes on.
            let _ = answer(&stream);
            drop(counted);
        });
    }
}

/// A request, as far as the servers look at it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path and the query, from the first slash on.
    pub(crate) url: String,
    pub(crate) host: Option<String>,
    pub(crate) origin: Option<String>,
    /// `Sec-Fetch-Site`: the browser's statement whether a page of this server sent the request.
    pub(crate) fetch_site: Option<String>,
}

/// Reads a request without its body. `None` if the connection carries no request, or something that is not HTTP.
pub(crate) fn read(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while head.len() < HEAD_LEN_MAX {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        head.extend_from_slice(&buffer[..len]);
        match parse(&head) {
            Ok(Some(request)) => return Ok(Some(request)),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    Ok(None)
}

/// `None` if the request is incomplete.
fn parse(head: &[u8]) -> Result<Option<Request>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    if parsed.parse(head)?.is_partial() {
        return Ok(None);
    }
    let mut request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        url: parsed.path.unwrap_or_default().to_owned(),
        ..Request::default()
    };
    for header in parsed.headers {
        let field = match header.name.to_ascii_lowercase().as_str() {
            "host" => &mut request.host,
            "origin" => &mut request.origin,
            "sec-fetch-site" => &mut request.fetch_site,
            _ => continue,
        };
        // The values of a repeated header are joined. The access check accepts no joined value.
        let value = String::from_utf8_lossy(header.value);
        *field = Some(field.take().map_or_else(|| value.to_string(), |first| format!("{first}, {value}")));
    }
    Ok(Some(request))
}

/// Writes an answer with a body of `len` bytes.
pub(crate) fn respond(
    mut stream: &TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &mut dyn Read,
    len: u64,
) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        204 => "No Content",
        403 => "Forbidden",
        _ => "Not Found",
    };
    // RFC 9110, section 8.6, forbids a length with 204: <https://www.rfc-editor.org/rfc/rfc9110#section-8.6>
    let length = if status == 204 { String::new() } else { format!("Content-Length: {len}\r\n") };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n{length}Connection: close\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    io::copy(&mut body.take(len), &mut stream)?;
    stream.flush()
}

/// Writes an answer without a body.
pub(crate) fn respond_empty(stream: &TcpStream, status: u16, headers: &[(&str, &str)]) -> io::Result<()> {
    respond(stream, status, headers, &mut io::empty(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed_once_it_is_complete() {
        let head = b"GET /x?y HTTP/1.1\r\nHOST: localhost\r\nSec-Fetch-Site: none\r\nA: b\r\n\r\n";
        for len in 0..head.len() {
            assert_eq!(parse(&head[..len]).unwrap(), None, "{len}");
        }
        let expected = Request {
            method: "GET".into(),
            url: "/x?y".into(),
            host: Some("localhost".into()),
            origin: None,
            fetch_site: Some("none".into()),
        };
        assert_eq!(parse(head).unwrap(), Some(expected));
        assert!(parse(b"\x16\x03\x01 this is not HTTP\r\n\r\n").is_err());
    }

    #[test]
    fn a_repeated_host_is_not_ignored() {
        let head = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: example.org\r\n\r\n";
        assert_eq!(parse(head).unwrap().unwrap().host.unwrap(), "localhost, example.org");
    }
}
