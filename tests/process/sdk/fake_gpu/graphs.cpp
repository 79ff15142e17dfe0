// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of a simulated GPU: captured streams, and graphs made of them.
#include "tests/process/sdk/fake_gpu/engine.hpp"

#include <optional>

using namespace fake_gpu;

namespace {

using Kind = Graph::Kind;

/// A graph that can be launched: one launch after the other, in any streams.
struct Executable {
    std::shared_ptr<const Graph> graph;
    std::shared_ptr<Moment> last{};
};

Handles<Executable>& executables() {
    static auto* const all = new Handles<Executable>;
    return *all;
}

std::optional<CaptureMode> mode_of(int number) {
    if (number < 0 || number > 2) return std::nullopt;
    return static_cast<CaptureMode>(number);
}

enum CaptureStatus { is_not_capturing = 0, is_capturing = 1, is_spoilt = 2 };

CaptureStatus status_of(const Stream& stream) {
    if (!stream.capture) return is_not_capturing;
    return stream.capture->is_invalid ? is_spoilt : is_capturing;
}

void put(
    Engine& engine,
    Stream& lane,
    const Graph::Node& node,
    const std::vector<std::shared_ptr<Moment>>& moments) {
    const auto moment = node.kind == Kind::work ? nullptr : moments[node.moment];
    switch (node.kind) {
        case Kind::work: engine.push(lane, node.work()); break;
        case Kind::reach: engine.push(lane, [moment] { return moment->has_come = true; }); break;
        case Kind::await: engine.push_await(lane, moment); break;
    }
}

/// Each lane becomes a stream that ends with its last node.
void launch(Stream& stream, Executable& executable) {
    auto& engine = Engine::only();
    const auto& graph = *executable.graph;
    const auto begin = engine.reach(stream);
    std::vector<std::shared_ptr<Stream>> lanes;
    for (std::size_t i = 0; i < graph.lanes; ++i) {
        lanes.push_back(engine.make_stream(*stream.context, false));
        engine.push_await(*lanes.back(), begin);
        engine.push_await(*lanes.back(), executable.last);
    }
    std::vector<std::shared_ptr<Moment>> moments;
    for (std::size_t i = 0; i < graph.moments; ++i)
        moments.push_back(std::make_shared<Moment>());
    for (const auto& node : graph.nodes)
        put(engine, *lanes[node.lane], node, moments);
    for (const auto& lane : lanes) {
        engine.push_await(stream, engine.reach(*lane));
        lane->is_destroyed = true;
    }
    executable.last = engine.reach(stream);
}

}  // namespace

extern "C" int cuStreamBeginCapture_v2(void* stream, int mode) {
    return in_stream(stream, [&](Context&, Stream& captured) -> int {
        const auto known = mode_of(mode);
        return known ? Engine::only().begin_capture(captured, *known) : invalid_value;
    });
}

extern "C" int cuStreamEndCapture(void* stream, void** graph) {
    *graph = nullptr;
    return in_stream(stream, [&](Context&, Stream& captured) -> int {
        std::shared_ptr<Graph> made;
        const int status = Engine::only().end_capture(captured, made);
        if (status == success) *graph = Engine::only().graphs.add(std::move(made));
        return status;
    });
}

extern "C" int cuStreamIsCapturing(void* stream, int* status) {
    return in_stream(stream, [&](Context&, Stream& asked) {
        *status = status_of(asked);
        return success;
    });
}

extern "C" int cuStreamGetCaptureInfo_v2(
    void* stream,
    int* status,
    std::uint64_t* number,
    void** graph,
    const void*** dependencies,
    std::size_t* count) {
    return in_stream(stream, [&](Context&, Stream& asked) {
        *status = status_of(asked);
        if (number) *number = asked.capture ? asked.capture->number : 0;
        if (graph) *graph = asked.capture ? asked.capture->graph.get() : nullptr;
        if (dependencies) *dependencies = nullptr;
        if (count) *count = 0;
        return success;
    });
}

extern "C" int cuStreamGetCaptureInfo_v3(
    void* stream,
    int* status,
    std::uint64_t* number,
    void** graph,
    const void*** dependencies,
    const void** edges,
    std::size_t* count) {
    if (edges) *edges = nullptr;
    return cuStreamGetCaptureInfo_v2(stream, status, number, graph, dependencies, count);
}

extern "C" int cuThreadExchangeStreamCaptureMode(int* mode) {
    const auto wanted = mode_of(*mode);
    if (!wanted) return invalid_value;
    *mode = static_cast<int>(std::exchange(mode_of_thread(), *wanted));
    return success;
}

extern "C" int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
    return in_context([&](Context&) -> int {
        auto* const found = Engine::only().graphs.find(graph);
        if (!found) return invalid_handle;
        *executable = executables().add(
            std::make_shared<Executable>(Executable{std::make_shared<Graph>(*found)}));
        return success;
    });
}

extern "C" int cuGraphGetNodes(void* graph, void**, std::size_t* count) {
    return in_context([&](Context&) -> int {
        const auto* const found = Engine::only().graphs.find(graph);
        if (!found) return invalid_handle;
        *count = 0;
        for (const auto& node : found->nodes)
            *count += node.kind == Kind::work ? 1 : 0;
        return success;
    });
}

extern "C" int cuGraphUpload(void* executable, void* stream) {
    return in_stream(stream, [&](Context&, Stream&) {
        return executables().find(executable) ? success : invalid_handle;
    });
}

extern "C" int cuGraphLaunch(void* executable, void* stream) {
    return in_stream(stream, [&](Context&, Stream& into) -> int {
        auto* const found = executables().find(executable);
        if (!found) return invalid_handle;
        if (into.capture) {
            into.capture->is_invalid = true;
            return capture_unsupported;
        }
        launch(into, *found);
        return success;
    });
}

extern "C" int cuGraphExecDestroy(void* executable) {
    return in_context(
        [&](Context&) { return executables().take(executable) ? success : invalid_handle; });
}

extern "C" int cuGraphDestroy(void* graph) {
    return in_context(
        [&](Context&) { return Engine::only().graphs.take(graph) ? success : invalid_handle; });
}
