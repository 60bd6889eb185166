//! One request, one answer, and the connection is closed: all that a page on this machine needs of HTTP.
//!
//! tiny_http, which serves the hand-over, is not used here: it puts a connection that arrives together with another behind
//! it, where it waits until a browser closes the first, which can take minutes.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// A request line with its headers may be so long.
const HEAD_LEN_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// How long a connection may be silent. Browsers open some in advance.
const PATIENCE: Duration = Duration::from_mins(1);

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// From the first slash on.
    pub(super) url: String,
    pub(super) host: Option<String>,
    pub(super) origin: Option<String>,
    /// `Sec-Fetch-Site`: whether a page of ours has asked, as the browser says.
    pub(super) fetch_site: Option<String>,
}

/// Reads a request; a body is not read. `None` if there is none, or what is there is not HTTP.
pub(super) fn read(mut stream: &TcpStream) -> io::Result<Option<Request>> {
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

/// `None` if there has to come more.
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
        // Of a header that is there twice both count, and no such value is one that is let in.
        let value = String::from_utf8_lossy(header.value);
        *field = Some(field.take().map_or_else(|| value.to_string(), |first| format!("{first}, {value}")));
    }
    Ok(Some(request))
}

/// Writes an answer with `len` bytes of a body.
pub(super) fn respond(
    mut stream: &TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &mut dyn Read,
    len: u64,
) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        403 => "Forbidden",
        _ => "Not Found",
    };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\nContent-Length: {len}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    io::copy(&mut body.take(len), &mut stream)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_it_is_whole() {
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
    fn a_second_host_does_not_hide_behind_the_first() {
        let head = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: example.org\r\n\r\n";
        assert_eq!(parse(head).unwrap().unwrap().host.unwrap(), "localhost, example.org");
    }
}
