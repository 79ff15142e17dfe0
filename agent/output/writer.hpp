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

/// The thread that writes to the console and to log files. The agent never waits for a terminal
/// that is stopped, a pipe without a reader or a disk that hangs. Bytes are written in the order in
/// which they were queued.
class Writer {
public:
    /// `on_room` is posted to `agent` when a full backlog is half empty again.
    Writer(boost::asio::io_context& agent, std::function<void()> on_room);
    /// Writes pending bytes, as long as any are accepted within limits::console_flush_timeout.
    ~Writer();
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    /// Queues whole lines of the agent's own for the descriptor; never blocks or refuses. From any
    /// thread.
    void write(int descriptor, std::string lines);

    /// Queues a worker's bytes. The caller must not read more while `is_full`, which keeps the
    /// backlog within limits::max_output_backlog_bytes.
    void pass(std::shared_ptr<StreamSink> sink, std::string bytes);
    /// No more bytes will come for this sink.
    void end(std::shared_ptr<StreamSink> sink);
    bool is_full() const;

    /// Queues other work that may block.
    void run(std::function<void()> job);

    /// The thread's loop, for later work of a sink. Used on that thread only.
    boost::asio::io_context& queue();
    Console& console();

private:
    struct State;
    void add(std::size_t bytes, std::function<void()> job);

    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
