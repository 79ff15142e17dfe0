// SPDX-License-Identifier: Apache-2.0
#include "launcher/time_options.hpp"

#include "launcher/number.hpp"
#include "rendezvous/base/limits.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher {
namespace {

constexpr int default_keep_alive_attempts = 3;
constexpr Duration default_keep_alive_interval = std::chrono::seconds{5};

/// 30 s unless one of torch's two numbers is given; then their product, as torch would have it.
void resolve_lease(Resolving& job) {
    auto& spec = job.spec;
    const auto& conf = job.conf;
    spec.lease = {limits::default_lease, by_default};
    if (!conf.keep_alive_interval && !conf.keep_alive_max_attempt) return;
    const auto interval = conf.keep_alive_interval.value_or(default_keep_alive_interval);
    const auto attempts = conf.keep_alive_max_attempt.value_or(default_keep_alive_attempts);
    const double seconds = in_seconds(interval) * attempts;
    const auto asked = parse_duration(std::to_string(seconds)).value_or(Duration::max());
    spec.lease = {asked, job.conf_origin + " keep_alive_interval x keep_alive_max_attempt"};
    if (asked >= limits::shortest_lease) return;
    spec.lease = {limits::shortest_lease, spec.lease.origin + ", raised to the shortest"};
    job.note(
        log::Level::warning,
        "lease.raised",
        "keep_alive_interval x keep_alive_max_attempt is " + describe_seconds(asked) +
            " s; a lease lasts " + describe_seconds(limits::shortest_lease) + " s at least");
}

Result<> resolve_grace(Resolving& job) {
    job.spec.grace = {control::Settings{}.grace, by_default};
    auto given = job.options.find("shutdown-timeout");
    const std::string torch_name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
    if (const auto value = value_of(job.around.environment, torch_name); !given && value)
        given = Given{std::string{*value}, torch_name};
    if (!given) return {};
    const auto grace = parse_duration(given->text);
    if (!grace)
        return usage(
            given->origin,
            given->text,
            "accepted are " + std::string{duration_forms} + ", from 0 up");
    job.spec.grace = {*grace, given->origin};
    return {};
}

}  // namespace

Result<> resolve_time_limits(Resolving& job) {
    const auto conf_or = [&](const std::optional<Duration>& said, Duration usual, const char* key) {
        return said ? From<Duration>{*said, job.conf_origin + " " + key}
                    : From<Duration>{usual, by_default};
    };
    const control::Settings usual;
    job.spec.join_timeout = conf_or(job.conf.join_timeout, usual.join_timeout, "join_timeout");
    job.spec.last_call_timeout =
        conf_or(job.conf.last_call_timeout, usual.last_call_timeout, "last_call_timeout");
    resolve_lease(job);
    return resolve_grace(job);
}

}  // namespace ddprun::launcher
