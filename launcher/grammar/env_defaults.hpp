// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The environment as a value: read once in main, then passed on.
using Environment = std::map<std::string, std::string>;

/// The value of a variable; an empty one counts as unset, as everywhere in the launcher: a batch
/// script's `export PET_NNODES=$UNKNOWN` gives no value.
std::optional<std::string_view> value_of(const Environment& environment, const std::string& name);

/// The variable from which an option's default is read: "nproc-per-node" -> "PET_NPROC_PER_NODE".
std::string environment_name(std::string_view option);

}  // namespace ddprun::launcher
