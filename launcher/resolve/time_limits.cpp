// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/time_limits.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/limits.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

constexpr int default_keep_alive_attempts = 3;
constexpr Duration default_keep_alive_interval = std::chrono::seconds{5};

/// 30 s unless one of torch's two numbers is given; then their product, as in torch.
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
    if (asked > limits::longest_lease) {
        spec.lease = {limits::longest_lease, spec.lease.origin + ", cut to the longest"};
        job.note(
            log::Level::warning,
            "lease.cut",
            "keep_alive_interval x keep_alive_max_attempt is " + describe_seconds(asked) +
                " s; a lease lasts a day at most");
        return;
    }
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
    if (const auto value = value_of(job.system.environment, torch_name); !given && value)
        given = Given{std::string{*value}, torch_name};
    if (!given) return {};
    const auto grace = duration_between(*given, Duration{});
    if (!grace) return grace.error();
    job.spec.grace = {*grace, given->origin};
    return {};
}

/// Sets the limit to the option's value, if it was given.
template <class Limit>
Result<> take_given(const Resolving& job, const char* option, Duration least, From<Limit>& limit) {
    const auto given = job.options.find(option);
    if (!given) return {};
    const auto length = duration_between(*given, least);
    if (!length) return length.error();
    limit = {*length, given->origin};
    return {};
}

Result<> resolve_replacement(Resolving& job) {
    auto& limit = job.spec.replacement_timeout;
    limit = {std::nullopt, by_default};
    // srun starts no other node, so the job does not wait for one.
    if (job.spec.incarnation) limit = {Duration{}, "Slurm step"};
    return take_given(job, "replacement-timeout", Duration{}, limit);
}

Result<> resolve_recovery_timeout(Resolving& job) {
    auto& limit = job.spec.recovery_timeout;
    limit = {limits::recovery_timeout, by_default};
    return take_given(job, "recovery-timeout", Duration{}, limit);
}

Result<> resolve_hang_limit(Resolving& job) {
    auto& limit = job.spec.hang_after;
    limit = {std::nullopt, by_default};
    return take_given(job, "hang-after", limits::shortest_hang_limit, limit);
}

std::string with_origin(const char* name, const From<Duration>& limit) {
    return std::string{name} + " (" + describe_seconds(limit.value) + " s, " + limit.origin + ")";
}

/// Only a given limit can contradict another one; a default cannot.
bool was_chosen(const From<Duration>& limit) {
    return limit.origin != by_default;
}

/// A scheduler that shows its kill delay in no variable, with its usual delay.
struct Scheduler {
    const char* variable;
    const char* name;
    const char* setting;
    Duration usual_kill_delay;
};
constexpr Scheduler schedulers[] = {
    {"SLURM_JOB_ID", "Slurm", "KillWait", 30s},
    {"KUBERNETES_SERVICE_HOST", "Kubernetes", "terminationGracePeriodSeconds", 30s},
};

std::string lease_against_join(const JobSpec& spec) {
    if (!was_chosen(spec.lease) || spec.lease.value < spec.join_timeout.value) return {};
    return with_origin("the lease", spec.lease) + " is not shorter than " +
           with_origin("join_timeout", spec.join_timeout) +
           ": nodes that come to replace a silent one time out before its place is free; give a "
           "longer join_timeout or a shorter keep_alive_interval";
}

std::string last_call_against_join(const JobSpec& spec) {
    const bool has_last_call =
        was_chosen(spec.last_call_timeout) && spec.nodes.value.min < spec.nodes.value.max;
    if (!has_last_call || spec.last_call_timeout.value <= spec.join_timeout.value) return {};
    return with_origin("last_call_timeout", spec.last_call_timeout) + " is longer than " +
           with_origin("join_timeout", spec.join_timeout) +
           ": once enough nodes are there a round waits for more until the last call is over, and "
           "join_timeout does not shorten that";
}

std::string grace_against_join(const JobSpec& spec) {
    if (!was_chosen(spec.grace) || spec.grace.value < spec.join_timeout.value) return {};
    return with_origin("the grace of stopping workers", spec.grace) + " is not shorter than " +
           with_origin("join_timeout", spec.join_timeout) +
           ": a node that is started again may time out while the others still stop; give a longer "
           "join_timeout or a shorter --shutdown-timeout";
}

std::string grace_against_scheduler(const JobSpec& spec) {
    if (!was_chosen(spec.grace)) return {};
    for (const auto& scheduler : schedulers) {
        if (!value_of(spec.environment, scheduler.variable)) continue;
        if (spec.grace.value < scheduler.usual_kill_delay) continue;
        return with_origin("the grace of stopping workers", spec.grace) +
               " is not shorter than the " + describe_seconds(scheduler.usual_kill_delay) +
               " s after which " + scheduler.name +
               " usually kills what it has sent SIGTERM: unless its " + scheduler.setting +
               " is longer here, workers that need all of their grace are killed with their "
               "launcher, and nothing is reported";
    }
    return {};
}

std::string refill_against_delay(const JobSpec& spec) {
    const auto& refill = spec.restarts.refill;
    const auto& delay = spec.restarts.delay;
    const bool contradicts = refill.value > Duration{} && refill.value < delay.value.longest;
    if (!contradicts) return {};
    return "the restart budget is full again after " + describe_seconds(refill.value) + " s (" +
           refill.origin + "), sooner than the pause before a restart grows (" +
           describe(delay.value) + ", " + delay.origin +
           "): a job that fails again and again may restart for ever; give a longer "
           "--restart-refill";
}

std::string delay_without_restarts(const JobSpec& spec) {
    const auto& delay = spec.restarts.delay;
    if (spec.max_restarts.value > 0 || delay.value.longest == Duration{}) return {};
    return "a pause before restarts (" + delay.origin +
           ") has no effect without restarts: give --max-restarts too";
}

}  // namespace

Result<> resolve_time_limits(Resolving& job) {
    const auto conf_or =
        [&](const std::optional<Duration>& given, Duration usual, const char* key) {
            return given ? From<Duration>{*given, job.conf_origin + " " + key}
                         : From<Duration>{usual, by_default};
        };
    const control::Settings usual;
    job.spec.join_timeout = conf_or(job.conf.join_timeout, usual.join_timeout, "join_timeout");
    job.spec.last_call_timeout =
        conf_or(job.conf.last_call_timeout, usual.last_call_timeout, "last_call_timeout");
    resolve_lease(job);
    if (auto grace = resolve_grace(job); !grace) return grace;
    if (auto done = resolve_recovery_timeout(job); !done) return done;
    if (auto done = resolve_hang_limit(job); !done) return done;
    return resolve_replacement(job);
}

std::vector<std::string> contradictions(const JobSpec& spec) {
    std::vector<std::string> found;
    const bool has_others = spec.nodes.value.max > 1 || spec.nodes.value.spares > 0;
    const auto look = [&](std::string contradiction) {
        if (!contradiction.empty()) found.push_back(std::move(contradiction));
    };
    if (has_others) {
        look(lease_against_join(spec));
        look(last_call_against_join(spec));
        look(grace_against_join(spec));
    }
    look(grace_against_scheduler(spec));
    look(refill_against_delay(spec));
    look(delay_without_restarts(spec));
    return found;
}

Result<> check_time_limits(Resolving& job) {
    for (auto& sentence : contradictions(job.spec))
        job.note(log::Level::warning, "timeout.contradicts", std::move(sentence));
    return {};
}

}  // namespace ddprun::launcher
