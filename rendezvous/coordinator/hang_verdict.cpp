// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/hang_verdict.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/waiting_ranks.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace ddprun::coordinator {
namespace hang_verdict {
namespace {

using control::Activity;
using Ranks = std::span<const RankSeen>;

/// This many rows always fit into the limit of a message's text.
constexpr std::size_t most_rows = 12;
constexpr std::size_t most_detailed_rows = 4;

Activity activity_of(const RankSeen& rank) {
    return rank.site ? rank.site->activity : Activity::unknown;
}

bool works(const RankSeen& rank) {
    const auto activity = activity_of(rank);
    return activity == Activity::moving || activity == Activity::busy;
}

bool waits(const RankSeen& rank) {
    const auto activity = activity_of(rank);
    return activity == Activity::waits_for_peers || activity == Activity::waits_for_store;
}

bool has_ended(const RankSeen& rank) {
    return activity_of(rank) == Activity::ended;
}

/// True when the report allows no conclusion about this rank.
bool is_open(const RankSeen& rank) {
    const auto activity = activity_of(rank);
    return activity == Activity::unknown || activity == Activity::traced;
}

bool is_over_limit(const RankSeen& rank, Duration limit) {
    return rank.site->age >= (is_in_slow_phase(rank) ? limits::slow_phase_factor * limit : limit);
}

template <class Is>
std::vector<int> ranks_that(Ranks ranks, Is is) {
    std::vector<int> found;
    for (const auto& rank : ranks)
        if (is(rank)) found.push_back(rank.rank);
    return found;
}

bool are_few(const std::vector<int>& some, Ranks all) {
    return 2 * some.size() < all.size();
}

std::string is_or_are(const std::vector<int>& ranks, const char* rest) {
    return (ranks.size() == 1 ? "is " : "are ") + std::string{rest};
}

bool is_one_place(Ranks ranks, const std::vector<int>& some) {
    const RankSeen* first = nullptr;
    for (const auto& rank : ranks) {
        if (!std::binary_search(some.begin(), some.end(), rank.rank)) continue;
        if (first == nullptr) first = &rank;
        if (std::tie(rank.site->activity, rank.site->place) !=
            std::tie(first->site->activity, first->site->place))
            return false;
    }
    return true;
}

/// Rows 1 and 2: the state of one process explains the hang, whatever the other ranks do.
bool judge_state(Ranks ranks, HangVerdict& verdict) {
    struct Row {
        Activity activity;
        std::string_view one;
        std::string_view several;
    };
    constexpr std::array states{
        Row{Activity::stopped, "is stopped by a signal", "are stopped by a signal"},
        Row{Activity::in_kernel,
            "is in a system call that does not return",
            "are in a system call that does not return"},
        Row{Activity::ended, "has ended with code 0", "have ended with code 0"},
        Row{Activity::connects, "cannot connect", "cannot connect"}};
    for (const auto& row : states) {
        auto those = ranks_that(
            ranks, [&](const RankSeen& rank) { return activity_of(rank) == row.activity; });
        if (those.empty()) continue;
        verdict.why = those.size() == 1 ? row.one : row.several;
        // Ended ranks are a certain cause only if they are few: otherwise the ranks that do not end
        // may be at fault.
        verdict.is_certain = row.activity != Activity::ended || are_few(those, ranks);
        verdict.suspects = std::move(those);
        return true;
    }
    return false;
}

/// Row 3.
bool judge_outside(Ranks ranks, HangVerdict& verdict) {
    auto outside = ranks_that(ranks, [](const RankSeen& rank) { return !waits(rank); });
    if (outside.empty() || outside.size() == ranks.size()) return false;
    const bool is_few = are_few(outside, ranks);
    if (!is_few && !is_one_place(ranks, outside)) return false;
    verdict.why = outside.size() == 1 ? "is the only rank that does not wait for others"
                                      : "do not wait for others, unlike the rest";
    verdict.is_certain = is_few;
    verdict.suspects = std::move(outside);
    return true;
}

/// Row 4.
bool judge_steps(Ranks ranks, HangVerdict& verdict) {
    if (!std::all_of(ranks.begin(), ranks.end(), [](const RankSeen& rank) {
            return waits(rank) && rank.progress.step;
        }))
        return false;
    const auto by_step = [](const RankSeen& a, const RankSeen& b) {
        return *a.progress.step < *b.progress.step;
    };
    const auto [lowest, highest] = std::minmax_element(ranks.begin(), ranks.end(), by_step);
    const auto least = *lowest->progress.step;
    if (least == *highest->progress.step) return false;
    verdict.suspects =
        ranks_that(ranks, [&](const RankSeen& rank) { return rank.progress.step == least; });
    verdict.why = is_or_are(verdict.suspects, "behind: at step ") + std::to_string(least) +
                  ", while others are at step " + std::to_string(*highest->progress.step);
    verdict.is_certain = are_few(verdict.suspects, ranks);
    return true;
}

/// Row 5.
bool judge_places(Ranks ranks, HangVerdict& verdict) {
    std::map<std::pair<Activity, std::string_view>, std::vector<int>> places;
    for (const auto& rank : ranks)
        places[{rank.site->activity, rank.site->place}].push_back(rank.rank);
    if (places.size() < 2) return false;
    std::size_t fewest = ranks.size();
    std::size_t most = 0;
    for (const auto& [place, those] : places) {
        fewest = std::min(fewest, those.size());
        most = std::max(most, those.size());
    }
    verdict.is_certain = false;
    if (fewest == most) {
        verdict.why = "the ranks are in different places";
        return true;
    }
    for (const auto& [place, those] : places)
        if (those.size() == fewest)
            verdict.suspects.insert(verdict.suspects.end(), those.begin(), those.end());
    std::sort(verdict.suspects.begin(), verdict.suspects.end());
    verdict.why = is_or_are(verdict.suspects, "in another place than the rest");
    return true;
}

// ---- in words -----------------------------------------------------------------------------------

/// Words such as "waits for other ranks in ", without the place.
std::string_view words_of(Activity activity, bool is_one) {
    switch (activity) {
        case Activity::unknown: return "unknown";
        case Activity::moving: return is_one ? "goes on" : "go on";
        case Activity::busy: return "busy";
        case Activity::waits_for_peers:
            return is_one ? "waits for other ranks" : "wait for other ranks";
        case Activity::waits_for_store:
            return is_one ? "waits for a key of the store" : "wait for a key of the store";
        case Activity::connects: return is_one ? "connects" : "connect";
        case Activity::blocked: return "blocked";
        case Activity::stopped: return "stopped by a signal";
        case Activity::in_kernel: return "in a system call that does not return";
        case Activity::traced: return "debugged";
        case Activity::ended: return is_one ? "has ended with code 0" : "have ended with code 0";
    }
    return {};
}

std::string whole_seconds(Duration length) {
    return seconds_text(std::chrono::floor<std::chrono::seconds>(length));
}

std::string what_text(const control::Site& site, bool is_one) {
    auto text = std::string{words_of(site.activity, is_one)};
    if (!site.place.empty()) text += " in " + site.place;
    return text;
}

/// Row 6.
void judge_common(Ranks ranks, HangVerdict& verdict) {
    verdict.is_certain = false;
    verdict.why = "no rank is behind";
    if (!is_one_place(ranks, ranks_that(ranks, [](const RankSeen&) { return true; }))) return;
    verdict.why += waits(ranks.front()) ? ": all " : ": all are ";
    verdict.why += what_text(*ranks.front().site, false);
}

/// "rank 2 on node7"; "ranks 0-1,3".
std::string name_of(const std::vector<int>& those, Ranks ranks) {
    if (those.size() != 1) return "ranks " + ranges_text(those);
    const auto found = std::find_if(ranks.begin(), ranks.end(), [&](const RankSeen& rank) {
        return rank.rank == those.front();
    });
    return "rank " + std::to_string(those.front()) +
           (found == ranks.end() ? std::string{} : " on " + std::string{found->host});
}

struct Row {
    const control::Site* site;
    std::vector<int> ranks;
    bool is_suspect;
};

std::vector<Row> grouped(const HangVerdict& verdict, Ranks ranks) {
    std::vector<Row> groups;
    std::map<std::tuple<bool, Activity, std::string_view>, std::size_t> known;
    for (const auto& rank : ranks) {
        if (!rank.site) continue;
        const bool is_suspect =
            std::binary_search(verdict.suspects.begin(), verdict.suspects.end(), rank.rank);
        const auto [place, is_new] =
            known.try_emplace({!is_suspect, rank.site->activity, rank.site->place}, groups.size());
        if (is_new) groups.push_back({rank.site, {}, is_suspect});
        groups[place->second].ranks.push_back(rank.rank);
    }
    std::stable_sort(groups.begin(), groups.end(), [](const Row& a, const Row& b) {
        return a.is_suspect > b.is_suspect;
    });
    return groups;
}

}  // namespace
}  // namespace hang_verdict

