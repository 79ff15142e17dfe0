// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/output/writer.hpp"
#include "rendezvous/base/result.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// One stream of one worker on its way through the agent: read from a pipe as soon as something is
/// there and handed to the writer, while the last bytes are kept for the report.
///
/// The worker's output ends with what the pipe contains at its exit, not at end of file: a
/// grandchild may keep the pipe open for ever. While the writer's backlog is full nothing is read,
/// so the worker blocks as it would on the console itself.
class StreamRelay {
public:
    /// Gets the bytes that are read, unchanged.
    using Observer = std::function<void(std::string_view)>;

    /// `writer` must outlive the relay.
    static Result<StreamRelay> open(
        boost::asio::io_context& io,
        Writer& writer,
        std::shared_ptr<StreamSink> sink,
        Observer observer = {});

    StreamRelay(StreamRelay&&) noexcept;
    StreamRelay& operator=(StreamRelay&&) noexcept;
    ~StreamRelay();

    /// The worker's end of the pipe; `close_worker_end` closes it after the spawn.
    int worker_end() const;
    void close_worker_end();

    /// What the worker writes from now on goes there. `tail` begins with what was still in the
    /// pipe; a worker that has ended keeps its tail.
    void redirect(std::shared_ptr<StreamSink> sink, Observer observer);

    /// Call when the writer has room again.
    void resume();

    /// Call when the worker has ended: reads what the pipe contains now, then closes it.
    void finish();

    /// The last bytes, at most limits::max_stderr_tail_bytes.
    const std::string& tail() const;

private:
    struct State;
    explicit StreamRelay(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
