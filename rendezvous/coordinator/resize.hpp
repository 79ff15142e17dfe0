// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

/// Commands that change how many nodes a job has. The round is stopped and replaced only if its
/// size changes: it grows by nodes that wait, and from one that shrinks the highest group ranks
/// stand by. Every node is sent the new number, and returns it to the next server in `Resume`.
namespace ddprun::coordinator {

/// The facts on which such a command is decided.
struct ResizeFacts {
    /// As started: with the unit of nodes.
    control::NodeRange started = {};
    bool is_static = false;
    /// Members that would be in the next round.
    std::size_t present = 0;
    /// The nodes of the round that goes on; none: no round goes on.
    std::optional<std::size_t> in_round = std::nullopt;
    /// Nodes without a place that could get one now.
    std::size_t waiting = 0;
    /// Workers of the round have finished.
    bool has_successes = false;
    /// All ranks save, because a node is about to be taken away.
    bool is_saving = false;
    /// The group rank of the node that serves the rendezvous.
    std::optional<std::size_t> host_rank = std::nullopt;
    /// Nodes of the round that are about to leave it.
    std::size_t leaving = 0;
};

struct ResizeDecision {
    enum class Kind : std::uint8_t {
        refused,
        kept,        ///< the round goes on
        next_round,  ///< no round goes on: the next one has the new number
        restarted,   ///< the round is stopped
    };
    Kind kind = Kind::refused;
    /// What is done, or why the command is refused.
    std::string text;

    bool operator==(const ResizeDecision&) const = default;
};

/// Requires: `wanted` has the unit with which the job was started.
ResizeDecision decide_resize(const ResizeFacts& facts, const control::NodeRange& wanted);

/// What follows from a command to resize a job.
struct ResizePlan {
    bool is_possible = false;
    /// The answer: what is done, or why the command is refused.
    std::string text;
    control::Resized resized = {};
    bool restarts = false;
    /// The command, for the log and as the cause of the restart.
    std::string reason = {};
};
ResizePlan plan_resize(const JobData& job, const control::Resize& resize, Instant now);
/// Requires: the job has not changed since the plan was made. Does nothing for a refused command.
void perform(JobStep& step, const ResizePlan& plan);

/// Performs the command and reports to the sender what was done, or why it was refused.
void on_resize(JobStep& step, const Member& sender, const control::Resize& resize);

/// Sends the number of nodes to the member if a command has changed it.
void send_size(const JobStep& step, const Member& member);
/// The same for a member that has come back, unless it has this number already.
void repeat_size(const JobStep& step, const control::Resume& resume);
/// Takes over the number of nodes that a member returns, if no newer one is known.
void restore_size(JobStep& step, const control::Resume& resume);

}  // namespace ddprun::coordinator