bool is_in_slow_phase(const RankSeen& rank) {
    switch (rank.progress.phase) {
        case control::WorkPhase::start:
        case control::WorkPhase::eval:
        case control::WorkPhase::save:
        case control::WorkPhase::compile: return true;
        case control::WorkPhase::none:
        case control::WorkPhase::train:
        case control::WorkPhase::data: return false;
    }
    return false;
}

std::optional<HangVerdict> judge_hang(std::span<const RankSeen> ranks, Duration limit) {
    using namespace hang_verdict;
    if (ranks.empty() || std::any_of(ranks.begin(), ranks.end(), is_open)) return std::nullopt;
    HangVerdict verdict;
    verdict.age = Duration::max();
    for (const auto& rank : ranks) {
        if (works(rank) || has_ended(rank)) continue;
        if (!is_over_limit(rank, limit)) return std::nullopt;
        verdict.age = std::min(verdict.age, rank.site->age);
    }
    auto working = ranks_that(ranks, works);
    if (!working.empty()) {
        const bool are_waited_for = std::all_of(
            ranks.begin(), ranks.end(), [](const RankSeen& r) { return works(r) || waits(r); });
        if (!are_waited_for || 2 * working.size() > ranks.size()) return std::nullopt;
        verdict.kind = HangVerdict::Kind::delays;
        verdict.suspects = std::move(working);
        return verdict;
    }
    if (std::all_of(ranks.begin(), ranks.end(), has_ended)) return std::nullopt;
    if (judge_state(ranks, verdict) || judge_outside(ranks, verdict) ||
        judge_steps(ranks, verdict) || judge_places(ranks, verdict))
        return verdict;
    judge_common(ranks, verdict);
    return verdict;
}

