//! Answers the endpoint for metrics, which runs on a thread of its own (crate `xsched_metrics`).

use std::convert::Infallible;

use xsched_metrics::Endpoint;
use xsched_symbols::now_ns;

use super::config::Config;
use crate::error::ServeError;
use crate::shared::Shared;

/// Starts the endpoint, if there is to be one.
pub(super) fn start(config: &Config) -> Result<Option<Endpoint>, ServeError> {
    let listen = config.metrics.listen.as_ref();
    let endpoint = listen.map(|listen| Endpoint::start(listen, config.metrics.access)).transpose()?;
    Ok(endpoint)
}

/// Gives the endpoint what it asks for.
pub(super) async fn follow(shared: &Shared, endpoint: Option<Endpoint>) -> Infallible {
    if let Some(mut endpoint) = endpoint {
        while let Some(ask) = endpoint.next().await {
            let snapshot = shared.with(|controller| controller.snapshot(now_ns()));
            if let Some(snapshot) = snapshot {
                // The reader may have gone.
                let _ = ask.send(snapshot);
            }
        }
    }
    // Without an endpoint, also if its thread has ended, the controller goes on.
    std::future::pending().await
}
