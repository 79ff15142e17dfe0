// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

/// The log: an event name and fields, one line each.
///
///   log::warning("worker.exited", {{"rank", 3}, {"exit", "killed by SIGSEGV"}});
///   -> 12:03:07.113 warning ddprun: worker.exited rank=3 exit="killed by SIGSEGV"
///
/// Names are dotted and past tense and listed in docs/log-events.md. Only
/// shells log; a machine's events and effects are its log. May be called from any thread.
namespace ddprun::log {

enum class Level : std::uint8_t { trace, debug, info, warning, error };

std::optional<Level> parse_level(std::string_view name);
std::string_view level_name(Level level);

struct Field {
    std::string_view name;
    std::variant<std::int64_t, double, bool, std::string> value;

    Field(std::string_view n, const char* v) : name(n), value(std::string{v}) {}
    Field(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
    Field(std::string_view n, std::string_view v) : name(n), value(std::string{v}) {}
    Field(std::string_view n, bool v) : name(n), value(v) {}
    Field(std::string_view n, double v) : name(n), value(v) {}
    template <class Integer>
    requires std::is_integral_v<Integer> Field(std::string_view n, Integer v)
        : name(n),
          value(static_cast<std::int64_t>(v)) {}
};

using Fields = std::initializer_list<Field>;

/// Lines below this level are dropped. Starts as `warning`.
void set_level(Level level);
bool is_enabled(Level level);

/// Sets the function that gets each finished line, newline included. The default writes to standard
/// error, unbuffered. Called with no lock held, from the thread that logs.
void set_sink(std::function<void(std::string line)> sink);

/// Every line is a JSON object from now on: time, `common` (the run, the host), stream "ddprun",
/// level, event, the event's fields, and `message`, which is the same as in the text line.
void use_json(Fields common);
/// Every line is text again.
void use_text();

void write(Level level, std::string_view event, Fields fields);

inline void error(std::string_view event, Fields fields = {}) {
    write(Level::error, event, fields);
}
inline void warning(std::string_view event, Fields fields = {}) {
    write(Level::warning, event, fields);
}
inline void info(std::string_view event, Fields fields = {}) {
    write(Level::info, event, fields);
}
inline void debug(std::string_view event, Fields fields = {}) {
    write(Level::debug, event, fields);
}
inline void trace(std::string_view event, Fields fields = {}) {
    write(Level::trace, event, fields);
}

/// `name=value`, with quotes if the value needs them, and control characters escaped.
std::string describe(const Field& field);

}  // namespace ddprun::log
