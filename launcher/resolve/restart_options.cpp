// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/restart_options.hpp"

#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/fields.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace ddprun::launcher {
namespace {

constexpr int biggest_exit_code = 255;

Failure unusable(const Given& given, const std::string& accepted) {
    return {system_code(EINVAL), given.origin + ": '" + given.text + "': accepted is " + accepted};
}

Result<DelayRange> parse_delay(const Given& given) {
    const std::string_view text = given.text;
    const auto colon = text.find(':');
    const auto shortest = parse_duration(text.substr(0, colon));
    const auto longest =
        colon == std::string_view::npos ? shortest : parse_duration(text.substr(colon + 1));
    // A delay of zero stays zero when it is doubled.
    const bool is_endless_zero = shortest == Duration{} && longest != Duration{};
    if (!shortest || !longest || *longest < *shortest || is_endless_zero)
        return unusable(
            given,
            "MIN or MIN:MAX, 0 < MIN <= MAX, as in 5:300 or 500ms:5m: " +
                std::string{duration_forms});
    return DelayRange{*shortest, *longest};
}

Result<std::vector<int>> parse_codes(const Given& given) {
    std::vector<int> codes;
    if (trimmed(given.text) == "none") return codes;
    for (const auto part : split(given.text, ',')) {
        const auto code = parse_int(part);
        if (!code || *code < 1 || *code > biggest_exit_code ||
            codes.size() >= limits::max_final_codes)
            return unusable(
                given,
                "none, or at most " + std::to_string(limits::max_final_codes) +
                    " exit codes from 1 to 255, as in 2,126,127 (128 and more: a signal)");
        codes.push_back(*code);
    }
    // Sorted, since nodes compare them and their order has no meaning.
    std::sort(codes.begin(), codes.end());
    codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
    return codes;
}

}  // namespace

Result<RestartChoice> restart_choice(const Options& options) {
    const control::RestartPolicy usual;
    RestartChoice choice{
        {{}, "default"},
        {usual.refill_after, "default"},
        {usual.final_codes, "default"},
        {{}, "default"}};
    if (const auto given = options.find("restart-delay")) {
        const auto delay = parse_delay(*given);
        if (!delay) return delay.error();
        choice.delay = {*delay, given->origin};
    }
    if (const auto given = options.find("restart-refill")) {
        const auto refill = parse_duration(given->text);
        if (!refill)
            return unusable(
                *given, std::string{duration_forms} + ", from 0 up, as in 3600 or 1h; 0: never");
        choice.refill = {*refill, given->origin};
    }
    if (const auto given = options.find("no-restart-on")) {
        const auto codes = parse_codes(*given);
        if (!codes) return codes.error();
        choice.final_codes = {*codes, given->origin};
    }
    if (const auto given = options.find("stop-without-progress")) {
        const auto count = number_between(*given, 2, static_cast<int>(control::small_count.most));
        if (!count) return count.error();
        choice.rounds_without_progress = {*count, given->origin};
    }
    return choice;
}

control::RestartPolicy to_policy(const RestartChoice& choice) {
    const auto& delay = choice.delay.value;
    return {
        delay.shortest,
        delay.longest,
        choice.refill.value,
        choice.final_codes.value,
        choice.rounds_without_progress.value};
}

std::string describe(const DelayRange& delay) {
    if (delay.longest == Duration{}) return "none";
    const auto longest = describe_seconds(delay.longest) + " s";
    if (delay.shortest == delay.longest) return longest;
    return describe_seconds(delay.shortest) + " to " + longest;
}

std::string describe_codes(const std::vector<int>& codes) {
    std::string text;
    for (const int code : codes)
        text += (text.empty() ? "" : ",") + std::to_string(code);
    return text.empty() ? "none" : text;
}

}  // namespace ddprun::launcher
