//! The part of the container runtime interface that is used: messages of `runtime.v1`, with the field numbers of
//! <https://github.com/kubernetes/cri-api/blob/v0.32.0/pkg/apis/runtime/v1/api.proto>. Other fields are skipped.

use std::collections::BTreeMap;

/// The request of both calls: without a filter, for everything.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Everything {}

/// `ListContainersResponse`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Containers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<Container>,
}

/// `Container`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) pod_sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<ContainerMetadata>,
}

/// `ContainerMetadata`
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `ListPodSandboxResponse`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Sandboxes {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<Sandbox>,
}

/// `PodSandbox`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Sandbox {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<SandboxMetadata>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// `PodSandboxMetadata`
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct SandboxMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
}
