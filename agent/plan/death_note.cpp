// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/death_note.hpp"

#include "rendezvous/base/limits.hpp"

namespace ddprun::agent {
namespace {

bool has_rank(const std::string& list, int rank) {
    return (' ' + list + ' ').find(' ' + std::to_string(rank) + ' ') != std::string::npos;
}

}  // namespace

std::optional<std::string> with_deaths(const std::string& found, const std::vector<int>& ranks) {
    auto list = found == store_names::no_deaths ? std::string{} : found;
    for (const int rank : ranks) {
        if (has_rank(list, rank)) continue;
        if (!list.empty()) list += ' ';
        list += std::to_string(rank);
    }
    const bool says_more = list != found && list.size() <= limits::max_deaths_bytes;
    return says_more ? std::optional{list} : std::nullopt;
}

}  // namespace ddprun::agent
