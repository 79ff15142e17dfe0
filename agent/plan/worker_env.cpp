// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/worker_env.hpp"

#include "agent/plan/topology.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace ddprun::agent {
namespace {

/// One worker's place, with the fields that the table below uses.
struct Place {
    const WorkerSpec& spec;
    const RoundPlan& plan;
    int local_rank;

    const control::Assignment& in() const { return plan.assignment; }
    Endpoint store() const {
        return plan.local_store.value_or(Endpoint{in().master_addr, in().master_port});
    }
};

struct Variable {
    std::string_view name;
    std::string (*value)(const Place&);
};

std::string text(int number) {
    return std::to_string(number);
}

/// "30", "2.5".
std::string seconds_number(Duration length) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(
        digits.data(),
        digits.data() + digits.size(),
        in_seconds(length),
        std::chars_format::general);
    return {digits.data(), end.ptr};
}

constexpr std::array variables{
    Variable{
        "LOCAL_RANK",
        [](const Place& p) { return text(p.spec.has_virtual_local_rank ? 0 : p.local_rank); }},
    Variable{"RANK", [](const Place& p) { return text(p.in().rank_base + p.local_rank); }},
    Variable{"GROUP_RANK", [](const Place& p) { return text(p.in().group_rank); }},
    Variable{
        "ROLE_RANK", [](const Place& p) { return text(p.in().role_rank_base + p.local_rank); }},
    Variable{"ROLE_NAME", [](const Place& p) { return p.spec.role; }},
    Variable{"LOCAL_WORLD_SIZE", [](const Place& p) { return text(p.spec.nproc); }},
    Variable{"WORLD_SIZE", [](const Place& p) { return text(p.in().world_size); }},
    Variable{"GROUP_WORLD_SIZE", [](const Place& p) { return text(p.in().group_world_size); }},
    Variable{"ROLE_WORLD_SIZE", [](const Place& p) { return text(p.in().role_world_size); }},
    Variable{"MASTER_ADDR", [](const Place& p) { return p.store().host; }},
    Variable{"MASTER_PORT", [](const Place& p) { return text(p.store().port); }},
    Variable{
        "TORCHELASTIC_RESTART_COUNT", [](const Place& p) { return text(p.in().restart_count); }},
    Variable{"TORCHELASTIC_MAX_RESTARTS", [](const Place& p) { return text(p.plan.max_restarts); }},
    Variable{"TORCHELASTIC_RUN_ID", [](const Place& p) { return p.plan.run_id; }},
    Variable{
        "TORCHELASTIC_USE_AGENT_STORE",
        [](const Place& p) { return std::string{p.plan.shares_store ? "True" : "False"}; }},
    Variable{
        "TORCHELASTIC_ERROR_FILE",
        [](const Place& p) { return error_file_path(p.spec, p.plan, p.local_rank); }},
    Variable{"DDPRUN_ROUND", [](const Place& p) { return text(p.in().round); }},
    Variable{"DDPRUN_INCARNATION", [](const Place& p) { return p.plan.incarnation; }},
    Variable{"DDPRUN_NODE_ADDR", [](const Place& p) { return p.plan.node_addr; }},
    Variable{
        "DDPRUN_SHUTDOWN_TIMEOUT", [](const Place& p) { return seconds_number(p.plan.grace); }},
};

/// The interpreter and -u, which come before the script.
constexpr std::ptrdiff_t python_words = 2;

/// Set only where the launcher's environment has no value of its own.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> defaults{{
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
    {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
}};

