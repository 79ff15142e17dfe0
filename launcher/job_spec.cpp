// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec.hpp"

#include "launcher/node_range.hpp"
#include "launcher/number.hpp"
#include "launcher/rdzv_conf.hpp"
#include "launcher/report_options.hpp"
#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {
namespace {

using control::NodeRange;

constexpr int default_keep_alive_attempts = 3;
constexpr Duration default_keep_alive_interval = std::chrono::seconds{5};
const std::string by_default = "default";

Failure usage(const std::string& origin, const std::string& given, const std::string& accepted) {
    return {system_code(EINVAL), origin + ": '" + given + "': " + accepted};
}

/// One command line being understood. Each step fills its part of `spec_`; the first failure ends
/// it. The order is torch's, so that of two mistakes the same one is named.
class Resolution {
public:
    Resolution(const Options& options, const Surroundings& surroundings)
        : options_(options),
          around_(surroundings) {}

    Result<JobSpec> run() {
        using Step = Result<> (Resolution::*)();
        constexpr Step steps[] = {
            &Resolution::nodes,
            &Resolution::restarts,
            &Resolution::nproc,
            &Resolution::rendezvous_conf,
            &Resolution::node_rank,
            &Resolution::rendezvous,
            &Resolution::local_address,
            &Resolution::ports,
            &Resolution::time_limits,
            &Resolution::output,
            &Resolution::command,
        };
        for (const auto step : steps)
            if (auto done = (this->*step)(); !done) return done.error();
        role_and_names();
        environment();
        if (auto done = cpu_binding(); !done) return done.error();
        auto report =
            choose_report(options_, around_.environment, around_.has_terminal, around_.look_at);
        if (!report) return report.error();
        spec_.report = std::move(*report);
        return std::move(spec_);
    }

private:
    Result<> nodes();
    Result<> restarts();
    Result<> nproc();
    Result<> rendezvous_conf();
    Result<> node_rank();
    Result<> rendezvous();
    Result<> local_address();
    Result<> ports();
    Result<> time_limits();
    Result<> output();
    Result<> command();
    void role_and_names();
    void environment();
    Result<> cpu_binding();

    Result<> own_rendezvous(const std::string& why);
    Result<> shared_rendezvous(const std::string& backend);
    void lease();
    int visible_gpus() const;
    void change_environment(
        const std::string& name, const std::string& value, const std::string& why);
    void note(log::Level level, std::string event, std::string reason) {
        spec_.notices.push_back({level, std::move(event), std::move(reason)});
    }

