// Graphs that are built node by node.

#define AREA "graphs"

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace {

constexpr unsigned COUNT = 64;

struct Graph {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;

    Graph() { OK(hipGraphCreate(&graph, 0)); }
    ~Graph() {
        if (exec != nullptr) (void)hipGraphExecDestroy(exec);
        (void)hipGraphDestroy(graph);
    }
    void instantiate() { OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0)); }
};

// A launch of `affine`'s kernel, with its arguments.
struct Affine {
    unsigned *data;
    unsigned count, factor, term;
    void *arguments[4] = {&data, &count, &factor, &term};
    hipKernelNodeParams params = {};

    Affine(unsigned *data, unsigned factor, unsigned term)
        : data(data), count(COUNT), factor(factor), term(term) {
        params.func = const_cast<void *>(affine_kernel());
        params.gridDim = dim3(1);
        params.blockDim = dim3(COUNT);
        params.kernelParams = arguments;
    }
    Affine(const Affine &) = delete;

    hipGraphNode_t add(hipGraph_t graph, std::vector<hipGraphNode_t> after = {}) {
        hipGraphNode_t node = nullptr;
        OK(hipGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
        return node;
    }
};

} // namespace

CASE(a_graph_runs_in_the_order_of_its_edges) {
    Device<unsigned> data(COUNT, 1);
    Graph graph;
    Affine first(data, 10, 0), second(data, 1, 7);
    hipGraphNode_t node = first.add(graph.graph);
    second.add(graph.graph, {node});
    graph.instantiate();
    REQUIRE(data.holds(1));
    Stream stream;
    OK(hipGraphLaunch(graph.exec, stream));
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(17));
}

CASE(edges_added_later_count) {
    Device<unsigned> data(COUNT, 1);
    Graph graph;
    Affine first(data, 10, 0), second(data, 1, 7);
    hipGraphNode_t later = second.add(graph.graph), earlier = first.add(graph.graph);
    OK(hipGraphAddDependencies(graph.graph, &earlier, &later, 1));
    graph.instantiate();
    Stream stream;
    OK(hipGraphLaunch(graph.exec, stream));
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(17));
}

CASE(a_graph_is_launched_many_times) {
    Device<unsigned> data(COUNT, 0);
    Graph graph;
    Affine step(data, 1, 1);
    step.add(graph.graph);
    graph.instantiate();
    Stream stream;
    for (int i = 0; i < 100; i++) OK(hipGraphLaunch(graph.exec, stream));
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(100));
}

CASE(a_graph_keeps_its_position_in_the_stream) {
    Device<unsigned> data(COUNT, 1);
    Graph graph;
    Affine step(data, 3, 0);
    step.add(graph.graph);
    graph.instantiate();
    Stream stream;
    Gate gate(stream);
    affine(stream, data, COUNT, 1, 1);
    OK(hipGraphLaunch(graph.exec, stream));
    affine(stream, data, COUNT, 1, 5);
    REFUSED(hipStreamQuery(stream), hipErrorNotReady);
    gate.open();
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(11));
}

CASE(a_node_reads_its_arguments_when_it_is_added) {
    Device<unsigned> data(COUNT, 0);
    Graph graph;
    {
        Affine step(data, 1, 4);
        step.add(graph.graph);
        step.term = 1000;
    }
    graph.instantiate();
    OK(hipGraphLaunch(graph.exec, nullptr));
    REQUIRE(data.holds(4));
}

CASE(copies_fills_and_host_functions_are_nodes) {
    Device<unsigned> data(COUNT, 9);
    Pinned<unsigned> host(COUNT, 0);
    Graph graph;
    hipMemsetParams fill = {};
    fill.dst = data;
    fill.elementSize = 4;
    fill.width = COUNT;
    fill.height = 1;
    fill.value = 6;
    hipGraphNode_t filled = nullptr, copied = nullptr, called = nullptr;
    OK(hipGraphAddMemsetNode(&filled, graph.graph, nullptr, 0, &fill));
    Affine step(data, 2, 1);
    hipGraphNode_t computed = step.add(graph.graph, {filled});
    OK(hipGraphAddMemcpyNode1D(&copied, graph.graph, &computed, 1, host, data, host.bytes(),
                               hipMemcpyDeviceToHost));
    hipHostNodeParams call = {};
    call.fn = [](void *memory) { static_cast<unsigned *>(memory)[0]++; };
    call.userData = host;
    OK(hipGraphAddHostNode(&called, graph.graph, &copied, 1, &call));
    graph.instantiate();
    Stream stream;
    OK(hipGraphLaunch(graph.exec, stream));
    OK(hipStreamSynchronize(stream));
    EQUAL(host[0], 14u);
    EQUAL(host[1], 13u);
}

CASE(branches_join_at_an_empty_node) {
    Device<unsigned> left(COUNT, 1), right(COUNT, 1), sum(COUNT, 0);
    Graph graph;
    Affine a(left, 2, 0), b(right, 3, 0), last(left, 1, 1);
    hipGraphNode_t branches[] = {a.add(graph.graph), b.add(graph.graph)};
    hipGraphNode_t join = nullptr;
    OK(hipGraphAddEmptyNode(&join, graph.graph, branches, 2));
    last.add(graph.graph, {join});
    graph.instantiate();
    OK(hipGraphLaunch(graph.exec, nullptr));
    REQUIRE(left.holds(3));
    REQUIRE(right.holds(3));
}

