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
#include <string>
#include <utility>
#include <vector>

namespace ddprun::coordinator {
namespace hang_watch {
namespace {

using namespace std::chrono_literals;

/// All ranks are looked at: once for the reports of all nodes that come together.
constexpr Duration judging_pause = 300ms;
/// Reports that may be missing before what the last one said counts no more.
constexpr int most_missed_reports = 3;
/// Ranks that work are killed only after so many times the limit.
constexpr int patience_with_work = 10;

/// Of a node whose ranks have all ended: it may be gone.
const control::Site ended_ranks{control::Activity::ended, "", "", Duration::max(), {}};

/// In ascending order. What a node has not reported lately is not known.
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
        if (!place.sites || now - place.sites->at > longest_age) continue;
        for (const auto& site : place.sites->what.sites)
            for (const int local_rank : site.local_ranks)
                if (const auto at = static_cast<std::size_t>(local_rank); at < count)
                    ranks[first + at].site = &site;
        for (const auto& [local_rank, progress] : place.progress)
            ranks[first + static_cast<std::size_t>(local_rank)].progress = progress;
    }
    return ranks;
}

/// The end of one is enough for another round; a suspect that has ended cannot be killed.
std::vector<int> ranks_to_kill(const HangVerdict& verdict, const std::vector<RankSeen>& ranks) {
    const auto has_ended = [&](int rank) {
        const auto* site = ranks[static_cast<std::size_t>(rank - ranks.front().rank)].site;
        return site->activity == control::Activity::ended;
    };
    auto those = verdict.suspects;
    std::erase_if(those, has_ended);
    if (!those.empty()) return those;
    for (const auto& rank : ranks)
        if (!has_ended(rank.rank)) return {rank.rank};
    return {};
}

std::string next_text(const control::Settings& settings, const std::vector<int>& killed) {
    if (settings.on_hang == control::OnHang::report) return "nothing is done (--on-hang=report)";
    if (killed.empty()) return "nothing is done: it works";
    return (killed.size() == 1 ? "rank " : "ranks ") + ranges_text(killed) +
           (killed.size() == 1 ? " is" : " are") + " killed (--on-hang=restart)";
}

bool has_any_of(const Place& place, const std::vector<int>& ranks) {
    return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
        return rank >= place.rank_base && rank < place.rank_base + place.nproc;
    });
}

/// The rows are for the screens of the first node and of those with suspects.
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
        if (rank != 0 && !has_any_of(place, suspects)) message.rows.clear();
        for (const int one : killed)
            if (one >= place.rank_base && one < place.rank_base + place.nproc)
                message.killed.push_back(one - place.rank_base);
        step.send(*member, std::move(message));
    }
}

void report(JobStep& step, const HangVerdict& verdict, const std::vector<RankSeen>& ranks) {
    auto& job = step.job;
    auto& hang = std::get<Running>(job.state).hang;
    const auto& settings = job.terms.settings;
    const bool is_due = verdict.kind == HangVerdict::Kind::hangs ||
                        verdict.age >= patience_with_work * *settings.hang_after;
    const bool kills = settings.on_hang == control::OnHang::restart && is_due;
    const bool is_known = hang && hang->kind == verdict.kind && hang->has_killed == kills;
    if (is_known) return;

    const auto killed = kills ? ranks_to_kill(verdict, ranks) : std::vector<int>{};
    control::HangFound found{job.round->number, headline(verdict, ranks), rows(verdict, ranks), {}};
    if (verdict.kind == HangVerdict::Kind::hangs)
        found.rows.push_back(verdict.is_certain ? "confidence: high" : "confidence: low");
    found.rows.push_back("next: " + next_text(settings, killed));
    ++job.hang_count;
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
        ++job.stale_count;
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
    // Members have not come back to a server that was started again.
    if (ranks.size() != static_cast<std::size_t>(job.round->world_size)) return;
    const auto verdict = judge_hang(ranks, *job.terms.settings.hang_after);
    if (verdict) return hang_watch::report(step, *verdict, ranks);
    if (!running->hang) return;
    running->hang.reset();
    step.note("ranks go on: the hang is over");
}

}  // namespace ddprun::coordinator
