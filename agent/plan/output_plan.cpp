// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/output_plan.hpp"

#include "rendezvous/base/json_text.hpp"

#include <algorithm>

namespace ddprun::agent {
namespace {

bool is_masked(const std::vector<RankMask>& masks, Stream stream, int local_rank, int rank) {
    const auto last = std::find_if(masks.rbegin(), masks.rend(), [&](const RankMask& mask) {
        return mask.ranks.contains(local_rank, rank);
    });
    if (last == masks.rend()) return false;
    return stream == Stream::out ? last->has_out : last->has_err;
}

bool is_shown(const OutputPlan& plan, int local_rank, int rank) {
    const auto& shown = plan.console_ranks;
    return shown.empty() || std::any_of(shown.begin(), shown.end(), [&](const RankRange& ranks) {
               return ranks.contains(local_rank, rank);
           });
}

constexpr std::size_t longest_name_bytes = 120;
constexpr std::size_t short_incarnation_bytes = 8;
constexpr std::size_t nonce_bytes = 32;

/// A random incarnation is shortened to its first digits; a scheduler's name is kept, since it has
/// a meaning.
std::string short_incarnation(const std::string& incarnation) {
    const bool is_random = incarnation.size() == nonce_bytes &&
                           incarnation.find_first_not_of("0123456789abcdef") == std::string::npos;
    return as_file_name(is_random ? incarnation.substr(0, short_incarnation_bytes) : incarnation);
}

std::string round_folder(const LogPlace& place) {
    return as_file_name(place.run_id) + '_' + short_incarnation(place.incarnation) + "/round-" +
           std::to_string(place.round);
}

std::string attempt_folder(const LogPlace& place) {
    return as_file_name(place.run_id) + '_' + place.nonce + "/attempt_" +
           std::to_string(place.restart_count);
}

std::string_view name_of(Stream stream) {
    return stream == Stream::out ? "stdout.log" : "stderr.log";
}

}  // namespace

StreamRoute route_of(const OutputPlan& plan, Stream stream, int local_rank, int rank) {
    // Without a folder for files nothing can be redirected: all output goes to the console.
    const bool has_files = !plan.log_dir.empty();
    const bool is_teed = has_files && is_masked(plan.tee, stream, local_rank, rank);
    const bool is_redirected = has_files && is_masked(plan.redirects, stream, local_rank, rank);

    StreamRoute route;
    route.to_file = is_teed || is_redirected;
    route.to_console = (is_teed || !is_redirected) && is_shown(plan, local_rank, rank);
    route.is_formatted = is_teed || plan.prefixes_everything || plan.format == LogFormat::json;
    route.is_filtered = is_teed && route.to_console && !plan.filters(stream).empty();
    return route;
}

int descriptors_needed(const OutputPlan& plan, int worker_count) {
    // Measured: 29 descriptors, and a few more while a worker is started.
    constexpr int of_agent = 36;
    constexpr int of_worker = 3;
    int needed = of_agent + of_worker * worker_count + (plan.progress_pattern.empty() ? 0 : 1);
    for (int local_rank = 0; local_rank < worker_count; ++local_rank)
        for (const auto stream : {Stream::out, Stream::err}) {
            const auto route = route_of(plan, stream, local_rank, local_rank);
            // A stderr always passes through the agent, for the report.
            if (!route.is_inherited() || stream == Stream::err) ++needed;
            if (route.to_file) ++needed;
        }
    return needed;
}

std::string LogFolder::of_worker(int local_rank, int rank) const {
    if (layout == LogLayout::torchrun) return path + '/' + std::to_string(local_rank);
    return path + "/rank-" + std::to_string(rank);
}

std::string LogFolder::file_of_worker(Stream stream, int local_rank, int rank) const {
    return of_worker(local_rank, rank).append("/").append(name_of(stream));
}

std::string LogFolder::filtered_file(Stream stream) const {
    return std::string{path}.append("/filtered_").append(name_of(stream));
}

LogFolder log_folder(const OutputPlan& plan, const LogPlace& place) {
    if (plan.log_dir.empty()) return {};
    const auto inside = plan.layout == LogLayout::torchrun
                            ? attempt_folder(place)
                            : round_folder(place) + '/' + as_file_name(place.host);
    return {plan.log_dir + '/' + inside, plan.layout};
}

std::string latest_link_target(const OutputPlan& plan, const LogPlace& place) {
    if (plan.log_dir.empty() || plan.layout == LogLayout::torchrun) return {};
    return round_folder(place);
}

std::string as_file_name(std::string_view text) {
    std::string name{text.substr(0, longest_name_bytes)};
    name.resize(whole_character_bytes(name));
    std::replace_if(
        name.begin(),
        name.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '/' || c == '\x7f'; },
        '_');
    if (name.empty() || name.front() == '.') name.insert(0, 1, '_');
    return name;
}

}  // namespace ddprun::agent
