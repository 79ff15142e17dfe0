// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/versions.hpp"

#include <algorithm>

namespace ddprun::control {

std::vector<int> own_versions() {
    return {first_version, 2};
}

int common_version(const std::vector<int>& of_other_end) {
    if (of_other_end.empty()) return first_version;
    int newest = 0;
    for (const int version : own_versions()) {
        const bool is_common = std::find(of_other_end.begin(), of_other_end.end(), version) !=
                               of_other_end.end();
        if (is_common) newest = std::max(newest, version);
    }
    return newest;
}

}  // namespace ddprun::control
