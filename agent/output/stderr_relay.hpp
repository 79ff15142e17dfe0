// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/output/console_writer.hpp"
#include "rendezvous/base/result.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <memory>
#include <string>

namespace ddprun::agent {

/// One worker's standard error on its way through the agent: copied to ours byte for byte, at once,
/// while its end is kept for the report.
///
/// For a standard error that is no terminal; on a terminal workers inherit it (prompts and progress
/// bars look at isatty). The worker's output ends at its exit plus what the pipe holds then, never
/// at end of file: a grandchild may hold the pipe for ever. While the console is full nothing is
/// read, so the worker waits as it would on the console itself.
class StderrRelay {
public:
    /// `console` must outlive the relay.
    static Result<StderrRelay> open(boost::asio::io_context& io, ConsoleWriter& console);

    StderrRelay(StderrRelay&&) noexcept;
    StderrRelay& operator=(StderrRelay&&) noexcept;
    ~StderrRelay();

    /// The end for the worker's descriptor 2; closed by `close_worker_end` once it was spawned.
    int worker_end() const;
    void close_worker_end();

    /// The console has room again.
    void resume();

    /// The worker is gone: takes what the pipe holds now, then closes it.
    void finish();

    /// The last bytes, at most limits::max_stderr_tail_bytes.
    const std::string& tail() const;

private:
    struct State;
    explicit StderrRelay(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
