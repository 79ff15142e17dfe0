// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <optional>
#include <string>
#include <vector>

/// Which nodes of a job vote about its leader (rendezvous/voters/), where they do: the coordinator
/// chooses them, the election changes the record, and the nodes are notified of what it has.
namespace ddprun::coordinator {

/// A node that may vote, or the witness.
struct VoterCandidate {
    control::VoterPlace place;
    std::string host;
    /// It votes already.
    bool is_voter = false;
    bool is_connected = true;
};

/// The voters that a job should have: the leader, and nodes of other hosts, one of each; of two
/// candidates that are alike the earlier one. A voter stays while it is connected, and without a
/// connection too where no other node can replace it. Their number is odd, since one more tolerates
/// no further loss. The witness, which cannot lead, is the last of `others`, and otherwise one of
/// them.
std::vector<control::VoterPlace> choose_voters(
    const VoterCandidate& leader, const std::vector<VoterCandidate>& others);

/// The job is lost with this server: it is part of a `ddprun`, and no other process votes.
bool is_lost_with_server(const JobData& job);
/// The member is the node of the `ddprun` of which the server is part.
bool is_node_of_server(const JobData& job, const Member& member);

/// After each event: requests another set of voters if the present one is not the right one. There
/// is one request at a time.
void update_voters(JobStep& step);
/// Another witness, or none, from here on. A request that has the one before is replaced, since
/// that one may never answer.
void on_witness_changed(JobStep& step, std::optional<control::VoterPlace> witness);
/// The record has these voters.
void on_voters_changed(JobStep& step, control::Voters voters);
/// For a member that was welcomed or has resumed.
void send_voters(const JobStep& step, const Member& member);

}  // namespace ddprun::coordinator
