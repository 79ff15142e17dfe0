// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/terms.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The command that `ddprunctl --rdzv-endpoint` sends to the rendezvous server from any machine,
/// and the answer: one of each on an encrypted connection. Before the answer to `stacks` there is a
/// `RankReport` for each worker. Parts of message.hpp; the meaning of each field is in FORMAT.md.
namespace ddprun::control {

/// Sent in place of `Join`.
struct JobCommand {
    enum class What : std::uint8_t { show, stop, drain, undrain, resize, signal, stacks };
    What what = What::show;
    /// Empty, only with `show`: all jobs of the caller's tenant.
    std::string run_id = {};
    /// With `drain` and `undrain`, as in `Drain` and `Undrain`.
    std::vector<std::string> nodes = {};
    bool is_forced = false;
    /// With `stop`, as in `Leave`.
    std::optional<Duration> grace = std::nullopt;
    /// "alice@login1", as stated by the caller, which the server cannot check.
    std::string by = {};
    /// With `resize`, as in `Resize`.
    std::optional<NodeRange> range = std::nullopt;
    /// With `signal`.
    int signal = 0;
    /// With `signal` and `stacks`; none: the ranks of all workers.
    std::optional<RankRange> ranks = std::nullopt;

    bool operator==(const JobCommand&) const = default;
};

struct NodeSummary {
    std::string host = {};
    /// The first 8 digits of its nonce.
    std::string nonce = {};
    int pid = 0;
    std::string state = {};
    std::optional<int> group_rank = std::nullopt;
    std::optional<int> first_rank = std::nullopt;
    std::optional<int> last_rank = std::nullopt;
    Duration heard_ago{};

    bool operator==(const NodeSummary&) const = default;
};

struct DrainedHost {
    std::string host = {};
    std::string reason = {};

    bool operator==(const DrainedHost&) const = default;
};

/// A part of `/status`.
struct JobSummary {
    std::string run_id = "none";
    std::string incarnation = {};
    std::string state = {};
    std::string reason = {};
    int round = -1;
    /// "4:6"
    std::string nnodes = {};
    int node_count = 0;
    int world_size = 0;
    int restarts_used = 0;
    int max_restarts = 0;
    std::string root_cause = {};
    /// Of the only job of an answer, a part of them when there are many; otherwise empty.
    std::vector<NodeSummary> nodes = {};
    std::vector<DrainedHost> drained_hosts = {};

    bool operator==(const JobSummary&) const = default;
};

struct JobCommandAnswer {
    enum class Outcome : std::uint8_t {
        done,
        not_possible,  ///< in the job's present state
        not_allowed,   ///< for this caller
        no_such_job,
        not_answered,  ///< by all agents whose workers it is for; they may still perform it
    };
    Outcome outcome = Outcome::done;
    /// What was done, or why not.
    std::string text = {};
    /// With `show`.
    std::vector<JobSummary> jobs = {};
    /// How many further jobs there are.
    int more_jobs = 0;

    bool operator==(const JobCommandAnswer&) const = default;
};

}  // namespace ddprun::control
