// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/voters/vote.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The facts that checkers get, observed from outside of the machines. Each checker has its own
/// small model and complains when a fact contradicts it; none of them uses the code under test.
namespace ddprun::sim {

struct WorkerStarted {
    std::string host;
    std::string run_id;
    std::string incarnation;
    control::Assignment assignment;
    int local_rank = 0;
    int pid = 0;
    Instant at;
    /// It was held since the round before; none: it is a new process.
    std::optional<control::KeptWorker> kept = std::nullopt;

    int rank() const { return assignment.rank_base + local_rank; }
    int round() const { return assignment.round; }
};

/// A failure that counts against the budget: a worker failed by itself, or a node cannot reach the
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
    /// Since the beginning of the history.
    Instant at = Instant::max();
    /// It is at the node. One whose agent is stopped may drop the connection before it reads that.
    bool is_read = true;
};

/// An election was won.
struct ElectedSeen {
    std::string host;
    std::string run_id;
    std::uint64_t epoch = 0;
    /// How often the keys of finished jobs had been erased by then: after that, epochs start again.
    int erased_count = 0;
};

/// An elected server sends a message that only the job's leader may send.
struct ActSeen {
    std::string host;
    std::string run_id;
    /// The epoch under which it acts.
    std::uint64_t epoch = 0;
    /// The epoch of the leader's key in etcd, or of the leader in the voters' record, at this
    /// moment; 0: there is none.
    std::uint64_t key_epoch = 0;
    int erased_count = 0;
    std::string what;
    /// Another host whose server may act for this job at this moment; empty: none.
    std::string other = {};
};

/// A node's voter has accepted a record of the job's leader.
struct AcceptSeen {
    std::string run_id;
    Nonce voter;
    voters::Ballot ballot;
    voters::JobRecord record;
    Instant at;
};

/// An elected server decides that a node is no longer a member, and that the node is to be
/// notified.
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