    const Options& options_;
    const Surroundings& around_;
    RdzvConf conf_;
    std::string conf_origin_;
    JobSpec spec_;
};

Result<> Resolution::nodes() {
    const auto given = options_.find("nnodes");
    spec_.nodes = {NodeRange{}, by_default};
    if (!given) return {};
    const auto range = parse_node_range(given->text);
    if (!range) return Failure{range.error().code, given->origin + ": " + range.error().context};
    spec_.nodes = {*range, given->origin};
    return {};
}

Result<> Resolution::restarts() {
    const auto given = options_.find("max-restarts");
    spec_.max_restarts = {0, by_default};
    if (!given) return {};
    const auto count = parse_int(given->text);
    if (!count || *count < 0)
        return usage(given->origin, given->text, "accepted is a whole number from 0 up");
    spec_.max_restarts = {*count, given->origin};
    return {};
}

/// Entries of CUDA_VISIBLE_DEVICES up to the first that CUDA would not accept, else every device.
int Resolution::visible_gpus() const {
    const auto found = around_.environment.find("CUDA_VISIBLE_DEVICES");
    if (found == around_.environment.end()) return around_.gpu_count;
    int count = 0;
    std::string_view rest = found->second;
    while (!rest.empty()) {
        const auto entry = without_blanks(rest.substr(0, rest.find(',')));
        if (entry.empty() || entry.starts_with('-')) break;
        ++count;
        const auto comma = rest.find(',');
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
    return std::min(count, around_.gpu_count);
}

Result<> Resolution::nproc() {
    const auto given = options_.find("nproc-per-node");
    spec_.nproc = {1, by_default};
    if (!given) return {};
    const int gpus = visible_gpus();
    if (given->text == "cpu") {
        spec_.nproc = {around_.cpu_count, given->origin + "=cpu"};
    } else if (given->text == "gpu" || (given->text == "auto" && gpus > 0)) {
        if (gpus == 0)
            return usage(
                given->origin,
                "gpu",
                "no NVIDIA GPU is visible on this machine (/proc/driver/nvidia/gpus, "
                "CUDA_VISIBLE_DEVICES); give a number, or cpu");
        spec_.nproc = {gpus, given->origin + "=" + given->text + ", GPUs"};
    } else if (given->text == "auto") {
        spec_.nproc = {around_.cpu_count, given->origin + "=auto, CPUs (no GPU is visible)"};
    } else {
        const auto count = parse_int(given->text);
        if (!count || *count < 1 || *count > limits::max_workers_per_node)
            return usage(
                given->origin,
                given->text,
                "accepted are 1 to " + std::to_string(limits::max_workers_per_node) +
                    ", auto, gpu and cpu");
        spec_.nproc = {*count, given->origin};
    }
    return {};
}

Result<> Resolution::rendezvous_conf() {
    const auto given = options_.find("rdzv-conf");
    if (!given) return {};
    const auto conf = parse_rdzv_conf(given->text);
    if (!conf) return Failure{conf.error().code, given->origin + ": " + conf.error().context};
    conf_ = *conf;
    conf_origin_ = given->origin;
    for (const auto& warning : conf_.warnings)
        note(log::Level::warning, "option.ignored", given->origin + ": " + warning);
    return {};
}

Result<> Resolution::node_rank() {
    spec_.node_rank = {std::nullopt, "not given"};
    if (conf_.rank) spec_.node_rank = {conf_.rank, conf_origin_ + " rank"};
    const auto given = options_.find("node-rank");
    if (!given) return {};
    const auto rank = parse_int(given->text);
    if (!rank || *rank < 0)
        return usage(given->origin, given->text, "accepted is a whole number from 0 up");
    const auto& nodes = spec_.nodes.value;
    if (*rank >= nodes.max + nodes.spares)
        return usage(
            given->origin,
            given->text,
            "accepted are 0 to " + std::to_string(nodes.max + nodes.spares - 1) +
                " with --nnodes=" + describe(nodes));
    spec_.node_rank = {*rank, given->origin};
    return {};
}

/// This node alone, on a port of its own: nothing to clash with.
Result<> Resolution::own_rendezvous(const std::string& why) {
    spec_.endpoint = {Endpoint{"localhost", 0}, why};
    spec_.is_host = {true, why};
    return {};
}

/// Several nodes, or one that was told where to meet.
Result<> Resolution::shared_rendezvous(const std::string& backend) {
    const auto given = options_.find("rdzv-endpoint");
    if (!given || without_blanks(given->text).empty()) {
        if (backend == "static")
            return usage(
                spec_.nodes.origin,
                describe(spec_.nodes.value),
                "more than one node needs --rdzv-endpoint=HOST:PORT, the same on every node, "
                "where HOST is one of them");
        spec_.endpoint = {
            Endpoint{"localhost", limits::default_rendezvous_port},
            by_default + " (no --rdzv-endpoint)"};
        if (spec_.nodes.value.max > 1)
            note(
                log::Level::warning,
                "rendezvous.endpoint_missing",
                "no --rdzv-endpoint: only nodes on this machine can meet at " +
                    spec_.endpoint.value.to_string());
    } else {
        const auto endpoint = parse_endpoint(given->text, limits::default_rendezvous_port);
        if (!endpoint)
            return Failure{endpoint.error().code, given->origin + ": " + endpoint.error().context};
        if (endpoint->port == 0 && spec_.nodes.value.max > 1)
            return usage(
                given->origin,
                given->text,
                "port 0 means any free one, which the other nodes could not know; give a port");
        spec_.endpoint = {*endpoint, given->origin};
    }
    spec_.is_host = {conf_.is_host, conf_.is_host ? conf_origin_ + " is_host" : "found out"};
    return {};
}

Result<> Resolution::rendezvous() {
    const auto standalone = options_.find("standalone");
    const auto backend = options_.find("rdzv-backend").value_or(Given{"static", by_default});
    if (backend.text != "static" && backend.text != "c10d")
        return usage(
            backend.origin,
            backend.text,
            "accepted are c10d and static; ddprun needs no other service, it serves the "
            "rendezvous itself");

    if (standalone && standalone->text == "1") {
        if (spec_.nodes.value.min > 1)
            return usage(
                standalone->origin,
                spec_.nodes.origin + "=" + describe(spec_.nodes.value),
                "a standalone job has one node; leave one of the two out");
        spec_.nodes = {NodeRange{}, standalone->origin};
        spec_.node_rank = {std::nullopt, standalone->origin};
        return own_rendezvous(standalone->origin);
    }
    const bool is_alone = spec_.nodes.value.max == 1 && spec_.nodes.value.spares == 0;
    if (is_alone && backend.text == "static" && !options_.find("rdzv-endpoint"))
        return own_rendezvous("one node and no endpoint given");
    return shared_rendezvous(backend.text);
}

Result<> Resolution::local_address() {
    spec_.local_addr = {"", "this node's end of its connection to the endpoint"};
    const auto given = options_.find("local-addr");
    if (!given) return {};
    const auto address = resolve_local_address(given->text, around_.interfaces);
    if (!address)
        return Failure{address.error().code, given->origin + ": " + address.error().context};
    spec_.local_addr = {
        *address, given->text == *address ? given->origin : given->origin + "=" + given->text};
    return {};
}

Result<> Resolution::ports() {
    spec_.ports = {PortRange{limits::first_store_port, limits::last_store_port}, by_default};
    const auto given = options_.find("port-range");
    if (!given) return {};
    const auto dash = given->text.find('-');
    const auto first = parse_int(given->text.substr(0, dash));
    const auto last =
        dash == std::string::npos ? std::nullopt : parse_int(given->text.substr(dash + 1));
    // Three of them are in use at once: the round's store, the one after it, the neighbours' port.
    constexpr int fewest = 4;
    if (!first || !last || *first < 1 || *last > 65'535 || *last - *first < fewest - 1)
        return usage(
            given->origin,
            given->text,
            "accepted is FIRST-LAST with 1 <= FIRST < LAST <= 65535 and at least four ports");
    spec_.ports = {
        PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)},
        given->origin};
    return {};
}

/// 30 s unless one of torch's two numbers is given; then their product, as torch would have it.
void Resolution::lease() {
    spec_.lease = {limits::default_lease, by_default};
    if (!conf_.keep_alive_interval && !conf_.keep_alive_max_attempt) return;
    const auto interval = conf_.keep_alive_interval.value_or(default_keep_alive_interval);
    const auto attempts = conf_.keep_alive_max_attempt.value_or(default_keep_alive_attempts);
    const double seconds = in_seconds(interval) * attempts;
    const auto asked = parse_seconds(std::to_string(seconds)).value_or(Duration::max());
    spec_.lease = {asked, conf_origin_ + " keep_alive_interval x keep_alive_max_attempt"};
    if (asked >= limits::shortest_lease) return;
    spec_.lease = {limits::shortest_lease, spec_.lease.origin + ", raised to the shortest"};
    note(
        log::Level::warning,
        "lease.raised",
        "keep_alive_interval x keep_alive_max_attempt is " + describe_seconds(asked) +
            " s; a lease lasts " + describe_seconds(limits::shortest_lease) + " s at least");
}

Result<> Resolution::time_limits() {
    const auto conf_or = [&](const std::optional<Duration>& said, Duration usual, const char* key) {
        return said ? From<Duration>{*said, conf_origin_ + " " + key}
                    : From<Duration>{usual, by_default};
    };
    const control::Settings usual;
    spec_.join_timeout = conf_or(conf_.join_timeout, usual.join_timeout, "join_timeout");
    spec_.last_call_timeout =
        conf_or(conf_.last_call_timeout, usual.last_call_timeout, "last_call_timeout");
    lease();

    if (const auto given = options_.find("monitor-interval")) {
        const auto interval = parse_seconds(given->text);
        if (!interval || *interval <= Duration::zero())
            return usage(given->origin, given->text, "accepted is a number of seconds above 0");
        note(
            log::Level::debug,
            "option.unneeded",
            given->origin + ": workers are not polled, their end is seen at once");
    }

    spec_.grace = {usual.grace, by_default};
    auto given = options_.find("shutdown-timeout");
    const std::string torch_name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
    if (const auto value = value_of(around_.environment, torch_name); !given && value)
        given = Given{std::string{*value}, torch_name};
    if (!given) return {};
    const auto grace = parse_seconds(given->text);
    if (!grace)
        return usage(given->origin, given->text, "accepted is a number of seconds from 0 up");
    spec_.grace = {*grace, given->origin};
    return {};
}

Result<> Resolution::output() {
    auto output = resolve_output(options_, around_.environment);
    if (!output) return output.error();
    spec_.output = std::move(*output);
    return {};
}

Result<> Resolution::command() {
    const auto module = options_.has_flag("module");
    const auto program = options_.has_flag("no-python");
    if (module && program)
        return Failure{
            system_code(EINVAL),
            options_.find("module")->origin + ": given together with " +
                options_.find("no-python")->origin +
                ": a module needs an interpreter; leave one of the two out"};
    if (options_.command.empty() || options_.command.front().empty())
        return Failure{
            system_code(EINVAL),
            "no script given: accepted is ddprun [OPTION]... SCRIPT [ARGUMENT]..."};
    const auto python = options_.find("python").value_or(Given{});
    const auto found = find_worker_command(
        {options_.command, module, program, python.text, around_.own_path},
        around_.environment,
        around_.look_at);
    if (!found) return found.error();
    spec_.command = *found;
    return {};
}

/// 128 random bits as the UUID torch would make.
std::string as_uuid(const Nonce& nonce) {
    auto text = nonce.to_string();
    for (const std::size_t position : {20U, 16U, 12U, 8U})
        text.insert(position, 1, '-');
    return text;
}

void Resolution::role_and_names() {
    const auto role = options_.find("role");
    spec_.role = role ? From<std::string>{role->text, role->origin}
                      : From<std::string>{"default", by_default};
    const bool is_own = spec_.endpoint.value.port == 0;
    const auto id = options_.find("rdzv-id");
    if (id && !id->text.empty() && !options_.has_flag("standalone"))
        spec_.run_id = {id->text, id->origin};
    else if (is_own || id)
        spec_.run_id = {as_uuid(around_.fresh_id), "random"};
    else
        spec_.run_id = {"none", by_default};
    spec_.host_name = around_.host_name;
}

void Resolution::change_environment(
    const std::string& name, const std::string& value, const std::string& why) {
    spec_.environment[name] = value;
    spec_.environment_changes.push_back({name + "=" + value, why});
}

void Resolution::environment() {
    spec_.environment = around_.environment;
    const auto unshared = value_of(around_.environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
    const bool is_shared = !unshared || *unshared != "1";
    spec_.shares_store = {is_shared, unshared ? "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" : by_default};

    // torchrun's rule: without it every worker would start as many threads as there are cores, and
    // they would fight for them.
    if (spec_.nproc.value > 1 && !around_.environment.contains("OMP_NUM_THREADS")) {
        change_environment("OMP_NUM_THREADS", "1", "unset, and more than one worker");
        note(
            log::Level::warning,
            "environment.defaulted",
            "OMP_NUM_THREADS=1 in each worker because it was unset; set it to tune");
    }
}

/// After the environment: which GPU a worker uses is decided there.
Result<> Resolution::cpu_binding() {
    auto choice =
        choose_cpu_binding(options_, spec_.environment, spec_.nproc.value, around_.read_topology);
    if (!choice) return choice.error();
    spec_.binding = std::move(*choice);
    for (const auto& problem : spec_.binding.plan.problems)
        note(log::Level::warning, "binding.limited", spec_.binding.origin + ": " + problem);
    return {};
}

}  // namespace

Result<JobSpec> resolve(const Options& options, const Surroundings& surroundings) {
    return Resolution{options, surroundings}.run();
}

agent::AgentConfig to_agent_config(const JobSpec& spec) {
    agent::AgentConfig config;
    config.run_id = spec.run_id.value;
    config.rendezvous = {spec.endpoint.value, spec.is_host.value, ""};
    config.nodes = spec.nodes.value;
    config.settings.join_timeout = spec.join_timeout.value;
    config.settings.last_call_timeout = spec.last_call_timeout.value;
    config.settings.lease = spec.lease.value;
    config.settings.grace = spec.grace.value;
    config.max_restarts = spec.max_restarts.value;
    config.node_rank = spec.node_rank.value;
    config.local_addr = spec.local_addr.value;
    config.first_port = spec.ports.value.first;
    config.last_port = spec.ports.value.last;
    config.host_name = spec.host_name;
    config.shares_store = spec.shares_store.value;
    config.worker = {
        spec.command.program,
        spec.command.arguments,
        spec.environment,
        spec.nproc.value,
        spec.role.value,
        spec.binding.plan.workers};
    config.report = spec.report;
    config.output = spec.output.plan;
    return config;
}

Result<log::Level> log_level(
    const Options& options, const Environment& environment, std::vector<Notice>& notices) {
    const std::string accepted = "accepted are error, warning, info, debug and trace";
    if (value_of(environment, "DDPRUN_TRACE").value_or("0") != "0") return log::Level::trace;
    if (const auto given = options.find("log-level")) {
        if (const auto level = log::parse_level(given->text)) return *level;
        return usage(given->origin, given->text, accepted);
    }
    const auto named = value_of(environment, "LOGLEVEL");
    if (!named) return log::Level::warning;
    if (const auto level = log::parse_level(*named)) return *level;
    // Other programs read LOGLEVEL too: their word for it is no reason to fail.
    notices.push_back(
        {log::Level::warning,
         "option.ignored",
         "LOGLEVEL: '" + std::string{*named} + "': " + accepted});
    return log::Level::warning;
}

}  // namespace ddprun::launcher
