// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/old_copies.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::launcher {

bool is_copy_name(const std::string& name) {
    constexpr std::size_t sha256_digits = 64;
    return name.size() == sha256_digits &&
           name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::vector<std::string> old_copies(
    std::vector<ProgramCopy> copies, const std::string& own, std::int64_t now) {
    constexpr auto rest =
        std::chrono::duration_cast<std::chrono::seconds>(limits::program_copy_rest).count();
    std::erase_if(copies, [&](const ProgramCopy& copy) { return copy.name == own; });
    std::sort(copies.begin(), copies.end(), [](const ProgramCopy& a, const ProgramCopy& b) {
        return a.used_at != b.used_at ? a.used_at > b.used_at : a.name < b.name;
    });
    std::vector<std::string> old;
    for (std::size_t i = limits::kept_program_copies - 1; i < copies.size(); ++i)
        if (copies[i].used_at < now - rest) old.push_back(copies[i].name);
    return old;
}

}  // namespace ddprun::launcher
