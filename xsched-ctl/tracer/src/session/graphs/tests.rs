use xsched_abi::PROBES;
use zerocopy::FromZeros as _;

use super::super::known::Known;
use super::*;

const STREAM: u64 = 0x51;
const OTHER_STREAM: u64 = 0x52;

/// The calls of a process with graphs.
#[derive(Default)]
struct Story(Known);

impl Story {
    fn call(&mut self, name: &str, words: &[u64], out: u64) -> Option<Nodes> {
        let probe = PROBES.iter().find(|probe| probe.name == name).unwrap();
        let mut call = Call::new_zeroed();
        (call.tgid, call.tid, call.out) = (1, 1, out);
        call.words[..words.len()].copy_from_slice(words);
        self.0.graph_call(probe, &call)
    }

    fn launches(&mut self, stream: u64, count: usize) {
        for _ in 0..count {
            self.call("hipLaunchKernel", &[0xf, 0, 0, 0, 0, 0, 0, stream], 0);
        }
    }

    /// Instantiates and launches a graph.
    fn launch(&mut self, graph: u64) -> Option<(u32, u32)> {
        self.call("hipGraphInstantiate", &[0, graph], 0xe);
        self.call("hipGraphLaunch", &[0xe, 0x99], 0).map(|nodes| (nodes.kernels, nodes.all))
    }
}

#[test]
fn graphs_that_are_built_node_by_node() {
    let mut story = Story::default();
    story.call("hipGraphCreate", &[], 0xa);
    for node in 1..=3 {
        story.call("hipGraphAddKernelNode", &[0, 0xa], node);
    }
    story.call("hipGraphAddMemsetNode", &[0, 0xa], 4);
    story.call("hipGraphDestroyNode", &[3], 0);
    assert_eq!(story.launch(0xa), Some((2, 3)));
    // Contained in another graph, twice, with a kernel added by `hipGraphAddNode`.
    story.call("hipGraphCreate", &[], 0xb);
    story.call("hipGraphAddChildGraphNode", &[0, 0xb, 0, 0, 0xa], 5);
    story.call("hipGraphAddChildGraphNode", &[0, 0xb, 0, 0, 0xa], 6);
    story.call("hipGraphAddNode", &[0, 0xb, 0, 0, 0, 0, 0], 7);
    assert_eq!(story.launch(0xb), Some((5, 7)));
    story.call("hipGraphClone", &[0, 0xb], 0xc);
    assert_eq!(story.launch(0xc), Some((5, 7)));
    // The same handle again, for an empty graph.
    story.call("hipGraphDestroy", &[0xb], 0);
    assert_eq!(story.launch(0xb), None);
    story.call("hipGraphCreate", &[], 0xb);
    assert_eq!(story.launch(0xb), Some((0, 0)));
}

#[test]
fn graphs_that_are_captured_from_several_streams() {
    let mut story = Story::default();
    story.call("hipStreamBeginCapture", &[STREAM, 0], 0);
    story.launches(STREAM, 2);
    story.launches(OTHER_STREAM, 9); // not captured yet
    story.call("hipEventRecord", &[0xee, STREAM], 0);
    story.call("hipStreamWaitEvent", &[OTHER_STREAM, 0xee, 0], 0);
    story.launches(OTHER_STREAM, 3);
    story.call("hipMemsetAsync", &[0, 0, 0, OTHER_STREAM], 0);
    story.call("hipStreamEndCapture", &[STREAM], 0xa);
    story.launches(STREAM, 5); // not captured any more
    assert_eq!(story.launch(0xa), Some((5, 6)));
    // The event no longer belongs to a capture.
    story.call("hipStreamWaitEvent", &[STREAM, 0xee, 0], 0);
    story.call("hipStreamBeginCapture", &[OTHER_STREAM, 0], 0);
    story.launches(STREAM, 1);
    story.call("hipStreamEndCapture", &[OTHER_STREAM], 0xb);
    assert_eq!(story.launch(0xb), Some((0, 0)));
}

