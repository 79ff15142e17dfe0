// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check.hpp"
#include "stream.hpp"

namespace gpu {

/// Work that is recorded once and can be launched repeatedly with one call.
class Graph {
public:
    Graph() = default;

    /// Records what `work` enqueues in `stream`, and in streams that it forks from that one and
    /// joins again; nothing is executed. `work` must not wait on the host.
    template <class Work>
    static Graph record(const Stream& stream, const Work& work) {
        check(
            cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED),
            "beginning to record a graph");
        try {
            work();
        } catch (...) {
            CUgraph half = nullptr;
            cuStreamEndCapture(stream.get(), &half);
            if (half != nullptr) cuGraphDestroy(half);
            throw;
        }
        CUgraph recorded = nullptr;
        check(cuStreamEndCapture(stream.get(), &recorded), "recording a graph");
        const Owned<CUgraph, cuGraphDestroy> owned{recorded};
        CUgraphExec executable = nullptr;
        check(cuGraphInstantiate(&executable, recorded, 0), "making a graph ready");
        Graph graph;
        graph.executable_ = decltype(graph.executable_){executable};
        return graph;
    }

    void launch(const Stream& stream) const {
        check(cuGraphLaunch(executable_.get(), stream.get()), "launching a graph");
    }
    explicit operator bool() const { return static_cast<bool>(executable_); }

private:
    Owned<CUgraphExec, cuGraphExecDestroy> executable_;
};

}  // namespace gpu
