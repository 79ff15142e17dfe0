// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/topology.hpp"
#include "launcher/grammar/device_list.hpp"
#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"

#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

/// Counts GPUs at most once: without the driver's folder counting needs to start a program.
class Gpus {
public:
    explicit Gpus(const Resolving& job) : job_(job) {}

    int count() {
        if (!count_) count_ = job_.system.count_gpus ? job_.system.count_gpus() : 0;
        return *count_;
    }
    int visible_count() {
        const std::string variable = agent::visible_variable(job_.spec.environment);
        const auto found = job_.spec.environment.find(variable);
        if (found == job_.spec.environment.end()) return count();
        // AMD's GPUs are not counted: their list is used unchecked.
        const bool is_counted = variable == "CUDA_VISIBLE_DEVICES";
        const int known = is_counted ? count() : std::numeric_limits<int>::max();
        return static_cast<int>(agent::visible_devices(found->second, known).size());
    }

private:
    const Resolving& job_;
    std::optional<int> count_;
};

/// Returns the number of devices; 0: the option was not given.
Result<int> choose_devices(Resolving& job, Gpus& gpus) {
    const auto given = job.options.find("devices");
    if (!given) return 0;
    const auto devices = parse_devices(given->text, gpus.count());
    if (!devices)
        return Failure{devices.error().code, given->origin + ": " + devices.error().context};
    // If ROCm's own variable has a value, it takes precedence over the other one.
    const std::string variable = agent::visible_variable(job.spec.environment);
    job.change_environment("CUDA_VISIBLE_DEVICES", device_list(*devices), given->origin);
    if (variable != "CUDA_VISIBLE_DEVICES")
        job.change_environment(variable, device_list(*devices), given->origin);
    return static_cast<int>(devices->size());
}

/// Requires: `given` is no number.
Result<From<int>> count_machine(const Given& given, const Resolving& job, Gpus& gpus) {
    const auto& kind = given.text;
    const From<int> cpus{job.system.cpu_count, given.origin + "=" + kind};
    if (kind == "cpu") return cpus;
    if (kind == "xpu")
        return usage(
            given.origin,
            kind,
            "only NVIDIA GPUs are counted; give a number, which works for every kind of device");
    if (kind != "gpu" && kind != "auto")
        return usage(
            given.origin,
            kind,
            "accepted are 1 to " + std::to_string(limits::max_workers_per_node) +
                ", auto, gpu and cpu");
    const int visible = gpus.visible_count();
    if (visible > 0) return From<int>{visible, given.origin + "=" + kind + ", GPUs"};
    if (kind == "auto") return From<int>{cpus.value, cpus.origin + ", CPUs (no GPU is visible)"};
    return usage(
        given.origin,
        kind,
        "no NVIDIA GPU is visible on this machine (/proc/driver/nvidia/gpus, nvidia-smi -L, "
        "CUDA_VISIBLE_DEVICES); give a number, or cpu");
}

Result<From<int>> count_workers(Resolving& job, Gpus& gpus, int device_count) {
    const auto given = job.options.find("nproc-per-node");
    if (!given && device_count == 0) return From<int>{1, by_default};
    if (!given) return From<int>{device_count, job.options.find("devices")->origin};
    const auto number = parse_int(given->text);
    if (!number) return count_machine(*given, job, gpus);
    if (*number < 1 || *number > limits::max_workers_per_node)
        return usage(
            given->origin,
            given->text,
            "accepted are 1 to " + std::to_string(limits::max_workers_per_node) +
                ", auto, gpu and cpu");
    if (device_count > 0 && *number > device_count && !job.options.has_flag("share-gpu"))
        return usage(
            given->origin,
            given->text,
            job.options.find("devices")->origin + " names " + std::to_string(device_count) +
                " devices, and each worker needs one of its own");
    return From<int>{*number, given->origin};
}

/// NCCL refuses two ranks on one GPU of one host. The agent gives each rank a different host name,
/// so NCCL connects them over sockets. Transports that cannot work between them are turned off, and
/// each rank uses little of the GPU, since the others need it at the same time.
constexpr std::array<std::pair<const char*, const char*>, 11> shared_gpu_variables{{
    {"NCCL_NET", "Socket"},
    {"NCCL_IB_DISABLE", "1"},
    {"NCCL_SOCKET_IFNAME", "=lo"},
    {"NCCL_P2P_DISABLE", "1"},
    {"NCCL_SHM_DISABLE", "1"},
    {"NCCL_MNNVL_ENABLE", "0"},
    {"NCCL_NVLS_ENABLE", "0"},
    {"NCCL_MAX_CTAS", "2"},
    {"NCCL_ALGO", "Ring"},
    {"NCCL_PROTO", "Simple"},
    {"NCCL_RAS_ENABLE", "0"},
}};

