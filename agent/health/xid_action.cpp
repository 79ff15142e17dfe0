// SPDX-License-Identifier: Apache-2.0
#include "agent/health/xid_action.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

namespace ddprun::agent::health {
namespace {

constexpr std::array restart_codes{13, 31, 69, 94};
/// The one of these codes whose cause is the memory of the GPU, and not the program.
constexpr int contained_memory_error = 94;
constexpr std::array unfit_codes{
    46, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158};
constexpr int recovery_action_code = 154;
/// A GPU that costs so many restarts within this time is worn out.
constexpr std::size_t max_restarts = 3;
constexpr Duration restart_window = std::chrono::hours{24};

template <class Codes>
bool contains(const Codes& codes, int code) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
}

/// "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
XidAction recovery_action(std::string_view text) {
    const auto to = text.rfind(" to ");
    if (to == std::string_view::npos) return XidAction::shown;
    const auto action = text.substr(to);
    constexpr std::array<std::string_view, 3> unfit{"Reset Required", "Reboot Required", "Drain"};
    const bool is_unfit = std::any_of(unfit.begin(), unfit.end(), [&](std::string_view words) {
        return action.find(words) != std::string_view::npos;
    });
    return is_unfit ? XidAction::unfit : XidAction::shown;
}

}  // namespace

XidAction action_of(const XidLine& line) {
    if (line.code == recovery_action_code) return recovery_action(line.text);
    if (contains(restart_codes, line.code)) return XidAction::restart;
    return contains(unfit_codes, line.code) ? XidAction::unfit : XidAction::shown;
}

XidAction XidHistory::add(const XidLine& line, int round, Instant now) {
    const auto action = action_of(line);
    if (action != XidAction::restart || line.code != contained_memory_error) return action;
    auto& restarts = restarts_[line.gpu];
    std::erase_if(restarts, [now](const Restart& one) { return now - one.at >= restart_window; });
    if (restarts.empty() || restarts.back().round != round) restarts.push_back({round, now});
    return restarts.size() >= max_restarts ? XidAction::unfit : action;
}

}  // namespace ddprun::agent::health
