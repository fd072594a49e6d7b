// Graphs: what a captured stream was given, kernels and other graphs behind each other, and the launch of all of it at once.
// While a stream is captured nothing of it runs: each piece becomes a node behind the one before, with the arguments of that
// moment. A call that waits, or that the driver does not serve meanwhile, is refused and ends the capture, which then has no
// graph. An executable graph keeps its nodes: their parameters may change, what they are may not.
// Modelled: a node of an executable graph takes 64 KiB of the card, in steps of 2 MiB (forums.developer.nvidia.com, 244901:
// 362, 395 and 458 MB with 500, 1000 and 2000 nodes, on driver 470), and gives it back when the graph goes. A capture is of one
// stream: events in it, and what a pool gives or takes meanwhile, are refused, where the driver has nodes for them.
#include "sim.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

namespace sim {

struct Graph;
struct Node {
    std::string name;
    bool is_kernel = false;          // by a launch or a library: told to fail as one
    bool is_ours = false;            // it has parameters that can be set
    std::function<Status()> run;
    std::shared_ptr<Graph> child;    // in place of it
};
// A chain: each node waits for the one before.
struct Graph { std::vector<std::shared_ptr<Node>> nodes; };
struct Capture {
    std::shared_ptr<Graph> graph = std::make_shared<Graph>();
    int mode = 0;                    // CU_STREAM_CAPTURE_MODE_*: global, of this thread, relaxed
    bool invalid = false;
};
struct Executable {
    std::map<Node *, size_t> at;     // the places of the nodes that it was made from
    Graph graph;                     // its own copies
    int device = 0;
    unsigned age = 0;                // of its context
    size_t bytes = 0;
};

static std::map<Graph *, std::shared_ptr<Graph>> &graphs() { static auto *m = new std::map<Graph *, std::shared_ptr<Graph>>; return *m; }
static std::unordered_set<Executable *> &executables() { static auto *s = new std::unordered_set<Executable *>; return *s; }
static std::shared_ptr<Graph> graph_of(void *handle) {
    auto it = graphs().find(static_cast<Graph *>(handle));
    return it == graphs().end() ? nullptr : it->second;
}
static Executable *executable_of(void *handle) {
    auto *e = static_cast<Executable *>(handle);
    if (!executables().count(e)) return nullptr;
    if (e->age != devices()[e->device].age) stale("an executable graph");
    return e;
}

static bool refuses(const char *what) {
    static const char *told = getenv("PLIMSOLL_SIM_GRAPH_REFUSES");
    return told && !strcmp(told, what);
}

bool captured(Stream *s, const char *name, const std::function<Status()> &run, bool is_kernel) {
    if (!s->capture) return false;
    auto node = std::make_shared<Node>();
    node->name = name;
    node->is_kernel = is_kernel;
    node->run = run;
    s->capture->graph->nodes.push_back(node);
    return true;
}

Status invalidate(Stream *s, Status why) {
    if (s->capture) s->capture->invalid = true;
    return s->capture ? why : OK;
}

bool library_is_refused(Stream *s) {
    count_call("library");
    return s->capture && (s->capture->invalid || (refuses("library") && invalidate(s, CAPTURE_UNSUPPORTED)));
}

Status not_in_capture(Device &d) {
    Status found = OK;
    for (Stream *s : d.streams)
        if (s->capture && s->capture->mode != 2) found = invalidate(s, CAPTURE_UNSUPPORTED);
    return found;
}

void reset_captures(Device &d) {
    for (Stream *s : d.streams) {
        delete s->capture;
        s->capture = nullptr;
    }
}

// All pieces in order, those of graphs within graphs too.
static void flatten(const Graph &g, std::vector<std::shared_ptr<Node>> &to) {
    for (auto &node : g.nodes)
        if (node->child) flatten(*node->child, to);
        else to.push_back(node);
}

// What may not change in an executable graph: which pieces there are.
static bool alike(const Graph &a, const Graph &b) {
    return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), [](auto &x, auto &y) {
        if (bool(x->child) != bool(y->child)) return false;
        return x->child ? alike(*x->child, *y->child) : x->is_kernel == y->is_kernel && (x->is_kernel || x->name == y->name);
    });
}

