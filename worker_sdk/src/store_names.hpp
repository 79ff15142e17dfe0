// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// Keys that the launcher's agents write into a round's store for the SDK. The agents use their own
/// list of the same names (agent/plan/death_note.hpp); a unit test compares the two.
namespace ddprun::store_names {

/// The prefix of all SDK keys of one round: a launcher may keep one store for several rounds.
inline std::string round(const std::string& incarnation, int round, int restart_count) {
    return "ddprun/" + incarnation + "/" + std::to_string(round) + "/" +
           std::to_string(restart_count) + "/";
}

/// The key of the dead ranks of the round, in the order in which their agents noticed: "5", "5 3".
/// Agents write it only when the key already exists, with the text `no_deaths`.
inline std::string deaths(const std::string& incarnation, int number, int restart_count) {
    return round(incarnation, number, restart_count) + "deaths";
}
inline constexpr const char* no_deaths = "none";

}  // namespace ddprun::store_names
