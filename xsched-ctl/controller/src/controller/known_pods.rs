//! What the container runtime has said of the node's containers.

use std::collections::HashSet;

use xsched_pods::{ContainerId, Pods};

use crate::subject::Subject;

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

    /// Logs what is wrong with the annotations of a process's pod, once for each container.
    pub(super) fn complain_of(&mut self, subject: &Subject) {
        let (Some(id), Some(pod)) = (&subject.container, &subject.pod) else { return };
        if pod.asked.mistakes.is_empty() || !self.complained.insert(id.clone()) {
            return;
        }
        for mistake in &pod.asked.mistakes {
            tracing::warn!("pod {}/{}: {mistake}", pod.namespace.escape_debug(), pod.pod.escape_debug());
        }
    }
}
