//! How steps of a scenario end.

use std::error::Error;

pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;
