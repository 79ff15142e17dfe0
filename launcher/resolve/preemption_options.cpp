// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/preemption_options.hpp"

#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"

#include <charconv>
#include <string>
#include <string_view>

namespace ddprun::launcher {
namespace {

constexpr const char* end_variable = "SLURM_JOB_END_TIME";

std::optional<std::int64_t> end_of_allocation(const Environment& environment) {
    const auto text = value_of(environment, end_variable);
    if (!text) return std::nullopt;
    std::int64_t seconds = 0;
    const auto* const last = text->data() + text->size();
    const auto [end, error] = std::from_chars(text->data(), last, seconds);
    if (error != std::errc{} || end != last || seconds <= 0) return std::nullopt;
    return seconds;
}

}  // namespace

Result<> resolve_deadline(Resolving& job) {
    auto& choice = job.spec.deadline;
    choice.length = {std::nullopt, by_default};
    const auto given = job.options.find("deadline");
    if (!given) return {};
    choice.length.origin = given->origin;
    if (given->text == "slurm") {
        choice.allocation_end = end_of_allocation(job.system.environment);
        if (!choice.allocation_end)
            return usage(
                given->origin,
                given->text,
                std::string{"it needs "} + end_variable +
                    ", which Slurm 23.02 and newer set in a job with a time limit");
        const auto& slurm_grace = job.spec.grace;
        if (job.spec.attachment.value && slurm_grace.value >= limits::attached_grace)
            return usage(
                given->origin,
                given->text,
                "with a rank at a terminal a stop takes as long as that rank likes, which leaves "
                "no time for a save before the end; give --shutdown-timeout as well");
        return {};
    }
    const auto length = parse_duration(given->text);
    const auto& grace = job.spec.grace;
    // With an attached rank the default grace is a day, so it is not compared.
    const bool is_too_short = length && !job.spec.attachment.value && *length <= grace.value;
    if (!length || is_too_short)
        return usage(
            given->origin,
            given->text,
            "accepted are slurm, or a length of time (" + std::string{duration_forms} +
                ") above the " + describe_seconds(grace.value) +
                " s of --shutdown-timeout, which the workers have after the save");
    choice.length.value = *length;
    return {};
}

}  // namespace ddprun::launcher
