//! What commands and controller say to each other: one JSON object a line, over a unix socket.

pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod folder;
pub(crate) mod request;
