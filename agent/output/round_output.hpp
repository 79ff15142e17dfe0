// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/output/stream_relay.hpp"
#include "agent/plan/output_plan.hpp"
#include "agent/plan/worker_env.hpp"

#include <boost/asio/io_context.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// The output of one worker: its descriptors 1 and 2, and the relays behind them.
class WorkerOutput {
public:
    /// The descriptor for SpawnSpec; -1: the worker inherits the agent's. Valid until
    /// `close_worker_ends`. Call that after the spawn.
    int worker_end(Stream stream) const;
    void close_worker_ends();

    /// Call when the writer has room again.
    void resume();
    /// Call when the worker has ended.
    void finish();
    /// The last lines of the worker's standard error; empty if the worker inherited the agent's.
    std::string stderr_tail() const;

private:
    friend class RoundOutput;
    std::optional<StreamRelay> out_;
    std::optional<StreamRelay> err_;
};

/// Whether a stream of this rank is the user's terminal itself, regardless of the output options:
/// the rank also has the terminal as its standard input (--attach).
bool is_at_terminal(const WorkerSpec& spec, Stream stream, int rank);

/// Connects the output of a round's workers as planned; exists while the workers are being started.
/// Runs on the agent's thread; calls that block are made by the writer.
class RoundOutput {
public:
    /// `writer` must outlive the opened outputs.
    RoundOutput(
        boost::asio::io_context& io,
        Writer& writer,
        const OutputPlan& plan,
        const WorkerSpec& spec,
        const RoundPlan& round,
        StreamRelay::Observer on_progress_output);
    ~RoundOutput();
    RoundOutput(const RoundOutput&) = delete;
    RoundOutput& operator=(const RoundOutput&) = delete;

    WorkerOutput open(int local_rank);
    /// For a worker that goes on from an earlier round: its rank's name and files of this round.
    void redirect(int local_rank, WorkerOutput& output);

private:
    std::shared_ptr<LogFile> open_file(std::string path);
    std::optional<StreamRelay> relay(Stream stream, int local_rank);
    bool has_agents_stream(Stream stream, int local_rank, const StreamRoute& route) const;
    std::shared_ptr<StreamSink> sink(Stream stream, int local_rank, const StreamRoute& route);
    bool may_have_steps(Stream stream, int local_rank) const;
    StreamRelay::Observer observer(Stream stream, int local_rank) const;
    StreamSink::Format format(Stream stream, int local_rank, const StreamRoute& route) const;
    Duration line_timeout(Stream stream) const;
    int rank_of(int local_rank) const { return round_.assignment.rank_base + local_rank; }

    boost::asio::io_context& io_;
    Writer& writer_;
    const OutputPlan& plan_;
    const WorkerSpec& spec_;
    const RoundPlan& round_;
    /// Gets the standard output of rank 0 if steps are to be found there.
    StreamRelay::Observer on_progress_output_;
    bool is_on_terminal_;
    std::shared_ptr<LogFile> filtered_out_;
    std::shared_ptr<LogFile> filtered_err_;
};

}  // namespace ddprun::agent
