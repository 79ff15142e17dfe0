// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/user_numbers.hpp"

#include "rendezvous/base/text.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

namespace ddprun {
namespace user_numbers {
namespace {

/// The number of possible users: all 32-bit numbers except -1.
constexpr std::uint64_t all_users = 0xFFFF'FFFFU;
/// The kernel's default.
constexpr std::uint64_t usual_overflow = 65'534;

std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t number = 0;
    const auto* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    return error == std::errc{} && end == last ? std::optional{number} : std::nullopt;
}

/// Whether the map covers all users. Its lines are "first here, first outside, how many".
bool has_all(std::string_view map) {
    std::uint64_t count = 0;
    for (const auto line : split(map, '\n')) {
        const auto words = trimmed(line);
        const auto blank = words.find_last_of(" \t");
        if (blank != std::string_view::npos)
            count += number_in(words.substr(blank + 1)).value_or(0);
    }
    return count >= all_users;
}

}  // namespace
}  // namespace user_numbers

bool means_one_user(unsigned user, const UserNumbers& numbers) {
    using namespace user_numbers;
    return user != number_in(trimmed(numbers.overflow)).value_or(usual_overflow) ||
           has_all(numbers.map);
}

}  // namespace ddprun
