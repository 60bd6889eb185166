//! Pods of Kubernetes: which processes belong to which, as the container runtime says.

use std::collections::BTreeSet;
use std::path::PathBuf;

use xsched_pods::{ContainerId, Pods};

use super::Controller;
use crate::subject::Subject;

impl Controller {
    /// Where to ask for pods; `None` if that is not wanted.
    pub(crate) fn runtime_sockets(&self) -> Option<Vec<PathBuf>> {
        self.config.kubernetes.as_ref().map(|kubernetes| kubernetes.sockets.clone())
    }

    /// The containers of processes whose pods are not known.
    pub(crate) fn unnamed(&self) -> BTreeSet<ContainerId> {
        let unnamed = self.clients.values().filter(|client| client.subject.pod.is_none());
        unnamed.filter_map(|client| client.subject.container.clone()).collect()
    }

    /// Takes in what the container runtime says, and updates the scheduling parameters of the processes that it names. A container
    /// keeps its pod, and the pod its annotations, for as long as the container lives.
    pub(crate) fn learn_pods(&mut self, pods: Pods) {
        self.pods.replace(pods);
        let mut named = Vec::new();
        for (&id, client) in &mut self.clients {
            let subject = &mut client.subject;
            let Some(container) = subject.container.as_ref().filter(|_| subject.pod.is_none()) else {
                continue;
            };
            let Some(pod) = self.pods.known.get(container) else { continue };
            subject.pod = Some(pod.clone());
            self.pods.complain_of(subject);
            named.push(id);
        }
        for id in named {
            self.restand(id);
        }
    }

    /// Reads what there is about a process. The caller must make sure that the id was not reused meanwhile.
    pub(super) fn subject(&self, pid: u32, uid: u32) -> Subject {
        let mut subject = Subject::read(pid, uid, &self.users);
        subject.pod = subject.container.as_ref().and_then(|id| self.pods.known.get(id).cloned());
        subject
    }
}
