// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/hosts.hpp"

#include <algorithm>
#include <map>
#include <sstream>

namespace ddprun::groups {

std::string host_numbers(const std::vector<std::string>& ids) {
    std::map<std::string, std::size_t> numbers;
    std::string text;
    for (const auto& id : ids) {
        const auto number = numbers.emplace(id, numbers.size()).first->second;
        text += (text.empty() ? "" : ",") + std::to_string(number);
    }
    return text;
}

std::vector<std::vector<int>> ranks_by_host(const std::string& numbers, std::size_t world_size) {
    std::vector<std::vector<int>> hosts;
    std::istringstream text(numbers);
    std::string word;
    std::size_t rank = 0;
    for (; std::getline(text, word, ','); ++rank) {
        const bool is_number =
            !word.empty() && word.size() < 10 &&
            std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
        const auto host = is_number ? std::stoul(word) : hosts.size() + 1;
        if (host > hosts.size()) return {};
        if (host == hosts.size()) hosts.emplace_back();
        hosts[host].push_back(static_cast<int>(rank));
    }
    if (rank != world_size) return {};
    return hosts;
}

}  // namespace ddprun::groups
