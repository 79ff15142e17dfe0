// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/resolving.hpp"

#include "launcher/grammar/number.hpp"

#include <utility>

namespace ddprun::launcher {

void Resolving::note(log::Level level, std::string event, std::string reason) {
    spec.notices.push_back({level, std::move(event), std::move(reason)});
}

void Resolving::change_environment(
    const std::string& name, const std::string& value, const std::string& why) {
    spec.environment[name] = value;
    spec.environment_changes.push_back({name + "=" + value, why});
}

Failure usage(const std::string& origin, const std::string& given, const std::string& accepted) {
    return {system_code(EINVAL), origin + ": '" + given + "': " + accepted};
}

Result<Duration> duration_between(const Given& given, Duration shortest, Duration longest) {
    const auto length = parse_duration(given.text);
    if (length && *length >= shortest && *length <= longest) return *length;
    const bool has_longest = longest < Duration::max();
    auto range = "from " + describe_seconds(shortest);
    range += has_longest              ? " to " + describe_seconds(longest) + " s"
             : shortest == Duration{} ? " up"
                                      : " s up";
    return usage(
        given.origin, given.text, "accepted are " + std::string{duration_forms} + ", " + range);
}

Result<int> number_between(const Given& given, int least, int most) {
    const auto number = parse_int(given.text);
    if (number && *number >= least && *number <= most) return *number;
    return usage(
        given.origin,
        given.text,
        "accepted are " + std::to_string(least) + " to " + std::to_string(most));
}

Given given_or(const Options& options, std::string_view name, const std::string& otherwise) {
    return options.find(name).value_or(Given{otherwise, by_default});
}

}  // namespace ddprun::launcher
