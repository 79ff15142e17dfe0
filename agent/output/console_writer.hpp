// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::agent {

/// The thread that writes to the console, so that a terminal that is stopped, or a pipe nobody
/// reads, never stops the agent. Bytes leave in the order they were given.
class ConsoleWriter {
public:
    /// `on_room` is posted to `agent` when the backlog, having been full, is half empty again.
    ConsoleWriter(boost::asio::io_context& agent, std::function<void()> on_room);
    /// Writes what is left, for at most limits::console_flush_timeout.
    ~ConsoleWriter();
    ConsoleWriter(const ConsoleWriter&) = delete;
    ConsoleWriter& operator=(const ConsoleWriter&) = delete;

    /// Queues `bytes` for the descriptor; never blocks, never refuses. The bound on the backlog
    /// (limits::max_output_backlog_bytes) is kept by not reading more while `is_full`. From any
    /// thread.
    void write(int descriptor, std::string bytes);
    bool is_full() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
