//! What the container runtime has said of the node's containers.

use std::collections::HashSet;

use xsched_pods::{Container, ContainerId, Pods};

/// What the container runtime has said last.
#[derive(Debug, Default)]
pub(super) struct KnownPods {
    pub(super) known: Pods,
    /// Containers whose annotations were complained of.
    complained: HashSet<ContainerId>,
}

impl KnownPods {
    pub(super) fn replace(&mut self, pods: Pods) {
        self.complained.retain(|id| pods.contains_key(id));
        self.known = pods;
    }

    /// Logs what is wrong with the annotations of a container's pod, once.
    pub(super) fn complain(&mut self, id: &ContainerId, pod: &Container) {
        if pod.asked.mistakes.is_empty() || !self.complained.insert(id.clone()) {
            return;
        }
        for mistake in &pod.asked.mistakes {
            tracing::warn!("pod {}/{}: {mistake}", pod.namespace.escape_debug(), pod.pod.escape_debug());
        }
    }
}
