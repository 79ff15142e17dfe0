// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The lines between a worker and its agent: FORMAT.md.
namespace ddprun::agent::channel {

/// Cuts received bytes into lines, however they were split.
class LineReader {
public:
    enum class State : std::uint8_t { incomplete, complete, too_long };
    struct Next {
        State state;
        /// Without its line feed; empty unless complete.
        std::string line = {};

        bool operator==(const Next&) const = default;
    };

    void append(std::string_view bytes) { rest_ += bytes; }
    Next next();

private:
    std::string rest_;
};

/// `ddprun-worker/1 TOKEN PID LANGUAGE`
struct Greeting {
    std::string token;
    /// The pid in the worker's own pid namespace, which may be another one.
    int pid = 0;
    /// The language of the connecting library: "python", "c".
    std::string language;

    bool operator==(const Greeting&) const = default;
};

/// `recoverable`: the worker can be held instead of stopped.
inline constexpr std::string_view recoverable_line = "recoverable";

/// `holding ROUND STEP|none clean|dirty`: the worker waits for the round after ROUND.
struct Holding {
    int round = 0;
    /// The last step that its state contains completely.
    std::optional<std::uint64_t> committed;
    bool is_clean = false;

    bool operator==(const Holding&) const = default;
};

/// None: the line is another one.
std::optional<Holding> parse_holding(std::string_view line);

/// `hold ROUND MILLISECONDS`: the worker has to end its part of the round, and to say within this
/// time that it is holding.
std::string hold_line(int round, Duration time);
/// `go ROUND NAME=VALUE...`: the round begins, with these changes to the worker's environment. In a
/// value each byte up to the space, `%` and DEL is `%` and two hexadecimal digits.
std::string go_line(int round, const std::vector<std::string>& environment);

/// None: the line is no greeting.
std::optional<Greeting> parse_greeting(std::string_view line);

/// Without the line feed.
inline constexpr std::string_view attached_line = "attached 1";
std::string refused_line(std::string_view reason);

/// Compares in constant time.
bool is_same_token(std::string_view a, std::string_view b);

}  // namespace ddprun::agent::channel
