//! The protocol between commands and controller: one JSON object for each line, over a unix socket.

pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod folder;
pub(crate) mod request;
