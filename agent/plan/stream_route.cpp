// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/stream_route.hpp"

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

}  // namespace

StreamRoute route_of(const OutputPlan& plan, Stream stream, int local_rank, int rank) {
    // Without a place for files there is nothing to redirect to: all goes to the console.
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

}  // namespace ddprun::agent