Result<> share_gpus(Resolving& job) {
    const auto flag = job.options.find("share-gpu");
    if (!flag || flag->text != "1") return {};
    if (job.spec.has_virtual_local_rank.value)
        return Failure{
            system_code(EINVAL),
            flag->origin + ": given together with " + job.spec.has_virtual_local_rank.origin +
                ": that gives each worker a GPU of its own; leave one of the two out"};
    job.change_environment("DDPRUN_SHARE_GPU", "1", flag->origin);
    const bool is_one_node = job.spec.nodes.value.max == 1;
    for (const auto& [name, value] : shared_gpu_variables) {
        // The loopback interface cannot connect different nodes.
        const bool is_for_one_node = std::string_view{name} == "NCCL_SOCKET_IFNAME";
        if (is_for_one_node && !is_one_node) continue;
        if (!value_of(job.spec.environment, name))
            job.change_environment(name, value, flag->origin);
    }
    return {};
}

/// Each worker gets one entry of the list, so the list must be long enough.
Result<> check_virtual_ranks(const Resolving& job) {
    const auto flag = job.options.find("virtual-local-rank");
    const std::string variable = agent::visible_variable(job.spec.environment);
    const auto list = value_of(job.spec.environment, variable);
    if (!flag || flag->text != "1" || !list) return {};
    std::size_t count = 1;
    for (const char c : *list)
        if (c == ',') ++count;
    if (static_cast<std::size_t>(job.spec.nproc.value) <= count) return {};
    return usage(
        flag->origin,
        variable + "=" + std::string{*list},
        "that is fewer devices than the " + std::to_string(job.spec.nproc.value) +
            " workers of this node");
}

}  // namespace

Result<> resolve_worker_count(Resolving& job) {
    Gpus gpus{job};
    const auto devices = choose_devices(job, gpus);
    if (!devices) return devices.error();
    auto count = count_workers(job, gpus, *devices);
    if (!count) return count.error();
    job.spec.nproc = std::move(*count);
    const auto flag = given_or(job.options, "virtual-local-rank", "0");
    job.spec.has_virtual_local_rank = {flag.text == "1", flag.origin};
    if (auto shared = share_gpus(job); !shared) return shared;
    return check_virtual_ranks(job);
}

Result<> resolve_command(Resolving& job) {
    const auto& options = job.options;
    const bool is_module = options.has_flag("module");
    const bool wants_python = options.has_flag("run-path");
    const bool is_program = options.has_flag("no-python") && !wants_python;
    const bool passes_rank = options.has_flag("pass-local-rank") && !options.has_flag("use-env");
    if (is_module && is_program)
        return Failure{
            system_code(EINVAL),
            options.find("module")->origin + ": given together with " +
                options.find("no-python")->origin +
                ": a module needs an interpreter; leave one of the two out"};
    if (options.command.empty() || options.command.front().empty())
        return Failure{
            system_code(EINVAL),
            "no script given: accepted is ddprun [OPTION]... SCRIPT [ARGUMENT]..."};
    auto words = options.command;
    if (passes_rank) words.insert(words.begin() + 1, "--local-rank=${local_rank}");
    const auto python = options.find("python").value_or(Given{});
    const auto found = find_worker_command(
        {words, is_module, is_program, python.text, job.system.own_path, job.system.own_target},
        job.system.environment,
        job.system.look_at);
    if (!found) return found.error();
    job.spec.command = *found;
    if (!found->python_warning.empty())
        job.note(log::Level::warning, "python.ambiguous", found->python_warning);
    return {};
}

Result<> resolve_worker_environment(Resolving& job) {
    auto& spec = job.spec;
    const auto role = given_or(job.options, "role", "default");
    if (role.text.size() > limits::max_name_bytes)
        return usage(
            role.origin,
            role.text,
            "accepted are names of up to " + std::to_string(limits::max_name_bytes) + " bytes");
    spec.role = {role.text, role.origin};
    spec.node.host = job.system.host_name;

    const auto unshared = value_of(job.system.environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
    // At a fixed address the workers use the store that listens there, as under torchrun.
    const bool is_shared = !unshared || *unshared != "1" || spec.is_static.value;
    spec.shares_store = {is_shared, unshared ? "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" : by_default};

    // torchrun's rule: without it every worker would start as many threads as there are cores, and
    // they would compete.
    if (spec.nproc.value > 1 && !job.system.environment.contains("OMP_NUM_THREADS")) {
        job.change_environment("OMP_NUM_THREADS", "1", "unset, and more than one worker");
        job.note(
            log::Level::warning,
            "environment.defaulted",
            "OMP_NUM_THREADS=1 in each worker because it was unset; set it to tune");
    }
    return {};
}

Result<> resolve_cpu_binding(Resolving& job) {
    auto& spec = job.spec;
    auto choice = choose_cpu_binding(
        job.options, spec.environment, spec.nproc.value, job.system.read_topology);
    if (!choice) return choice.error();
    spec.binding = std::move(*choice);
    for (const auto& problem : spec.binding.plan.problems)
        job.note(log::Level::warning, "binding.limited", spec.binding.origin + ": " + problem);
    return {};
}

}  // namespace ddprun::launcher
