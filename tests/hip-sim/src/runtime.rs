//! The start of this copy of the library, and its tables. Each table is made with its first use, in the file of what it lists.

use std::sync::Once;

use crate::{counters, fork};

/// What comes before the first use of any table.
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        fork::watch();
        counters::report_at_exit();
    });
}

/// Defines the function that returns a table of this copy of the library.
macro_rules! table {
    ($(#[$doc:meta])* $visibility:vis $name:ident: $type:ty = $new:expr) => {
        $(#[$doc])*
        $visibility fn $name() -> &'static $type {
            static TABLE: std::sync::OnceLock<$type> = std::sync::OnceLock::new();
            TABLE.get_or_init(|| {
                $crate::runtime::start();
                $new
            })
        }
    };
}

pub(crate) use table;
