// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/hang_watch.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/waiting_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::coordinator {
namespace hang_watch {
namespace {

using namespace std::chrono_literals;

/// Reports of several nodes arrive at about the same time: after this pause the ranks are judged
/// once for all of them.
constexpr Duration judging_pause = 300ms;
/// When this many reports in a row are missing, the last one no longer counts.
constexpr int most_missed_reports = 3;
/// Ranks that work are killed only after this multiple of the limit.
constexpr int patience_with_work = 10;

/// The site for the ranks of a node that have all succeeded; the node may no longer be connected.
const control::Site ended_ranks{control::Activity::ended, "", "", Duration::max(), {}};

/// All ranks in ascending order. A rank without a recent report counts as unknown.
std::vector<RankSeen> ranks_of(const JobData& job, Instant now) {
    const auto longest_age = most_missed_reports * job.terms.settings.look_interval();
    std::vector<RankSeen> ranks;
    ranks.reserve(static_cast<std::size_t>(job.round->world_size));
    for (const auto& [group_rank, place] : job.round->places.taken()) {
        const auto first = ranks.size();
        const auto count = static_cast<std::size_t>(place.nproc);
        for (int local_rank = 0; local_rank < place.nproc; ++local_rank)
            ranks.push_back({place.rank_base + local_rank, place.host});
        if (place.has_succeeded) {
            for (auto at = first; at < ranks.size(); ++at)
                ranks[at].site = &ended_ranks;
            continue;
        }
        const auto* member = job.members.find(place.nonce);
        const bool is_heard = member != nullptr && member->is_connected;
        if (!is_heard || !place.sites || now - place.sites->at > longest_age) continue;
        for (const auto& site : place.sites->what.sites)
            for (const int local_rank : site.local_ranks)
                if (const auto at = static_cast<std::size_t>(local_rank); at < count)
                    ranks[first + at].site = &site;
        for (const auto& [local_rank, progress] : place.progress)
            ranks[first + static_cast<std::size_t>(local_rank)].progress = progress;
    }
    return ranks;
}

/// True when every rank is listed. A recovered round has only the places of members that have come
/// back.
bool are_complete(const std::vector<RankSeen>& ranks, const Round& round) {
    if (ranks.size() != static_cast<std::size_t>(round.world_size)) return false;
    for (std::size_t i = 0; i < ranks.size(); ++i)
        if (ranks[i].rank != static_cast<int>(i)) return false;
    return true;
}

const control::Site& site_of(const std::vector<RankSeen>& ranks, int rank) {
    return *ranks[static_cast<std::size_t>(rank)].site;
}

/// The suspects that have not ended. If there are none, and all remaining ranks wait for peers or
/// for the store, one of these: its end is enough to start another round.
std::vector<int> ranks_to_kill(const HangVerdict& verdict, const std::vector<RankSeen>& ranks) {
    const auto has_ended = [&](int rank) {
        return site_of(ranks, rank).activity == control::Activity::ended;
    };
    auto those = verdict.suspects;
    std::erase_if(those, has_ended);
    if (!those.empty()) return those;
    std::optional<int> first;
    for (const auto& rank : ranks) {
        if (has_ended(rank.rank)) continue;
        const auto activity = rank.site->activity;
        if (activity != control::Activity::waits_for_peers &&
            activity != control::Activity::waits_for_store)
            return {};
        if (!first) first = rank.rank;
    }
    return first ? std::vector{*first} : std::vector<int>{};
}

/// A rank that works and reports a slow phase is not killed.
bool may_kill(const HangVerdict& verdict, const std::vector<RankSeen>& ranks, Duration limit) {
    if (verdict.kind == HangVerdict::Kind::hangs) return true;
    const bool is_slow =
        std::any_of(verdict.suspects.begin(), verdict.suspects.end(), [&](int rank) {
            return is_in_slow_phase(ranks[static_cast<std::size_t>(rank)]);
        });
    return !is_slow && verdict.age >= patience_with_work * limit;
}

std::string next_text(const control::Settings& settings, const std::vector<int>& killed) {
    if (settings.on_hang == control::OnHang::report) return "nothing is done (--on-hang=report)";
    if (killed.empty()) return "nothing is done so far";
    return (killed.size() == 1 ? "rank " : "ranks ") + ranges_text(killed) +
           (killed.size() == 1 ? " is" : " are") + " killed (--on-hang=restart)";
}

/// The local ranks of those ranks that are on this node.
std::vector<int> local_ranks(const std::vector<int>& ranks, const Place& place) {
    std::vector<int> found;
    for (const int rank : ranks)
        if (rank >= place.rank_base && rank < place.rank_base + place.nproc)
            found.push_back(rank - place.rank_base);
    return found;
}

/// The rows go to the screens of the first node and of nodes with suspects.
void tell_members(
    const JobStep& step,
    const control::HangFound& found,
    const std::vector<int>& suspects,
    const std::vector<int>& killed) {
    const auto& job = step.job;
    for (const auto& [rank, place] : job.round->places.taken()) {
        const auto* member = job.members.find(place.nonce);
        if (member == nullptr || member->version() < control::hang_since) continue;
        auto message = found;
        if (rank != 0 && local_ranks(suspects, place).empty()) message.rows.clear();
        message.killed = local_ranks(killed, place);
        step.send(*member, std::move(message));
    }
}

void report(JobStep& step, const HangVerdict& verdict, const std::vector<RankSeen>& ranks) {
    auto& job = step.job;
    auto& hang = std::get<Running>(job.state).hang;
    const auto& settings = job.terms.settings;
    const bool kills = settings.on_hang == control::OnHang::restart &&
                       may_kill(verdict, ranks, *settings.hang_after);
    const bool is_known = hang && hang->kind == verdict.kind && hang->has_killed == kills;
    if (is_known) return;

    const auto killed = kills ? ranks_to_kill(verdict, ranks) : std::vector<int>{};
    control::HangFound found{job.round->number, headline(verdict, ranks), rows(verdict, ranks), {}};
    if (verdict.kind == HangVerdict::Kind::hangs)
        found.rows.push_back(verdict.is_certain ? "confidence: high" : "confidence: low");
    found.rows.push_back("next: " + next_text(settings, killed));
    if (!hang) ++job.history.hang_count;
    step.out.push_back(Hung{job.identity.run_id, job.round->number, found.headline, found.rows});
    tell_members(step, found, verdict.suspects, killed);
    hang = ReportedHang{verdict.kind, std::move(found.headline), kills};
}

}  // namespace
}  // namespace hang_watch

