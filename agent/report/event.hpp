// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// An event of a node or of one of its workers, in torchelastic's form: a line of the event file.
/// Fields that torchelastic does not have are in its free-form `metadata`.
struct Event {
    enum class State : std::uint8_t {
        rendezvous,
        assign_worker_ranks,
        start,
        succeeded,
        failed,
        terminated,  ///< ended because this agent stopped it
    };
    struct Worker {
        int local_rank = 0;
        int global_rank = 0;
        int role_rank = 0;
        int role_world_size = 1;
        int pid = 0;
        /// Negative: the signal, as in Python.
        std::optional<int> exit_code;
    };

    State state = State::start;
    /// None: the event is about the agent.
    std::optional<Worker> worker;
    std::string run_id;
    std::string role;
    std::string host;
    std::string entry_point;
    std::optional<int> group_rank;
    int group_world_size = 0;
    int round = -1;
    int restarts = 0;
    /// Seconds since the start of the agent.
    std::int64_t total_seconds = 0;
    std::optional<std::int64_t> duration_ms;
    /// One line; empty: no error.
    std::string error;
};

std::string_view name_of(Event::State state);

/// One line of JSON, newline included, that torchelastic's `Event.deserialize` reads. Bytes that
/// are not UTF-8 are replaced.
std::string event_line(const Event& event, std::int64_t timestamp_ms);

}  // namespace ddprun::agent
