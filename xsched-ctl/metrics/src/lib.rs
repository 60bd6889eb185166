//! Metrics of the controller: what it counts, and the HTTP endpoint that monitoring systems read.
//!
//! ```text
//!   controller's thread                           endpoint's thread
//!   Tally: counters by labels  --- Snapshot --->  OpenMetrics text  --->  GET /metrics
//! ```
//!
//! The endpoint asks for a [`Snapshot`], and the controller answers when it has nothing else to do. A slow or hostile reader can
//! delay other readers only.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `catalogue` | the list of metrics: name, unit, labels, help |
//! | `tally`, `histogram` | counting, with a bound on the number of label sets |
//! | `snapshot` | what a scrape shows, and its text |
//! | `listen`, `socket` | where the endpoint listens, and making that socket |
//! | `endpoint` | answering requests |

mod catalogue;
mod endpoint;
mod error;
mod histogram;
mod listen;
mod snapshot;
mod socket;
mod tally;

pub use catalogue::{Kind, METRICS, Metric};
pub use endpoint::{Ask, Endpoint};
pub use error::MetricsError;
pub use histogram::BUCKETS_S;
pub use listen::{Access, Listen, NotListen};
pub use snapshot::{Facts, Snapshot};
pub use tally::{GROUPS_MAX, Group, Labels, ORIGINS_MAX, Tally};