CASE(nodes_and_edges_are_listed) {
    Device<unsigned> data(COUNT, 1);
    Graph graph;
    Affine first(data, 1, 0), second(data, 1, 0);
    hipGraphNode_t one = first.add(graph.graph), two = second.add(graph.graph, {one});
    size_t nodes = 0, roots = 0, edges = 0;
    OK(hipGraphGetNodes(graph.graph, nullptr, &nodes));
    OK(hipGraphGetRootNodes(graph.graph, nullptr, &roots));
    OK(hipGraphGetEdges(graph.graph, nullptr, nullptr, &edges));
    EQUAL(nodes, 2u);
    EQUAL(roots, 1u);
    EQUAL(edges, 1u);
    // Compared only with each other, because the enumeration's values have changed since the oldest headers.
    hipGraphNode_t empty = nullptr;
    OK(hipGraphAddEmptyNode(&empty, graph.graph, &two, 1));
    hipGraphNodeType types[3] = {};
    OK(hipGraphNodeGetType(one, &types[0]));
    OK(hipGraphNodeGetType(two, &types[1]));
    OK(hipGraphNodeGetType(empty, &types[2]));
    EQUAL(types[0], types[1]);
    REQUIRE(types[0] != types[2]);
}

CASE(a_node_of_an_instance_is_changed) {
    Device<unsigned> data(COUNT, 0);
    Graph graph;
    Affine step(data, 1, 1), other(data, 1, 50);
    hipGraphNode_t node = step.add(graph.graph);
    graph.instantiate();
    OK(hipGraphLaunch(graph.exec, nullptr));
    OK(hipStreamSynchronize(nullptr));
    OK(hipGraphExecKernelNodeSetParams(graph.exec, node, &other.params));
    OK(hipGraphLaunch(graph.exec, nullptr));
    REQUIRE(data.holds(51));
}

CASE(an_instance_is_updated_from_another_graph) {
    Device<unsigned> data(COUNT, 0);
    Graph graph, changed;
    Affine step(data, 1, 1), other(data, 1, 30);
    step.add(graph.graph);
    other.add(changed.graph);
    graph.instantiate();
    hipGraphNode_t where = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateError;
    OK(hipGraphExecUpdate(graph.exec, changed.graph, &where, &result));
    EQUAL(result, hipGraphExecUpdateSuccess);
    OK(hipGraphLaunch(graph.exec, nullptr));
    REQUIRE(data.holds(30));
}

CASE(an_update_of_another_shape_is_refused) {
    Device<unsigned> data(COUNT, 0);
    Graph graph, changed;
    Affine step(data, 1, 1), more(data, 1, 30);
    step.add(graph.graph);
    more.add(changed.graph, {step.add(changed.graph)});
    graph.instantiate();
    hipGraphNode_t where = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
    REFUSED(hipGraphExecUpdate(graph.exec, changed.graph, &where, &result), hipErrorGraphExecUpdateFailure);
    REQUIRE(result != hipGraphExecUpdateSuccess);
}

CASE(an_instance_outlives_its_graph) {
    Device<unsigned> data(COUNT, 0);
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    OK(hipGraphCreate(&graph, 0));
    Affine step(data, 1, 2);
    step.add(graph);
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphDestroy(graph));
    OK(hipGraphLaunch(exec, nullptr));
    REQUIRE(data.holds(2));
    OK(hipGraphExecDestroy(exec));
}

CASE(a_clone_is_a_graph_of_its_own) {
    Device<unsigned> data(COUNT, 0);
    Graph graph;
    Affine step(data, 1, 3);
    step.add(graph.graph);
    hipGraph_t clone = nullptr;
    hipGraphExec_t exec = nullptr;
    OK(hipGraphClone(&clone, graph.graph));
    OK(hipGraphInstantiate(&exec, clone, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, nullptr));
    REQUIRE(data.holds(3));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(clone));
}

CASE(a_graph_is_a_node_of_another) {
    Device<unsigned> data(COUNT, 1);
    Graph inner, outer;
    Affine step(data, 5, 0), last(data, 1, 2);
    step.add(inner.graph);
    hipGraphNode_t child = nullptr;
    OK(hipGraphAddChildGraphNode(&child, outer.graph, nullptr, 0, inner.graph));
    last.add(outer.graph, {child});
    outer.instantiate();
    OK(hipGraphLaunch(outer.exec, nullptr));
    REQUIRE(data.holds(7));
}

CASE(no_graph_is_refused) {
    hipGraphExec_t exec = nullptr;
    REFUSED(hipGraphCreate(nullptr, 0), hipErrorInvalidValue);
    REFUSED(hipGraphInstantiate(&exec, nullptr, nullptr, nullptr, 0), hipErrorInvalidValue);
    REFUSED(hipGraphLaunch(nullptr, nullptr), hipErrorInvalidValue);
    REFUSED(hipGraphDestroy(nullptr), hipErrorInvalidValue);
}
