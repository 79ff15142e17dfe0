// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/number.hpp"
#include "launcher/grammar/wrap.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"

#include <optional>
#include <utility>

/// --attach and --wrap: debuggers and profilers around chosen ranks; --warm, which excludes the
/// second.
namespace ddprun::launcher {
namespace {

/// Suspends what would end the other ranks, or the job, while one rank waits for its user: ddprun's
/// own time limit of a stop, and those of PyTorch's NCCL backend.
void suspend_time_limits(Resolving& job, const std::string& why) {
    auto& grace = job.spec.grace;
    if (grace.origin == by_default) grace = {limits::attached_grace, why};
    for (const std::string name :
         {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING"})
        if (!job.spec.environment.contains(name)) job.change_environment(name, "0", why);
}

}  // namespace

Result<> resolve_attachment(Resolving& job) {
    auto& attachment = job.spec.attachment;
    attachment = {std::nullopt, by_default};
    const auto given = job.options.find("attach");
    if (!given) return {};
    const auto rank = parse_int(given->text);
    if (!rank || *rank < 0)
        return usage(given->origin, given->text, "accepted is a rank of the job, from 0 up");
    const int count = job.spec.nproc.value;
    if (job.spec.nodes.value.max == 1 && *rank >= count)
        return usage(
            given->origin,
            given->text,
            count == 1 ? "the job has rank 0 only"
                       : "the job has the ranks 0 to " + std::to_string(count - 1));
    attachment = {agent::Attachment{*rank, job.system.has_input_terminal}, given->origin};
    suspend_time_limits(job, given->origin);
    return {};
}

Result<> resolve_wrapper(Resolving& job) {
    auto& wrapper = job.spec.wrapper;
    wrapper = {std::nullopt, by_default};
    const auto given = job.options.find("wrap");
    if (!given) return {};
    auto wrap = parse_wrap(given->text);
    if (!wrap) return Failure{wrap.error().code, given->origin + ": " + wrap.error().context};
    const auto program =
        find_program(wrap->words.front(), job.system.environment, job.system.look_at);
    // A missing wrapper is a mistake on the command line, unlike a missing program of the workers.
    if (!program)
        return Failure{system_code(EINVAL), given->origin + ": " + program.error().context};
    wrapper = {
        agent::Wrapper{std::move(wrap->ranks), *program, std::move(wrap->words)}, given->origin};
    return {};
}

Result<> resolve_warm(Resolving& job) {
    const auto given = given_or(job.options, "warm", "0");
    job.spec.is_warm = {given.text == "1", given.origin};
    if (given.text != "0" && given.text != "1")
        return usage(given.origin, given.text, "accepted are 0 and 1");
    if (!job.spec.is_warm.value) return {};
    if (job.spec.command.python_origin.empty())
        return usage(
            given.origin, given.text, "only Python scripts and modules can be started early");
    if (job.options.command.front() == "-")
        return usage(given.origin, given.text, "a script from standard input is read only once");
    if (job.spec.wrapper.value)
        return usage(
            given.origin,
            given.text,
            "given together with " + job.spec.wrapper.origin +
                ": a wrapped worker is not started early; leave one of the two out");
    return {};
}

}  // namespace ddprun::launcher
