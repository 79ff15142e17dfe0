// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/coordinator.hpp"

#include <utility>

/// Where nodes of the hosted job vote about its leader: the voters, and what another leader says. A
/// server whose nodes vote has no tenants.
namespace ddprun::coordinator {

void Coordinator::on_voters_changed(VotersChanged changed, Instant now, std::vector<Effect>& out) {
    const auto job = newest_.find({{}, changed.run_id});
    if (job != newest_.end()) pass(job->second, changed.voters, now, out);
    voters_ = std::move(changed);
}

void Coordinator::on_witness_changed(
    WitnessChanged changed, Instant now, std::vector<Effect>& out) {
    if (witness_ == changed.witness) return;
    witness_ = std::move(changed.witness);
    // A server whose nodes vote serves one run id.
    if (!newest_.empty()) pass(newest_.begin()->second, Job::WitnessChanged{witness_}, now, out);
}

/// This process was started at the endpoint of the job, and nothing was agreed on yet.
bool Coordinator::is_just_begun(const std::string& run_id) const {
    const auto job = newest_.find({{}, run_id});
    const bool is_young = job == newest_.end() || jobs_.at(job->second).is_young();
    return options_.voter && options_.hosted_run_id == run_id && !voters_ && is_young;
}

/// This process was started at an endpoint of a job whose nodes have elected another leader. As
/// long as its own job is young, it follows that leader; if it has none, it names that leader.
void Coordinator::on_claim(
    ConnectionId connection, control::Claim claim, Instant now, std::vector<Effect>& out) {
    if (options_.voter && options_.hosted_run_id == claim.run_id && !leadership_.may_act(now)) {
        voters_ = {claim.run_id, std::move(claim.voters)};
        return out.push_back(Close{connection, "this server names that leader"});
    }
    if (!is_just_begun(claim.run_id))
        return out.push_back(Close{connection, "this server goes on with its own job"});
    step_down("the job's nodes have elected another leader", 0, out, std::move(claim.voters));
}

}  // namespace ddprun::coordinator