bool begins_name(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool continues_name(char c) {
    return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::string_view name_at(std::string_view text) {
    std::size_t length = 0;
    if (!text.empty() && begins_name(text.front()))
        while (length < text.size() && continues_name(text[length]))
            ++length;
    return text.substr(0, length);
}

/// The value of a name in an argument. Names that torchrun does not have need braces, so that as
/// few arguments as possible are expanded differently.
std::optional<std::string> argument_value(
    std::string_view name, bool is_braced, const Place& place) {
    if (name == "local_rank") return text(place.local_rank);
    if (!is_braced) return std::nullopt;
    if (name == "rank") return text(place.in().rank_base + place.local_rank);
    if (name == "group_rank") return text(place.in().group_rank);
    return std::nullopt;
}

std::string expand(std::string_view text, const Place& place) {
    std::string result;
    while (!text.empty()) {
        const auto dollar = text.find('$');
        result += text.substr(0, dollar);
        if (dollar == std::string_view::npos) break;
        text.remove_prefix(dollar + 1);

        const bool is_braced = text.starts_with('{');
        const auto name = name_at(text.substr(is_braced ? 1 : 0));
        const bool is_closed = !is_braced || text.substr(name.size() + 1).starts_with('}');
        const auto value = is_closed ? argument_value(name, is_braced, place) : std::nullopt;
        if (text.starts_with('$')) {
            result += '$';
            text.remove_prefix(1);
        } else if (value) {
            result += *value;
            text.remove_prefix(name.size() + (is_braced ? 2 : 0));
        } else {
            result += '$';
        }
    }
    return result;
}

std::string expand_wrapper(std::string_view text, const std::string& rank) {
    std::string result;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char next = text[at] == '%' && at + 1 < text.size() ? text[at + 1] : '\0';
        if (next == 'r')
            result += rank;
        else
            result += text[at];
        if (next == 'r' || next == '%') ++at;
    }
    return result;
}

/// The wrapper of one worker, if it has one.
const Wrapper* wrapper_of(const Place& place) {
    const auto& wrapper = place.spec.wrapper;
    const int rank = place.in().rank_base + place.local_rank;
    const bool is_wrapped =
        wrapper &&
        std::any_of(wrapper->ranks.begin(), wrapper->ranks.end(), [&](const RankRange& ranks) {
            return ranks.contains(place.local_rank, rank);
        });
    return is_wrapped ? &*wrapper : nullptr;
}

}  // namespace

bool is_run_by_python(const WorkerSpec& spec) {
    // Only the launcher adds -u, which disables Python's output buffering.
    return spec.arguments.size() > 1 && spec.arguments[1] == "-u";
}

std::string entrypoint_name(const WorkerSpec& spec) {
    if (!is_run_by_python(spec))
        return spec.arguments.empty() ? spec.program : spec.arguments.front();
    for (std::size_t i = 1; i < spec.arguments.size(); ++i)
        if (!spec.arguments[i].starts_with('-')) return spec.arguments[i];
    return spec.program;
}

std::vector<std::string> worker_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank) {
    auto environment = spec.environment;
    for (const auto& [name, value] : defaults)
        environment.emplace(name, value);
    // When the allocation ends, in seconds of the Unix epoch.
    if (const auto end = environment.find("SLURM_JOB_END_TIME"); end != environment.end())
        environment.insert_or_assign("DDPRUN_DEADLINE", end->second);
    const Place place{spec, plan, local_rank};
    for (const auto& variable : variables)
        environment.insert_or_assign(std::string{variable.name}, variable.value(place));

    // Variables of an outer ddprun do not apply to this worker.
    environment.erase("DDPRUN_CHANNEL");
    environment.erase("DDPRUN_MASTER_ADDR");
    environment.erase("DDPRUN_STATE_SOURCE");
    // The rank that has the state with which all ranks begin, and the last step in it.
    if (const auto& state = plan.assignment.state)
        environment.emplace(
            "DDPRUN_STATE_SOURCE", text(state->rank) + '/' + std::to_string(state->step));
    // The usual MASTER_ADDR: for scripts that use it as the address of the first node.
    if (plan.local_store) environment.emplace("DDPRUN_MASTER_ADDR", plan.assignment.master_addr);
    if (!plan.channels.empty())
        environment.emplace("DDPRUN_CHANNEL", plan.channels[static_cast<std::size_t>(local_rank)]);

    if (!plan.gloo_interface.empty())
        environment.emplace("GLOO_SOCKET_IFNAME", plan.gloo_interface);

    if (spec.has_virtual_local_rank)
        // ROCm reads the HIP variable, and if it is not set, the CUDA one.
        for (const std::string name : {visible_variable(spec.environment), "CUDA_VISIBLE_DEVICES"})
            environment.insert_or_assign(name, own_device(spec, local_rank));

    // --share-gpu: NCCL refuses two ranks of one host on the same GPU, but accepts ranks of two
    // hosts.
    if (environment.contains("DDPRUN_SHARE_GPU"))
        environment.emplace(
            "NCCL_HOSTID", plan.run_id + "-r" + text(plan.assignment.rank_base + local_rank));

    std::vector<std::string> lines;
    lines.reserve(environment.size());
    for (const auto& [name, value] : environment)
        lines.push_back(name + '=' + value);
    return lines;
}

