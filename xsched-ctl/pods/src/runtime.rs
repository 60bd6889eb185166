//! Asks the container runtime for all containers and pods.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::annotations::Asked;
use crate::cgroup::ContainerId;
use crate::grpc::{CallError, call};
use crate::messages::{Containers, Everything, Sandboxes};

/// Where container runtimes listen, if the configuration does not say: containerd, CRI-O, k3s.
pub const SOCKETS: [&str; 3] =
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"];

/// How long a runtime may take for both answers. A busy one takes a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// A container of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's own name.
    pub name: String,
    /// What the pod asks for.
    pub asked: Asked,
}

/// The containers of a node's pods.
pub type Pods = HashMap<ContainerId, Arc<Container>>;

/// Asks the runtime behind this socket.
pub async fn list(socket: &Path) -> Result<Pods, CallError> {
    timeout(PATIENCE, list_patiently(socket)).await.unwrap_or(Err(CallError::Slow(PATIENCE)))
}

async fn list_patiently(socket: &Path) -> Result<Pods, CallError> {
    let stream = UnixStream::connect(socket).await.map_err(CallError::Connect)?;
    // A connection for each question: whatever has happened to the runtime meanwhile, this one is new.
    let (mut requests, connection) = h2::client::handshake(stream).await?;
    let asked = async {
        // A pod exists before its containers, so one that is asked about second is known for each container.
        let containers = ask(&mut requests, "/runtime.v1.RuntimeService/ListContainers").await?;
        let sandboxes = ask(&mut requests, "/runtime.v1.RuntimeService/ListPodSandbox").await?;
        Ok(joined(containers, sandboxes))
    };
    tokio::select! {
        pods = asked => pods,
        end = connection => match end {
            Ok(()) => Err(CallError::Damaged("the connection ended")),
            Err(error) => Err(error.into()),
        },
    }
}

async fn ask<Answer: prost::Message + Default>(
    requests: &mut SendRequest<Bytes>,
    method: &'static str,
) -> Result<Answer, CallError> {
    call(requests, method, &Everything {}).await
}

fn joined(containers: Containers, sandboxes: Sandboxes) -> Pods {
    let pods: HashMap<_, _> = sandboxes
        .items
        .into_iter()
        .map(|sandbox| (sandbox.id, (sandbox.metadata.unwrap_or_default(), Asked::of(&sandbox.annotations))))
        .collect();
    let of_pods = containers.containers.into_iter().filter_map(|container| {
        let (pod, asked) = pods.get(&container.pod_sandbox_id)?;
        let found = Container {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            name: container.metadata.unwrap_or_default().name,
            asked: asked.clone(),
        };
        Some((ContainerId::new(container.id)?, Arc::new(found)))
    });
    of_pods.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::{BufMut as _, BytesMut};
    use http::{HeaderMap, Response};
    use prost::Message;
    use tempfile::TempDir;
    use tokio::net::UnixListener;
    use xsched_control_api::parameters::Wish;

    use super::*;
    use crate::messages::{Container as Raw, ContainerMetadata, Sandbox, SandboxMetadata};

    /// What a runtime does with a connection.
    #[derive(Clone, Copy)]
    enum Mood {
        Answers,
        Refuses,
        Hangs,
        Babbles,
    }

    fn id(number: usize) -> String {
        format!("{number:064x}")
    }

    fn framed(message: &impl Message) -> Bytes {
        let mut framed = BytesMut::new();
        framed.put_u8(0);
        framed.put_u32(message.encoded_len() as u32);
        message.encode(&mut framed).unwrap();
        framed.freeze()
    }

    /// A node with this many pods, each with one container; the last one's sandbox is gone.
    fn answer(method: &str, pods: usize) -> Bytes {
        if method.ends_with("/ListContainers") {
            let container = |number| Raw {
                id: id(number),
                pod_sandbox_id: format!("sandbox-{number}"),
                metadata: Some(ContainerMetadata { name: "train".to_owned() }),
            };
            return framed(&Containers { containers: (0..=pods).map(container).collect() });
        }
        let sandbox = |number| Sandbox {
            id: format!("sandbox-{number}"),
            metadata: Some(SandboxMetadata { name: format!("pod-{number}"), namespace: "team".to_owned() }),
            annotations: BTreeMap::from([("xsched.dev/weight".to_owned(), "7".to_owned())]),
        };
        framed(&Sandboxes { items: (0..pods).map(sandbox).collect() })
    }

    async fn serve(stream: UnixStream, mood: Mood, pods: usize) {
        let mut connection = match mood {
            Mood::Hangs => return std::future::pending().await,
            Mood::Babbles => {
                return drop(stream.try_write(b"220 mail.example ESMTP ready, and more than nine bytes\r\n"));
            }
            Mood::Answers | Mood::Refuses => h2::server::handshake(stream).await.unwrap(),
        };
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let mut trailers = HeaderMap::new();
            let head = Response::builder().header("content-type", "application/grpc");
            if matches!(mood, Mood::Refuses) {
                let head = head.header("grpc-status", "12").header("grpc-message", "unknown service");
                respond.send_response(head.body(()).unwrap(), true).unwrap();
                continue;
            }
            let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
            body.send_data(answer(request.uri().path(), pods), false).unwrap();
            trailers.insert("grpc-status", "0".parse().unwrap());
            body.send_trailers(trailers).unwrap();
        }
    }

    /// A runtime's socket; the folder goes last.
    fn start(mood: Mood, pods: usize) -> (std::path::PathBuf, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cri.sock");
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, mood, pods));
            }
        });
        (path, folder)
    }

    #[tokio::test]
    async fn containers_have_the_names_and_wishes_of_their_pods() {
        let (path, _folder) = start(Mood::Answers, 200);
        for _ in 0..2 {
            let pods = list(&path).await.unwrap();
            assert_eq!(pods.len(), 200, "the container without a pod is left out");
            let found = &pods[&ContainerId::new(id(199)).unwrap()];
            let wish = Wish { weight: Some(7), ..Wish::default() };
            let expected = Container {
                namespace: "team".to_owned(),
                pod: "pod-199".to_owned(),
                name: "train".to_owned(),
                asked: Asked { wish, mistakes: Vec::new() },
            };
            assert_eq!(**found, expected);
        }
    }

    #[tokio::test]
    async fn a_runtime_that_refuses_or_speaks_otherwise_is_an_error() {
        let (path, _folder) = start(Mood::Refuses, 0);
        let error = list(&path).await.unwrap_err();
        assert_eq!(error.to_string(), "gRPC status 12: unknown service");
        let (path, _folder) = start(Mood::Babbles, 0);
        assert!(list(&path).await.is_err());
        let nowhere = path.with_file_name("nowhere");
        assert!(matches!(list(&nowhere).await, Err(CallError::Connect(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_hangs_is_given_up() {
        let (path, _folder) = start(Mood::Hangs, 0);
        assert!(matches!(list(&path).await, Err(CallError::Slow(_))));
    }
}
