// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/job_data.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace job_data {
namespace {

Duration lease(const control::Join& terms) {
    return std::clamp(terms.settings.lease, limits::shortest_lease, limits::longest_lease);
}

}  // namespace
}  // namespace job_data

std::string_view state_name(std::size_t index) {
    static constexpr std::array<std::string_view, std::variant_size_v<JobState>> names{
        "forming", "running", "draining", "recovering", "over"};
    return names.at(index);
}

JobData::JobData(
    JobIdentity its_identity, const control::Join& first, JobState first_state, Instant now)
    : identity(std::move(its_identity)),
      terms(first),
      state(std::move(first_state)),
      silence(has_lease() ? std::optional{lease()} : std::nullopt),
      restarts{
          RestartBudget{first.max_restarts},
          RestartDelay{first.settings.restart},
          LossRecord{first.settings.max_losses},
          ProgressRecord{first.settings.restart.rounds_without_progress},
          {}},
      history(now) {}

Duration PhaseTimes::until_the_end(Instant now, std::size_t state) const {
    Duration sum{};
    for (std::size_t i = 0; i < spent.size(); ++i) {
        if (state_name(i) == "over") continue;
        sum += spent.at(i) + (i == state ? now - entered_at : Duration{});
    }
    return sum;
}

Draining* JobData::drain() {
    if (auto* current = std::get_if<Draining>(&state)) return current;
    auto* recovering = std::get_if<Recovering>(&state);
    return recovering && recovering->draining ? &*recovering->draining : nullptr;
}

const Draining* JobData::drain() const {
    return const_cast<JobData*>(this)->drain();
}

bool JobData::has_current_round() const {
    return is<Running>() || is<Draining>() || (is<Recovering>() && round);
}

bool JobData::is_round_going_on() const {
    return has_current_round() && !drain();
}

bool JobData::is_empty() const {
    const bool is_kept = naming == Naming::nameless || naming == Naming::renamed;
    return is_young() && members.size() == 0 && !is_kept;
}

bool JobData::is_deserted() {
    if (is<Over>()) return false;
    return is_proven() ? members.size() == 0 : members.connected_count() == 0;
}

Duration JobData::lease() const {
    return job_data::lease(terms);
}

std::size_t JobData::waiting_count() const {
    const auto all = members.by_arrival();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const Member* member) {
        return !member->group_rank && member->is_candidate() && !member->hold;
    }));
}

std::size_t JobData::growth() const {
    const auto now = round->places.size();
    const auto count = std::min(max_nodes(), now + waiting_count());
    return std::max(nodes().in_units(count), now) - now;
}

Instant JobData::ready_by(const Member& member, Instant now) const {
    const auto& settings = terms.settings;
    const bool may_hold = member.is_recoverable && drain() && drain()->stop.keeps;
    const auto to_hold = may_hold ? settings.time_to_hold() : Duration{};
    return now + to_hold + settings.grace + settings.health_timeout.value_or(Duration{}) +
           limits::drain_margin;
}

void JobStep::enter(JobState next) {
    auto& phases = job.history.phases;
    phases.spent.at(job.state.index()) += now - phases.entered_at;
    phases.entered_at = now;
    job.state = std::move(next);
}

void JobStep::send(const Member& member, control::ServerMessage message) const {
    if (member.is_connected) out.push_back(Send{member.connection.connection, std::move(message)});
}

void JobStep::refuse(
    ConnectionId connection, std::string reason, std::optional<Duration> retry) const {
    out.push_back(Send{connection, control::Refused{reason, retry}});
    out.push_back(Close{connection, "refused: " + reason});
}

void JobStep::say(std::string_view state, std::string reason) const {
    auto& said = job.history.said;
    if (state == said.state && reason == said.reason) return;
    const bool is_new_state = state != said.state;
    said = {std::string{state}, reason};
    out.push_back(Changed{job.identity.run_id, said.state, std::move(reason), is_new_state});
}

void JobStep::note(std::string text) const {
    out.push_back(Changed{job.identity.run_id, job.history.said.state, std::move(text)});
}

std::string counted(std::size_t count, const char* one) {
    return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

}  // namespace ddprun::coordinator