void on_sites(JobStep& step, const Member& member, const control::NodeSites& sites) {
    auto& job = step.job;
    const bool is_meant = job.terms.settings.hang_after && job.is<Running>() && member.group_rank &&
                          member.is_active() && sites.round == job.round->number;
    if (!is_meant) {
        ++job.history.stale_count;
        return;
    }
    job.round->place_of(member).sites = ReportedSites{sites, step.now};
    auto& judge_at = std::get<Running>(job.state).judge_at;
    if (!judge_at) judge_at = step.now + hang_watch::judging_pause;
}

void judge_hang_if_due(JobStep& step) {
    auto& job = step.job;
    auto* running = std::get_if<Running>(&job.state);
    if (!running || !running->judge_at || step.now < *running->judge_at) return;
    running->judge_at.reset();
    const auto ranks = hang_watch::ranks_of(job, step.now);
    if (!hang_watch::are_complete(ranks, *job.round)) return;
    const auto verdict = judge_hang(ranks, *job.terms.settings.hang_after);
    if (verdict) return hang_watch::report(step, *verdict, ranks);
    const bool are_known = std::all_of(ranks.begin(), ranks.end(), [](const RankSeen& rank) {
        return rank.site && rank.site->activity != control::Activity::unknown;
    });
    if (!running->hang || !are_known) return;
    running->hang.reset();
    step.note("ranks go on: the hang is over");
}

}  // namespace ddprun::coordinator
