//! One call of a gRPC service over HTTP/2 (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
//!
//! `h2` does HTTP/2. A gRPC library would bring a server, balancing and code generation for two calls without arguments.

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request, StatusCode};
use prost::Message;

/// Longest answer. A node has at most some hundred pods; one with 1,000 answers with 2 MB.
const ANSWER_LEN_MAX: usize = 16 << 20;

/// A message is preceded by whether it is compressed, and by its length.
const PREFIX_LEN: usize = 5;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum CallError {
    #[error("cannot connect: {0}")]
    Connect(#[source] std::io::Error),
    #[error("no answer within {0:?}")]
    Slow(std::time::Duration),
    #[error("HTTP/2: {0}")]
    Http2(#[from] h2::Error),
    #[error("status {0} instead of an answer")]
    Status(StatusCode),
    #[error("gRPC status {code}: {message}")]
    Grpc { code: String, message: String },
    #[error("the answer is longer than {ANSWER_LEN_MAX} bytes")]
    Long,
    #[error("the answer is damaged: {0}")]
    Damaged(&'static str),
    #[error("the answer is damaged: {0}")]
    Message(#[from] prost::DecodeError),
}

/// Calls a method, such as `/runtime.v1.RuntimeService/ListContainers`.
pub(crate) async fn call<Answer: Message + Default>(
    connection: &mut SendRequest<Bytes>,
    method: &'static str,
    message: &impl Message,
) -> Result<Answer, CallError> {
    let request = Request::post(format!("http://localhost{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("method and headers are printable");
    std::future::poll_fn(|context| connection.poll_ready(context)).await?;
    let (response, mut body) = connection.send_request(request, false)?;
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.encoded_len() as u32);
    message.encode(&mut framed).expect("the buffer grows");
    body.send_data(framed.freeze(), true)?;
    let response = response.await?;
    if response.status() != StatusCode::OK {
        return Err(CallError::Status(response.status()));
    }
    // An error without an answer has its status here, not behind the body.
    check(response.headers())?;
    let mut body = response.into_body();
    let mut answer = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        if answer.len() + part.len() > ANSWER_LEN_MAX {
            return Err(CallError::Long);
        }
        answer.extend_from_slice(&part);
    }
    if let Some(trailers) = body.trailers().await? {
        check(&trailers)?;
    }
    decode(answer.freeze())
}

fn check(headers: &HeaderMap) -> Result<(), CallError> {
    let text = |name: &str| {
        headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).escape_debug().to_string())
    };
    match text("grpc-status") {
        None => Ok(()),
        Some(code) if code == "0" => Ok(()),
        Some(code) => Err(CallError::Grpc { code, message: text("grpc-message").unwrap_or_default() }),
    }
}

fn decode<Answer: Message + Default>(mut framed: Bytes) -> Result<Answer, CallError> {
    if framed.len() < PREFIX_LEN {
        return Err(CallError::Damaged("it is too short"));
    }
    let prefix = framed.split_to(PREFIX_LEN);
    if prefix[0] != 0 {
        return Err(CallError::Damaged("it is compressed, which was not asked for"));
    }
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    if framed.len() != len as usize {
        return Err(CallError::Damaged("its length is wrong"));
    }
    Ok(Answer::decode(framed)?)
}
