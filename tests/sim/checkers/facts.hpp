// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <string>
#include <vector>

/// What the checkers see: facts from outside the machines. Each checker keeps its own small model
/// and complains when a fact does not fit it; none of them asks the code under test.
namespace ddprun::sim {

struct WorkerStarted {
    std::string host;
    std::string run_id;
    std::string incarnation;
    control::Assignment assignment;
    int local_rank = 0;
    int pid = 0;
    Instant at;

    int rank() const { return assignment.rank_base + local_rank; }
    int round() const { return assignment.round; }
};

/// What counts against the budget: a worker ended badly by itself, or a node does not reach the
/// store of its round.
struct RoundFailed {
    std::string run_id;
    std::string incarnation;
    int round = 0;
};

/// A host's `ddprun` got the result of its job.
struct ResultSeen {
    std::string host;
    std::string run_id;
    std::string incarnation;
    control::JobResult result;
    /// Since the begin of the history.
    Instant at = Instant::max();
};

/// An election was won.
struct ElectedSeen {
    std::string host;
    std::string run_id;
    std::uint64_t epoch = 0;
    /// How often keys of jobs that were over had been erased: epochs begin again then.
    int erased_count = 0;
};

/// An elected server says something that only the job's leader may say.
struct ActSeen {
    std::string host;
    std::string run_id;
    /// Under which it acts.
    std::uint64_t epoch = 0;
    /// Of the leader's key in etcd at this moment; 0: no server has it.
    std::uint64_t key_epoch = 0;
    int erased_count = 0;
    std::string what;
};

/// An elected server decides that a node is no member any more, and that the node is to know it.
struct LostSeen {
    std::string host;
    std::string incarnation;
};

/// A worker has saved a step that all ranks had agreed on.
struct RankSaved {
    std::string run_id;
    std::string incarnation;
    int round = 0;
    int rank = 0;
    std::uint64_t step = 0;
};

using Complaints = std::vector<std::string>;

}  // namespace ddprun::sim
