// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// What the launcher's agents write into a round's store for the SDK. They write the same names
/// from a list of their own (agent/plan/store_names.hpp); a unit test compares the two.
namespace ddprun::store_names {

/// Everything of the SDK in one round: a launcher that keeps one store for several must not let
/// them meet.
inline std::string round(const std::string& incarnation, int round, int restart_count) {
    return "ddprun/" + incarnation + "/" + std::to_string(round) + "/" +
           std::to_string(restart_count) + "/";
}

/// The ranks of the round that died, in the order in which their agents saw it: "5", "5 3". Agents
/// write it only where it is there already, with this text.
inline std::string deaths(const std::string& incarnation, int number, int restart_count) {
    return round(incarnation, number, restart_count) + "deaths";
}
inline constexpr const char* nobody_died = "none";

}  // namespace ddprun::store_names
