//! Pods of processes, as the controller knows them, for views that it does not make.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;
use xsched_control_api::{answer::Answer, client, request::Request};

/// How often the controller is asked. It learns of a pod within some seconds.
const LOOK: Duration = Duration::from_secs(2);

/// `NAMESPACE/POD/CONTAINER` by process id.
pub(crate) type Pods = HashMap<u32, String>;

/// Keeps asking the controller, if there is one, for as long as the receiver is kept.
pub(crate) fn follow() -> watch::Receiver<Pods> {
    let (tell, pods) = watch::channel(Pods::new());
    tokio::spawn(async move {
        while !tell.is_closed() {
            // Without an answer the processes keep the names that they have.
            if let Ok(Answer::List(list)) = client::ask(&Request::List {}).await {
                let of_pods =
                    list.processes.into_iter().filter_map(|one| Some((one.pid, one.pod?.to_string())));
                tell.send_replace(of_pods.collect());
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    pods
}