static Graph copy_of(const Graph &g) {
    Graph copy;
    for (auto &node : g.nodes) {
        copy.nodes.push_back(std::make_shared<Node>(*node));
        if (node->child) copy.nodes.back()->child = std::make_shared<Graph>(copy_of(*node->child));
    }
    return copy;
}

static int add(const std::shared_ptr<Graph> &g, void **to, void **after, size_t count, Node node) {
    void *last = g->nodes.empty() ? nullptr : g->nodes.back().get();
    if (count > 1 || (count ? after[0] : nullptr) != last) {
        complain("a graph that is no chain is not modelled");
        return NOT_SUPPORTED;
    }
    g->nodes.push_back(std::make_shared<Node>(std::move(node)));
    *to = g->nodes.back().get();
    return OK;
}

// CUDA_KERNEL_NODE_PARAMS, its second version.
struct KernelParams {
    void *function;
    unsigned extents[6], shared;
    void **params, **extra;
    void *kernel, *context;
};
static Status kernel_node(Device &d, const KernelParams &p, Node &node) {
    const char *name;
    if (Status bad = kernel_work(d, p.function, p.extents, p.shared, p.params, p.extra, node.run, name)) return bad;
    node.name = name;
    node.is_kernel = node.is_ours = true;
    return OK;
}

// A stream's trace names its work, which may outlive the graph.
static const char *lasting(const std::string &name) {
    static auto *names = new std::unordered_set<std::string>;
    return names->insert(name).first->c_str();
}

static void give_back(Executable *e) {
    Device &d = devices()[e->device];
    if (e->age == d.age) d.context -= std::min(d.context, e->bytes);
}

} // namespace sim
using namespace sim;

API int cuStreamBeginCapture_v2(void *stream, int mode) {
    SIM_DEVICE(d);
    Stream *s = stream_of(stream);
    if (!s || mode < 0 || mode > 2) return s ? INVALID_VALUE : INVALID_HANDLE;
    // The null stream cannot be captured; a stream is captured once at a time.
    if (refuses("capture") || s == d->null_stream) return CAPTURE_UNSUPPORTED;
    if (s->capture) return INVALID_VALUE;
    s->capture = new Capture;
    s->capture->mode = mode;
    return OK;
}
API int cuStreamEndCapture(void *stream, void **graph) {
    SIM_DEVICE(d);
    Stream *s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    *graph = nullptr;
    if (!s->capture) return CAPTURE_UNMATCHED;
    Capture ended = std::move(*s->capture);
    delete s->capture;
    s->capture = nullptr;
    if (ended.invalid) return CAPTURE_INVALIDATED;
    graphs()[ended.graph.get()] = ended.graph;
    *graph = ended.graph.get();
    return OK;
}
// 0: none, 1: active, 2: invalidated.
API int cuStreamIsCapturing(void *stream, int *status) {
    SIM_DEVICE(d);
    Stream *s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    *status = s->capture ? 1 + s->capture->invalid : 0;
    return OK;
}

API int cuGraphCreate(void **graph, unsigned flags) {
    SIM_DEVICE(d);
    if (flags) return INVALID_VALUE;
    auto made = std::make_shared<Graph>();
    graphs()[made.get()] = made;
    *graph = made.get();
    return OK;
}
API int cuGraphDestroy(void *graph) {
    Lock lock;
    return graphs().erase(static_cast<Graph *>(graph)) ? OK : INVALID_VALUE;
}
API int cuGraphAddKernelNode_v2(void **to, void *graph, void **after, size_t count, const KernelParams *params) {
    SIM_DEVICE(d);
    auto g = graph_of(graph);
    Node node;
    if (!g) return INVALID_VALUE;
    if (Status bad = kernel_node(*d, *params, node)) return bad;
    return add(g, to, after, count, std::move(node));
}
// The child is copied.
API int cuGraphAddChildGraphNode(void **to, void *graph, void **after, size_t count, void *child) {
    SIM_DEVICE(d);
    auto g = graph_of(graph), inner = graph_of(child);
    if (!g || !inner || g == inner) return INVALID_VALUE;
    Node node;
    node.child = std::make_shared<Graph>(copy_of(*inner));
    return add(g, to, after, count, std::move(node));
}
// In the order in which they were made, which the driver does not promise.
API int cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
    Lock lock;
    auto g = graph_of(graph);
    if (!g) return INVALID_VALUE;
    if (nodes)
        for (size_t i = 0; i < *count; i++) nodes[i] = i < g->nodes.size() ? g->nodes[i].get() : nullptr;
    *count = nodes ? std::min(*count, g->nodes.size()) : g->nodes.size();
    return OK;
}

