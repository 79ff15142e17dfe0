// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// What one worker's prefix can show.
struct PrefixValues {
    std::string role;
    int local_rank = 0;
    int rank = 0;
    std::string host;
};

/// The template before each line of a worker: torchrun's `${role_name}`, `${local_rank}`, `${rank}`
/// and `${hostname}`, and `${time}` (the time of day at which the line was read). Braces may be
/// left out, `$$` is `$`, and what is not known stays as it was typed. Pure.
class LinePrefix {
public:
    LinePrefix(std::string_view text, const PrefixValues& values);

    void append_to(std::string& out, std::string_view time) const;

private:
    /// The time stands between them.
    std::vector<std::string> fixed_;
};

}  // namespace ddprun::agent
