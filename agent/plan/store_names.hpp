// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// What an agent writes into a round's store for the workers, spelled once. The worker SDK has the
/// same names in a list of its own (worker_sdk/src/store_names.hpp); a unit test compares the two.
namespace ddprun::agent::store_names {

/// The ranks of a round that died, in the order in which their agents saw it: "5", "5 3". It is
/// there only where a worker asked for notices: the SDK makes it, with the text `nobody_died`. As
/// on the wire: PyTorch's clients, and ours, put a slash in front of every key.
inline std::string deaths(const std::string& incarnation, int round, int restart_count) {
    return "/ddprun/" + incarnation + "/" + std::to_string(round) + "/" +
           std::to_string(restart_count) + "/deaths";
}

inline constexpr std::string_view nobody_died = "none";

}  // namespace ddprun::agent::store_names
