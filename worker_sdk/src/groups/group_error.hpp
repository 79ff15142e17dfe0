// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

/// Why a collective failed, as a value: it is stored once and thrown in every thread that waits or
/// calls.
struct GroupError {
    /// The numbers are those of ErrorCode.
    enum class Kind : int { peer_lost = 1, timeout = 2, mismatch = 3, usage = 4, other = 5 };

    Kind kind = Kind::peer_lost;
    std::string text;
    /// The ranks that are lost, or were late.
    std::vector<int> ranks{};
    /// The operation that timed out.
    std::string operation{};
    /// The two sides of a mismatch.
    std::string one_side{};
    std::string other_side{};

    bool operator==(const GroupError&) const = default;
};

/// Nothing, or the error.
using Outcome = std::optional<GroupError>;

/// Runs a call that returns an outcome. An exception (out of memory, for example) becomes an error
/// too: waiting threads must be notified of the end.
template <class Call>
Outcome caught(const Call& call) {
    try {
        return call();
    } catch (const std::exception& thrown) {
        return GroupError{GroupError::Kind::other, thrown.what()};
    }
}

/// "rank 1", "ranks 1, 2 and 5".
std::string text_of(const std::vector<int>& ranks);

/// Two ranks, each with its call.
GroupError mismatch_between(std::string one_side, std::string other_side);

/// Writes a mismatch, a loss or a timeout as text for the store, and reads it back (without the
/// operation, which differs between ranks). Reading returns none when the text is no such error.
std::string written(const GroupError& error);
std::optional<GroupError> error_from_text(const std::string& text);

/// Throws the error as an exception of the public API.
[[noreturn]] void throw_error(const GroupError& error, int round);

}  // namespace ddprun::groups
