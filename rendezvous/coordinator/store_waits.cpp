// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/store_waits.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/hang_watch.hpp"
#include "rendezvous/coordinator/waiting_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ratio>
#include <utility>
#include <vector>

namespace ddprun::coordinator {
namespace store_waits {
namespace {

bool is_of_current_round(const JobData& job, const Member& member, int round) {
    return job.has_current_round() && member.group_rank && member.is_active() &&
           round == job.round->number;
}

/// Ignores connections that were reported before the wait, since they may have changed.
WaitingRanks ranks_of(const Round& round, const ReportedWait& wait) {
    std::vector<NodeRanks> nodes;
    nodes.reserve(round.places.taken().size());
    for (const auto& [rank, place] : round.places.taken()) {
        const bool is_new = place.store_clients && place.store_clients->at >= wait.at;
        nodes.push_back(
            {place.host,
             place.rank_base,
             place.nproc,
             is_new ? &place.store_clients->what : nullptr});
    }
    return find_ranks(wait.what, nodes);
}

Duration age(const ReportedWait& wait, Instant now) {
    return wait.what.age + (now - wait.at);
}

/// "12.3 s"
std::string tenths_text(Duration length) {
    using Tenths = std::chrono::duration<std::int64_t, std::deci>;
    return seconds_text(std::chrono::round<Tenths>(length));
}

/// Logs the longest wait, once for each key.
void note(JobStep& step) {
    auto& waits = step.job.round->store_waits;
    if (!waits.longest || waits.noted_key == waits.longest->what.key) return;
    waits.noted_key = waits.longest->what.key;
    const auto ranks = ranks_of(*step.job.round, *waits.longest);
    step.out.push_back(Waiting{
        step.job.identity.run_id,
        step.job.round->number,
        waits.longest->what.key,
        waiting_text(ranks),
        age(*waits.longest, step.now),
        missing_text(ranks)});
}

/// Requests the connections of the other members; the node that reports the wait also reports its
/// own.
void ask_others(JobStep& step, const Member& reporter) {
    const auto& job = step.job;
    std::size_t unanswered = 1;
    for (const auto* member : job.members.by_arrival()) {
        if (member == &reporter || !member->is_connected) continue;
        if (!member->group_rank || !member->is_active()) continue;
        ++unanswered;
        step.send(*member, control::HeartbeatAck{0, job.round->number});
    }
    step.job.round->store_waits.unanswered = unanswered;
}

void on_wait(JobStep& step, const Member& member, const control::StoreWait& wait) {
    auto& job = step.job;
    // Whether the wait is in the round's store.
    const bool is_meant =
        is_of_current_round(job, member, wait.round) && member.group_rank == 0 && !job.drain();
    if (!is_meant) {
        ++job.history.stale_count;
        return;
    }
    auto& waits = job.round->store_waits;
    if (wait.client_count == 0) {
        waits.longest.reset();
        return;
    }
    // The wait has lasted since the last report: it is logged now, even if a member has not
    // answered.
    if (!wait.has_timed_out && waits.longest && waits.longest->what.key == wait.key) note(step);
    auto& kept = wait.has_timed_out ? waits.timed_out : waits.longest;
    kept = ReportedWait{wait, step.now};
    ask_others(step, member);
}

void on_clients(JobStep& step, const Member& member, const control::StoreClients& clients) {
    auto& job = step.job;
    if (!is_of_current_round(job, member, clients.round)) {
        ++job.history.stale_count;
        return;
    }
    auto& waits = job.round->store_waits;
    job.round->place_of(member).store_clients = ReportedClients{clients, step.now};
    if (waits.unanswered == 0) return;
    if (--waits.unanswered == 0 && !job.drain()) note(step);
}

/// Describes the wait that timed out; empty when the rank, which failed at `failed_at`, was not in
/// it.
std::string timed_out_text(const Round& round, int rank, Instant failed_at) {
    const auto& wait = *round.store_waits.timed_out;
    if (failed_at - wait.at > limits::timed_out_wait_window) return {};
    const auto ranks = ranks_of(round, wait);
    const bool has_waited = std::binary_search(ranks.waiting.begin(), ranks.waiting.end(), rank) ||
                            // The rank may be an unknown client, if its process ended before its
                            // connections were examined.
                            ranks.unknown_clients > 0;
    if (!has_waited) return {};
    auto text = "a wait of " + tenths_text(wait.what.age) + " for the key " + wait.what.key +
                " in the store timed out";
    if (!ranks.waiting.empty())
        text += (ranks.waiting.size() == 1 ? " (rank " : " (ranks ") + waiting_text(ranks) + ")";
    const auto missing = missing_text(ranks);
    return missing.empty() ? text : text + "; " + missing;
}

void on_progress(JobStep& step, const Member& member, const control::NodeProgress& progress) {
    auto& job = step.job;
    if (!is_of_current_round(job, member, progress.round)) {
        ++job.history.stale_count;
        return;
    }
    auto& place = job.round->place_of(member);
    const auto before = std::exchange(place.progress, progress.ranks);
    std::erase_if(place.progress, [&](const control::RankProgress& worker) {
        return worker.local_rank >= place.nproc;
    });
    job.restarts.progress.on_progress(before, place.progress);
    Ledger::Report report{std::nullopt, false, std::nullopt, progress.age};
    for (const auto& [local_rank, worker] : place.progress) {
        const bool is_saving = worker.phase == control::WorkPhase::save;
        report.is_saving |= is_saving;
        if (is_saving) report.saving_step = std::max(report.saving_step, worker.step);
        if (worker.step) report.step = std::min(report.step.value_or(*worker.step), *worker.step);
    }
    step.steps = {static_cast<std::size_t>(*member.group_rank), report};
}

/// Several nodes keep the goodput, since they are unlikely to be lost together with the server.
constexpr int goodput_keepers = 3;

/// A restarted server, or another one, gets the job's state only from its members.
bool keeps_goodput(const JobData& job, const Member& member) {
    const bool may_follow = !job.identity.is_hosted || job.identity.epoch > 0;
    return may_follow && member.group_rank.value_or(goodput_keepers) < goodput_keepers &&
           member.version() >= control::goodput_since && !job.is<Recovering>();
}

}  // namespace
}  // namespace store_waits

void on_heartbeat(JobStep& step, const Member& member, const control::Heartbeat& heartbeat) {
    step.has_changed = false;
    control::HeartbeatAck ack{heartbeat.seq};
    if (store_waits::keeps_goodput(step.job, member))
        ack.goodput = step.job.history.ledger.totals(step.now);
    step.send(member, std::move(ack));
    if (heartbeat.wait) store_waits::on_wait(step, member, *heartbeat.wait);
    if (heartbeat.clients) store_waits::on_clients(step, member, *heartbeat.clients);
    if (heartbeat.progress) store_waits::on_progress(step, member, *heartbeat.progress);
    if (heartbeat.sites) on_sites(step, member, *heartbeat.sites);
}

std::optional<StoreWaitStatus> store_wait_status(const JobData& job, Instant now) {
    using namespace store_waits;
    if (!job.is_round_going_on() || !job.round->store_waits.longest) return std::nullopt;
    const auto& wait = *job.round->store_waits.longest;
    if (now - wait.at > 2 * limits::wait_report_interval) return std::nullopt;
    const auto ranks = ranks_of(*job.round, wait);
    return StoreWaitStatus{
        wait.what.key,
        wait.what.more_keys,
        in_seconds(age(wait, now)),
        waiting_text(ranks),
        missing_text(ranks)};
}

void explain_by_waits(JobData& job) {
    auto* drain = job.drain();
    if (!drain || !job.round || !job.round->store_waits.timed_out) return;
    for (auto& failure : drain->failures) {
        auto& cause = failure.cause;
        if (cause.kind == control::Cause::Kind::worker_failed && cause.worker->why.empty())
            cause.worker->why =
                store_waits::timed_out_text(*job.round, cause.worker->rank, failure.at);
    }
}

}  // namespace ddprun::coordinator
