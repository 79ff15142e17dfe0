// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent_data.hpp"

#include <utility>
#include <variant>

namespace ddprun::agent {
namespace {

/// Whether the server judges a silent node: only if another node can take its place.
bool needs_lease(const AgentConfig& config) {
    const auto& nodes = config.join.nodes;
    return nodes.max > 1 || nodes.spares > 0 || config.rendezvous.election;
}

}  // namespace

AgentData::AgentData(
    AgentConfig of_node, control::Node own, std::uint16_t own_peer_port, Random& for_pauses)
    : config(std::move(of_node)),
      node(std::move(own)),
      peer_port(own_peer_port),
      random(for_pauses),
      link(
          {needs_lease(config),
           config.join.settings.join_timeout,
           config.rendezvous.typed_endpoint()},
          random),
      fence(needs_lease(config), node.nonce) {}

std::vector<control::KeptWorker> AgentData::kept() const {
    if (phase != AgentPhase::holding) return {};
    return group()->kept();
}

/// A failure that is still being explained must be reported before the node is ready.
bool AgentData::is_ready() const {
    return round->reached.is_ready && !round->failures.is_open() && !checking;
}

bool AgentData::has_result() const {
    return ending && std::holds_alternative<control::JobResult>(*ending);
}

AgentFate AgentData::fate() const {
    const bool is_job_end = leaving && (leaving->ends_job() || leaving->has_interrupted_server);
    if (is_job_end || has_result()) return AgentFate::job_ends;
    return ending ? AgentFate::node_ends : AgentFate::open;
}

FailureReport::Ends AgentData::worker_ends() const {
    return group() != nullptr ? round->failures.ends() : last_ends;
}

std::string AgentData::incarnation() const {
    const auto& membership = link.membership();
    return membership ? membership->welcome.incarnation : std::string{};
}

std::optional<Instant> AgentData::fence_ends_at() const {
    // After success no fence is needed: the leaders have ended, and their leftovers use no
    // communicator.
    if (!has_workers() || phase == AgentPhase::succeeded) return std::nullopt;
    return fence.ends_at(link.membership());
}

/// Applies to an idle node only: running workers are kept until the fence.
std::optional<Instant> AgentData::times_out_at() const {
    const bool is_idle = phase == AgentPhase::joining || phase == AgentPhase::succeeded;
    return is_idle && !leaving ? link.times_out_at() : std::nullopt;
}

std::optional<Instant> AgentData::wait_ends_at() const {
    return has_workers() ? fence_ends_at() : times_out_at();
}

void AgentStep::send(control::AgentMessage message) const {
    emit(AgentInterface::Send{agent.link.current(), std::move(message)});
}

void AgentStep::note_stale(std::string what) const {
    ++agent.stale_count;
    emit(AgentInterface::NoteStale{std::move(what)});
}

}  // namespace ddprun::agent
