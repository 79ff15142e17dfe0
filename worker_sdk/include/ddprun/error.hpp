// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// The exceptions of the SDK. Every text is one or two lines for a person: what happened, and which
/// rank, key or variable was involved. Catch `Error` for all of them; the SDK throws nothing else
/// but std::bad_alloc.
namespace ddprun {

/// The exception's class as a number. Part of the C interface.
enum class ErrorCode : int { peer_lost = 1, timeout = 2, mismatch = 3, usage = 4, other = 5 };

class Error : public std::runtime_error {
public:
    explicit Error(const std::string& text, ErrorCode code = ErrorCode::other)
        : runtime_error(text),
          code_(code) {}

    ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

/// A peer or the store is gone or unreachable. The group that threw this error cannot be used any
/// more: let the exception end the process, and the launcher starts the next round.
class PeerLost : public Error {
public:
    explicit PeerLost(const std::string& text, std::vector<int> ranks = {}, int round = -1)
        : Error(text, ErrorCode::peer_lost),
          ranks_(std::move(ranks)),
          round_(round) {}

    /// Which ranks of the group are known to be gone; empty when the store is gone.
    const std::vector<int>& ranks() const noexcept { return ranks_; }
    /// The round of the group; -1 for the store.
    int round() const noexcept { return round_; }

private:
    std::vector<int> ranks_;
    int round_;
};

/// The call did not end in time, and no rank is known to be gone. A group that threw this error
/// cannot be used any more, as after `PeerLost`.
class Timeout : public Error {
public:
    explicit Timeout(
        const std::string& text, std::vector<int> ranks = {}, std::string operation = {})
        : Error(text, ErrorCode::timeout),
          ranks_(std::move(ranks)),
          operation_(std::move(operation)) {}

    /// Which ranks of the group were late; empty when that is not known. With several hosts the
    /// list may have several ranks although only one hangs; the text then mentions that.
    const std::vector<int>& ranks() const noexcept { return ranks_; }
    /// The operation that timed out: "call 7: all_reduce (sum) of 1000 float32". Empty for the
    /// store.
    const std::string& operation() const noexcept { return operation_; }

private:
    std::vector<int> ranks_;
    std::string operation_;
};

/// The ranks disagree: about sizes, types, parameters, or the order of their calls.
class Mismatch : public Error {
public:
    explicit Mismatch(const std::string& text, std::string one_side = {}, std::string other = {})
        : Error(text, ErrorCode::mismatch),
          one_side_(std::move(one_side)),
          other_side_(std::move(other)) {}

    /// "rank 0 is at call 7: barrier". Both sides are set when a collective threw the error.
    const std::string& one_side() const noexcept { return one_side_; }
    const std::string& other_side() const noexcept { return other_side_; }

private:
    std::string one_side_;
    std::string other_side_;
};

/// The call or the environment is invalid. Nothing was done.
class UsageError : public Error {
public:
    explicit UsageError(const std::string& text) : Error(text, ErrorCode::usage) {}
};

}  // namespace ddprun
