// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/env_defaults.hpp"

#include <cctype>

namespace ddprun::launcher {

std::optional<std::string_view> value_of(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    if (found == environment.end() || found->second.empty()) return std::nullopt;
    return found->second;
}

std::string environment_name(std::string_view option) {
    std::string name = "PET_";
    for (const char letter : option) {
        const auto upper = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
        name += letter == '-' ? '_' : upper;
    }
    return name;
}

}  // namespace ddprun::launcher
