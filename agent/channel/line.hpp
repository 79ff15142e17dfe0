// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The lines between a worker and its agent: FORMAT.md.
namespace ddprun::agent::channel {

/// Cuts what comes into lines, however it is divided.
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
    /// As the worker itself sees it: another number outside its pid namespace.
    int pid = 0;
    /// Of the library that connects: "python", "c".
    std::string language;

    bool operator==(const Greeting&) const = default;
};

/// Empty: it is none.
std::optional<Greeting> parse_greeting(std::string_view line);

/// Without the line feed.
inline constexpr std::string_view attached_line = "attached 1";
std::string refused_line(std::string_view reason);

/// Takes as long wherever the two differ.
bool is_same_token(std::string_view a, std::string_view b);

}  // namespace ddprun::agent::channel
