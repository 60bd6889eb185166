//! What the controller and its clients say to each other: where its sockets are, requests and answers as one JSON object a line,
//! and the memory of event rings. Also how each end identifies the process at the other.

pub mod answer;
pub mod call_memory;
pub mod client;
pub mod device_address;
pub mod folder;
pub mod parameters;
pub mod peer;
pub mod readiness;
pub mod request;
pub mod ring_memory;
pub mod socket_file;