#[test]
fn graphs_of_cuda_in_each_version_of_its_functions() {
    let mut story = Story::default();
    story.call("cuStreamBeginCapture_v2", &[STREAM, 0], 0);
    story.call("cuLaunchKernel", &[0xf, 1, 1, 1, 1, 1, 1, 0, STREAM], 0);
    story.call("cuLaunchKernelEx", &[0, 0xf, 0, 0, 0, 0, 0, 0, 0, 0, STREAM], 0);
    // The null stream of such a function is the thread's, which is not captured.
    story.call("cuLaunchKernel_ptsz", &[0xf, 1, 1, 1, 1, 1, 1, 0, 0], 0);
    story.call("cuMemsetD32Async", &[0, 0, 4, STREAM], 0);
    story.call("cuStreamEndCapture", &[STREAM], 0xa);
    story.call("cuGraphAddKernelNode_v2", &[0, 0xa], 1);
    story.call("cuGraphAddNode_v2", &[0, 0xa, 0, 0, 0, 0, 2], 2);
    story.call("cuGraphInstantiateWithFlags", &[0, 0xa], 0xe);
    assert_eq!(story.call("cuGraphLaunch_ptsz", &[0xe, 0], 0), Some(Nodes { kernels: 3, all: 5 }));
    // A conditional node starts as much as its condition says.
    story.call("cuGraphAddNode_v2", &[0, 0xa, 0, 0, 0, 0, 13], 3);
    story.call("cuGraphInstantiate_v2", &[0, 0xa], 0xe);
    assert_eq!(story.call("cuGraphLaunch", &[0xe, STREAM], 0), None);
}

#[test]
fn a_captured_graph_launch_counts_with_its_kernels() {
    let mut story = Story::default();
    story.call("hipStreamBeginCapture", &[STREAM, 0], 0);
    story.launches(STREAM, 4);
    story.call("hipStreamEndCapture", &[STREAM], 0xa);
    story.call("hipGraphInstantiate", &[0, 0xa], 0xe1);
    story.call("hipStreamBeginCapture", &[STREAM, 0], 0);
    story.launches(STREAM, 1);
    story.call("hipGraphLaunch", &[0xe1, STREAM], 0);
    story.call("hipStreamEndCapture", &[STREAM], 0xb);
    assert_eq!(story.launch(0xb), Some((5, 5)));
}

#[test]
fn unknown_counts_are_not_given() {
    let mut story = Story::default();
    assert_eq!(story.launch(0x77), None, "from before recording began");
    story.call("hipStreamEndCapture", &[STREAM], 0xa);
    assert_eq!(story.launch(0xa), None, "its capture began before");
    story.call("hipGraphCreate", &[], 0xb);
    story.call("hipGraphAddChildGraphNode", &[0, 0xb, 0, 0, 0x77], 1);
    assert_eq!(story.launch(0xb), None, "it contains one of which nothing is known");
    story.call("hipGraphCreate", &[], 0xc);
    story.call("hipGraphDestroyNode", &[0x1234], 0);
    assert_eq!(story.launch(0xc), None, "the node may have been its");
    story.call("hipGraphCreate", &[], 0xd);
    assert_eq!(story.launch(0xd), Some((0, 0)));
    story.call("hipGraphNodeSetEnabled", &[0xe, 1, 0], 0);
    assert_eq!(story.call("hipGraphLaunch", &[0xe, 0], 0), None, "a node is disabled");
}

#[test]
fn no_count_is_given_once_calls_were_lost() {
    let mut story = Story::default();
    story.call("hipGraphCreate", &[], 0xa);
    story.0.set_graphs_incomplete(true);
    story.call("hipGraphAddKernelNode", &[0, 0xa], 1);
    assert_eq!(story.launch(0xa), None);
    story.0.set_graphs_incomplete(false);
    assert_eq!(story.launch(0xa), None);
    story.call("hipGraphCreate", &[], 0xb);
    assert_eq!(story.launch(0xb), Some((0, 0)));
}
