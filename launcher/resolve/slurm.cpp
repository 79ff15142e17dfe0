// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/slurm.hpp"

#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

namespace ddprun::launcher {
namespace {

bool is_host_text(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
    });
}

/// "0-3,7" -> "0"; empty: not a list of numbers.
std::string_view first_number_of(std::string_view ranges) {
    const auto number = ranges.substr(0, ranges.find_first_of(",-"));
    const bool is_number =
        std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c); });
    return is_number ? number : std::string_view{};
}

constexpr const char* step_nodes = "SLURM_STEP_NUM_NODES";
constexpr const char* remedy =
    "this variable of a Slurm step cannot be read; use --standalone for a job of this node alone, "
    "or unset SLURM_STEP_NUM_NODES and give --nnodes and --rdzv-endpoint";

template <class Number>
Result<> read_number(
    const Environment& environment,
    const char* name,
    std::int64_t least,
    std::int64_t most,
    Number& into) {
    const auto text = value_of(environment, name).value_or("");
    std::int64_t number = -1;
    const auto* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc{} || read.ptr != end || number < least || number > most)
        return usage(name, std::string{text}, remedy);
    into = static_cast<Number>(number);
    return {};
}

}  // namespace

std::string first_host_of(std::string_view list) {
    std::string host;
    while (!list.empty() && list.front() != ',') {
        const auto plain = list.substr(0, list.find_first_of("[,"));
        host += plain;
        list.remove_prefix(plain.size());
        if (!list.starts_with('[')) continue;
        const auto close = list.find(']');
        if (close == std::string_view::npos) return {};
        const auto number = first_number_of(list.substr(1, close - 1));
        if (number.empty()) return {};
        host += number;
        list.remove_prefix(close + 1);
    }
    return is_host_text(host) ? host : std::string{};
}

std::string switches_of(std::string_view address, std::string_view pattern) {
    const auto levels = split(pattern, '.');
    auto parts = split(address, '.');
    // The node's name, which may contain dots, is the last level.
    parts.resize(std::min(parts.size(), levels.size() - 1));
    return short_list(parts, {parts.size(), "/"});
}

std::string SlurmStep::name() const {
    return "slurm-" + std::to_string(job) + "." + std::to_string(step);
}

std::uint16_t SlurmStep::port(std::uint16_t first, int count) const {
    constexpr std::int64_t steps_apart = 37;
    return static_cast<std::uint16_t>(first + (job % count * steps_apart + step % count) % count);
}

bool is_slurm_task(const Environment& environment) {
    return value_of(environment, step_nodes) && !value_of(environment, "TORCHELASTIC_RUN_ID");
}

bool signals_every_process(const Environment& environment, std::string_view own_cgroups) {
    const auto job = value_of(environment, "SLURM_JOB_ID");
    if (!job || !is_slurm_task(environment)) return false;
    const auto own_group = "/job_" + std::string{*job} + "/step_";
    return own_cgroups.find(own_group) == std::string_view::npos;
}

Result<std::optional<SlurmStep>> read_slurm_step(const Environment& environment) {
    const std::optional<SlurmStep> none;
    if (!is_slurm_task(environment)) return none;
    SlurmStep step;
    constexpr std::int64_t most_tasks = 1'000'000;
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    const auto read = [&](const char* name, std::int64_t least, std::int64_t highest, auto& into) {
        return read_number(environment, name, least, highest, into);
    };
    if (auto done = read(step_nodes, 1, limits::max_nodes_per_job, step.nodes); !done)
        return done.error();
    if (auto done = read("SLURM_STEP_NUM_TASKS", 1, most_tasks, step.tasks); !done)
        return done.error();
    // Most steps have one task; the other variables are not needed then.
    if (step.nodes == 1 && step.tasks == 1) return none;
    if (auto done = read("SLURM_JOB_ID", 0, most, step.job); !done) return done.error();
    if (auto done = read("SLURM_STEP_ID", 0, most, step.step); !done) return done.error();
    if (auto done = read("SLURM_NODEID", 0, step.nodes - 1, step.node); !done) return done.error();
    step.restarts = std::string{value_of(environment, "SLURM_RESTART_COUNT").value_or("0")};
    const auto hosts = value_of(environment, "SLURM_STEP_NODELIST").value_or("");
    step.first_host = first_host_of(hosts);
    if (step.first_host.empty()) return usage("SLURM_STEP_NODELIST", std::string{hosts}, remedy);
    return std::optional{step};
}

}  // namespace ddprun::launcher
