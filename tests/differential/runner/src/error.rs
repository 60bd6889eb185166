//! Why the program ends without outcomes.

pub(crate) type Error = Box<dyn std::error::Error>;