std::string headline(const HangVerdict& verdict, std::span<const RankSeen> ranks) {
    using namespace hang_verdict;
    const auto length = whole_seconds(verdict.age);
    if (verdict.kind == HangVerdict::Kind::delays) {
        const bool is_one = verdict.suspects.size() == 1;
        return name_of(verdict.suspects, ranks) + (is_one ? " delays" : " delay") +
               " the others for " + length;
    }
    auto text = "the job hangs: no progress for " + length + "; ";
    if (!verdict.suspects.empty()) text += name_of(verdict.suspects, ranks) + " ";
    return text + verdict.why;
}

std::vector<std::string> rows(const HangVerdict& verdict, std::span<const RankSeen> ranks) {
    using namespace hang_verdict;
    std::vector<std::string> lines;
    const auto groups = grouped(verdict, ranks);
    for (std::size_t i = 0; i < std::min(groups.size(), most_rows); ++i) {
        const auto& [site, those, is_suspect] = groups[i];
        auto line = name_of(those, ranks) + ": " + what_text(*site, those.size() == 1);
        if (site->activity != Activity::ended && site->age > Duration{})
            line += " for " + whole_seconds(site->age);
        lines.push_back(std::move(line));
        if (is_suspect && !site->detail.empty() && i < most_detailed_rows)
            lines.push_back("    " + site->detail);
    }
    if (groups.size() > most_rows)
        lines.push_back("and " + std::to_string(groups.size() - most_rows) + " more places");
    return lines;
}

}  // namespace ddprun::coordinator