namespace {

/// The variables of `worker_environment` that may differ in another round or for another rank, or
/// all others.
std::vector<std::string> part_of_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank, bool is_identity) {
    auto lines = worker_environment(spec, plan, local_rank);
    const auto names = identity_variables();
    std::erase_if(lines, [&](const std::string& line) {
        const auto name = std::find(names.begin(), names.end(), line.substr(0, line.find('=')));
        return (name != names.end()) != is_identity;
    });
    return lines;
}

}  // namespace

std::vector<std::string> changed_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank) {
    return part_of_environment(spec, plan, local_rank, true);
}

std::vector<std::string> worker_arguments(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank) {
    auto arguments = spec.arguments;
    const Place place{spec, plan, local_rank};
    for (std::size_t i = 1; i < arguments.size(); ++i)
        arguments[i] = expand(arguments[i], place);
    if (!spec.bootstrap.empty())
        arguments.insert(arguments.begin() + python_words, {"-c", spec.bootstrap, "--"});
    const auto* wrapper = wrapper_of(place);
    if (wrapper == nullptr) return arguments;
    // The wrapper would search for a bare name in its own way, but the program was already found.
    if (!arguments.empty()) arguments.front() = spec.program;
    std::vector<std::string> wrapped;
    for (const auto& argument : wrapper->arguments)
        wrapped.push_back(expand_wrapper(argument, text(plan.assignment.rank_base + local_rank)));
    wrapped.insert(wrapped.end(), arguments.begin(), arguments.end());
    return wrapped;
}

std::vector<std::string> parked_arguments(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank) {
    auto arguments = worker_arguments(spec, plan, local_rank);
    const auto mode = arguments.begin() + python_words + 2;
    *mode = "--parked";
    // The script, or -m and the module: later words are added when the worker gets its place.
    const auto count = *(mode + 1) == "-m" ? 2 : 1;
    arguments.erase(std::min(mode + 1 + count, arguments.end()), arguments.end());
    return arguments;
}

std::vector<std::string> identity_variables() {
    std::vector<std::string> names{"DDPRUN_CHANNEL", "DDPRUN_MASTER_ADDR", "DDPRUN_STATE_SOURCE"};
    for (const auto& variable : variables)
        if (variable.name != "LOCAL_RANK" && variable.name != "LOCAL_WORLD_SIZE")
            names.emplace_back(variable.name);
    return names;
}

std::vector<std::string> parked_environment(
    const WorkerSpec& spec, const RoundPlan& plan, int local_rank) {
    return part_of_environment(spec, plan, local_rank, false);
}

const std::string& worker_program(const WorkerSpec& spec, const RoundPlan& plan, int local_rank) {
    const auto* wrapper = wrapper_of({spec, plan, local_rank});
    return wrapper == nullptr ? spec.program : wrapper->program;
}

std::optional<int> attached_local_rank(const WorkerSpec& spec, const RoundPlan& plan) {
    if (!spec.attachment) return std::nullopt;
    const int local_rank = spec.attachment->rank - plan.assignment.rank_base;
    if (local_rank < 0 || local_rank >= spec.nproc) return std::nullopt;
    return local_rank;
}

std::string own_device(const WorkerSpec& spec, int local_rank) {
    const auto found = spec.environment.find(visible_variable(spec.environment));
    if (found == spec.environment.end() || found->second.empty()) return text(local_rank);
    std::string_view rest = found->second;
    for (int skipped = 0; skipped < local_rank; ++skipped) {
        const auto comma = rest.find(',');
        // The launcher has checked that there are enough entries.
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
    rest = rest.substr(0, rest.find(','));
    const auto first = rest.find_first_not_of(' ');
    if (first == std::string_view::npos) return {};
    return std::string{rest.substr(first, rest.find_last_not_of(' ') - first + 1)};
}

std::string error_file_path(const WorkerSpec& spec, const RoundPlan& plan, int local_rank) {
    if (!plan.logs.is_none())
        return plan.logs.of_worker(local_rank, plan.assignment.rank_base + local_rank) +
               "/error.json";
    return temporary_error_file_stem(spec, plan) + std::to_string(local_rank) + ".json";
}

std::string temporary_error_folder(const WorkerSpec& spec, const RoundPlan& plan) {
    const auto found = spec.environment.find("TMPDIR");
    std::string path =
        found != spec.environment.end() && !found->second.empty() ? found->second : "/tmp";
    if (path.back() != '/') path += '/';
    return path + "ddprun-" + plan.error_folder.to_string();
}

std::string temporary_error_file_stem(const WorkerSpec& spec, const RoundPlan& plan) {
    return temporary_error_folder(spec, plan) + '/' + std::to_string(plan.assignment.round) + '-';
}

}  // namespace ddprun::agent
