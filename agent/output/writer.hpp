// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/output/stream_sink.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::agent {

class Console;

/// The thread that writes to the console and to log files, so that a terminal that is stopped, a
/// pipe without a reader or a disk that hangs never stops the agent. Bytes leave in the order they
/// were given.
class Writer {
public:
    /// `on_room` is posted to `agent` when the backlog, having been full, is half empty again.
    Writer(boost::asio::io_context& agent, std::function<void()> on_room);
    /// Writes what is left, as long as anything is taken within limits::console_flush_timeout.
    ~Writer();
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    /// Queues a text of our own, whole lines, for the descriptor; never blocks, never refuses. From
    /// any thread.
    void write(int descriptor, std::string lines);

    /// Queues a worker's bytes. The bound on the backlog (limits::max_output_backlog_bytes) is kept
    /// by not reading more while `is_full`.
    void pass(std::shared_ptr<StreamSink> sink, std::string bytes);
    /// Nothing more comes for it.
    void end(std::shared_ptr<StreamSink> sink);
    bool is_full() const;

    /// Something else that may block, in its turn.
    void run(std::function<void()> job);

    /// For what a sink does later; both belong to the thread.
    boost::asio::io_context& queue();
    Console& console();

private:
    struct State;
    void add(std::size_t bytes, std::function<void()> job);

    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