API int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    auto g = graph_of(graph);
    if (!g) return INVALID_VALUE;
    if (refuses("instantiate")) return OUT_OF_MEMORY;
    std::vector<std::shared_ptr<Node>> pieces;
    flatten(*g, pieces);
    size_t bytes = round_up(pieces.size() * size_t(env("PLIMSOLL_SIM_GRAPH_KIB", 64)) * 1024, 2 * MIB);
    if (!grow_context(*d, bytes)) return OUT_OF_MEMORY;
    auto *e = new Executable;
    for (size_t i = 0; i < g->nodes.size(); i++) e->at[g->nodes[i].get()] = i;
    e->graph = copy_of(*g);
    e->device = current_index();
    e->age = d->age;
    e->bytes = bytes;
    executables().insert(e);
    *made = e;
    return OK;
}
// What is queued of it keeps what it needs.
API int cuGraphExecDestroy(void *executable) {
    Lock lock;
    auto *e = static_cast<Executable *>(executable);
    if (!executables().erase(e)) return INVALID_VALUE;
    give_back(e);
    delete e;
    return OK;
}
API int cuGraphUpload(void *executable, void *stream) {
    SIM_DEVICE(d);
    return executable_of(executable) && stream_of(stream) ? OK : INVALID_VALUE;
}
API int cuGraphLaunch(void *executable, void *stream) {
    SIM_DEVICE(d);
    Executable *e = executable_of(executable);
    Stream *s = stream_of(stream);
    if (!e || !s) return INVALID_VALUE;
    if (refuses("launch")) return LAUNCH_OUT_OF_RESOURCES;
    std::vector<std::shared_ptr<Node>> pieces;
    flatten(e->graph, pieces);
    for (auto &piece : pieces) {
        // Later changes are not of this launch.
        const char *name = lasting(piece->name);
        if (!piece->is_kernel) enqueue(s, name, piece->run);
        else if (Status bad = enqueue_kernel(s, name, piece->run)) return bad;
    }
    return OK;
}

// Only the parameters of nodes may differ. `result` is 0 or why not (CUgraphExecUpdateResult: 2, another topology).
struct UpdateResult { int result; void *node, *from; };
API int cuGraphExecUpdate_v2(void *executable, void *graph, UpdateResult *result) {
    SIM_DEVICE(d);
    Executable *e = executable_of(executable);
    auto g = graph_of(graph);
    if (!e || !g) return INVALID_VALUE;
    *result = {2, nullptr, nullptr};
    if (refuses("update") || !alike(e->graph, *g)) return GRAPH_UPDATE_FAILURE;
    e->graph = copy_of(*g);
    e->at.clear();
    for (size_t i = 0; i < g->nodes.size(); i++) e->at[g->nodes[i].get()] = i;
    result->result = 0;
    return OK;
}
// `node` is of the graph that it was made from.
API int cuGraphExecKernelNodeSetParams_v2(void *executable, void *node, const KernelParams *params) {
    SIM_DEVICE(d);
    Executable *e = executable_of(executable);
    if (!e || !e->at.count(static_cast<Node *>(node))) return INVALID_VALUE;
    Node &own = *e->graph.nodes[e->at[static_cast<Node *>(node)]];
    if (!own.is_ours || refuses("update")) return INVALID_VALUE;
    return kernel_node(*d, *params, own);
}
API int cuGraphExecChildGraphNodeSetParams(void *executable, void *node, void *child) {
    SIM_DEVICE(d);
    Executable *e = executable_of(executable);
    auto g = graph_of(child);
    if (!e || !g || !e->at.count(static_cast<Node *>(node))) return INVALID_VALUE;
    Node &own = *e->graph.nodes[e->at[static_cast<Node *>(node)]];
    if (!own.child || refuses("update") || !alike(*own.child, *g)) return INVALID_VALUE;
    own.child = std::make_shared<Graph>(copy_of(*g));
    return OK;
}
