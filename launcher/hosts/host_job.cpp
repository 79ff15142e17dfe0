// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_job.hpp"

#include "launcher/explain/exit_code.hpp"
#include "launcher/grammar/node_range.hpp"
#include "launcher/grammar/number.hpp"
#include "launcher/grammar/rdzv_conf.hpp"
#include "launcher/resolve/report_options.hpp"
#include "launcher/resolve/resolving.hpp"
#include "launcher/resolve/slurm.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

namespace ddprun::launcher {
namespace host_job {
namespace {

constexpr auto usual_connect_timeout = std::chrono::seconds{20};
constexpr auto usual_grace = std::chrono::seconds{30};

/// Options that this process answers itself, or that differ for each node.
constexpr std::array<std::string_view, 10> kept_here{
    "hosts",
    "hostfile",
    "connect-timeout",
    "nnodes",
    "nproc-per-node",
    "rdzv-conf",
    "report-file",
    "rdzv-secret-file",
    "secure",
    "explain"};

/// Options that the list of hosts replaces, or that no other machine can fulfil.
struct Excluded {
    const char* option;
    const char* advice;
};
constexpr std::array<Excluded, 5> excluded{{
    {"standalone", "a standalone job has one node, which is here; leave one of the two out"},
    {"node-rank", "the order of the hosts is the order of the nodes; leave it out"},
    {"master-addr", "the first host serves; for another address give --rdzv-endpoint=HOST:PORT"},
    {"master-port", "the first host serves; for another port give --rdzv-endpoint=HOST:PORT"},
    {"attach",
     "hosts are reached without a terminal; run ddprun on each host for a debugger "
     "(docs/debugging.md)"},
}};

std::string without_user(const std::string& name) {
    const auto at = name.rfind('@');
    return at == std::string::npos ? name : name.substr(at + 1);
}

bool is_loopback_name(const std::string& name) {
    return name == "localhost" || is_loopback(name);
}

/// Whether this is the machine itself: by its own name, with or without the domain, or by one of
/// its addresses. Another user of it is reached by ssh. So is a name with a domain if the machine's
/// own name has none, since that may be another machine.
bool is_here(const std::string& name, const SystemInfo& system) {
    if (is_loopback_name(name)) return true;
    const auto& own = system.host_name;
    if (name == own || name == own.substr(0, own.find('.'))) return !name.empty();
    return std::any_of(
        system.interfaces.begin(), system.interfaces.end(), [&](const InterfaceAddress& entry) {
            return entry.address == name;
        });
}

Result<std::vector<Host>> named_hosts(const Options& options, const SystemInfo& system) {
    const auto list = options.find("hosts");
    const auto file = options.find("hostfile");
    if (list && file)
        return usage(list->origin, list->text, "give this or " + file->origin + ", not both");
    const auto& given = list ? *list : *file;
    const auto in_option = [&](const Failure& failure) {
        return Failure{failure.code, given.origin + ": " + failure.context};
    };
    if (list) {
        auto hosts = parse_host_list(list->text);
        if (!hosts) return in_option(hosts.error());
        return hosts;
    }
    const auto text = system.read_file ? system.read_file(file->text) : std::nullopt;
    if (!text) return usage(file->origin, file->text, "the file cannot be read");
    auto hosts = parse_host_file(*text);
    if (!hosts)
        return Failure{
            hosts.error().code, file->origin + ": " + file->text + ": " + hosts.error().context};
    return hosts;
}

/// A number in --hosts takes precedence over -n, and -n over a scheduler's host file.
std::string nproc_of(const Host& host, const Options& options) {
    const auto all = options.find("nproc-per-node");
    const bool is_typed = options.find("hosts").has_value();
    if (host.workers && (is_typed || !all)) return std::to_string(*host.workers);
    return all ? all->text : std::string{};
}

Result<control::NodeRange> whole_units(
    const Options& options, const control::NodeRange& range, const std::string& origin) {
    const auto unit = options.find("node-unit");
    if (!unit) return range;
    auto narrowed = with_unit(range, origin, unit->text);
    if (!narrowed)
        return Failure{narrowed.error().code, unit->origin + ": " + narrowed.error().context};
    return narrowed;
}

Result<control::NodeRange> nodes_of(const Options& options, int host_count) {
    const auto given = options.find("nnodes");
    if (!given)
        return whole_units(
            options, control::NodeRange{host_count, host_count, 0}, "the number of hosts");
    const auto range = parse_node_range(given->text);
    if (!range) return Failure{range.error().code, given->origin + ": " + range.error().context};
    if (range->min > host_count || range->max + range->spares < host_count)
        return usage(
            given->origin,
            given->text,
            std::to_string(host_count) + (host_count == 1 ? " host is" : " hosts are") +
                " named; leave the option out, or name as many hosts");
    return whole_units(options, *range, given->origin);
}

Result<Duration> length_of(const Options& options, const char* name, Duration usual) {
    const auto given = options.find(name);
    if (!given) return usual;
    const auto length = parse_duration(given->text);
    if (length && *length > Duration{}) return *length;
    return usage(
        given->origin, given->text, "accepted are " + std::string{duration_forms} + ", above 0");
}

/// A port chosen for this job, so that jobs that share the first host seldom collide.
std::uint16_t port_of(const Options& options, const Nonce& nonce) {
    int first = first_slurm_port;
    int count = slurm_port_count;
    if (const auto given = options.find("port-range")) {
        const auto dash = given->text.find('-');
        const auto from = parse_int(std::string_view{given->text}.substr(0, dash));
        const auto to = dash == std::string::npos
                            ? std::nullopt
                            : parse_int(std::string_view{given->text}.substr(dash + 1));
        // A wrong port range is reported by a node.
        if (from && to && *from > 0 && *to >= *from && *to <= 65'535) {
            first = *from;
            count = *to - *from + 1;
        }
    }
    int number = 0;
    for (const char digit : nonce.to_short_string().substr(0, 6))
        number = number * 16 + (digit <= '9' ? digit - '0' : digit - 'a' + 10);
    return static_cast<std::uint16_t>(first + number % count);
}

Result<> check_first(const HostJob& job, const Options& options) {
    const auto& first = job.places.front();
    if (job.places.size() == 1 || !is_loopback_name(first.name) || options.find("rdzv-endpoint"))
        return {};
    return usage(
        options.find("hosts") ? "--hosts" : "--hostfile",
        first.name,
        "the other hosts cannot reach the first one by this name; give the name that this machine "
        "has for them");
}

/// Hosts are reached by ssh, which belongs to no Slurm step.
Result<> check_topology(const Options& options) {
    const auto given = options.find("topology");
    if (!given || given->text != "slurm") return {};
    return usage(
        given->origin,
        given->text,
        "with hosts no node is in a Slurm step; accepted are file:PATH and env:NAME");
}

bool names_is_host(const std::string& conf) {
    const auto parsed = parse_rdzv_conf(conf);
    return parsed && parsed->is_host.has_value();
}

}  // namespace
}  // namespace host_job

bool is_host_job(const Options& options) {
    return options.find("hosts") || options.find("hostfile");
}

Result<HostJob> read_host_job(const Options& options, const SystemInfo& system) {
    using namespace host_job;
    HostJob job;
    for (const auto& one : excluded)
        if (const auto given = options.find(one.option);
            given && !(option_row(one.option).is_flag() && given->text == "0"))
            return usage(given->origin, given->text, "with hosts: " + std::string{one.advice});
    // The option is passed to every node, but a node would report too late that a value must not be
    // on a command line.
    if (const auto conf = options.find("rdzv-conf"))
        if (const auto parsed = parse_rdzv_conf(conf->text); !parsed)
            return Failure{parsed.error().code, conf->origin + ": " + parsed.error().context};
    if (options.command.empty())
        return Failure{
            system_code(EINVAL), "no script given: ddprun --hosts=a,b SCRIPT [ARGUMENT]..."};
    const auto hosts = named_hosts(options, system);
    if (!hosts) return hosts.error();
    for (const auto& host : *hosts)
        job.places.push_back({host.name, is_here(host.name, system), nproc_of(host, options)});
    const auto nodes = nodes_of(options, static_cast<int>(job.places.size()));
    if (!nodes) return nodes.error();
    job.nodes = *nodes;
    if (auto checked = check_first(job, options); !checked) return checked.error();
    if (auto checked = check_topology(options); !checked) return checked.error();
    const auto connect = length_of(options, "connect-timeout", usual_connect_timeout);
    if (!connect) return connect.error();
    job.connect_timeout = *connect;
    const auto grace = length_of(options, "shutdown-timeout", usual_grace);
    job.grace = grace ? *grace : Duration{usual_grace};  // a wrong value is reported by a node
    auto signals = signal_choice(options, false);
    if (!signals) return signals.error();
    job.signals = std::move(*signals);
    auto report = choose_report(options, system.environment, system.has_terminal, system.look_at);
    if (!report) return report.error();
    job.report = std::move(*report);
    job.has_torchrun_exit_code = is_exit_code_torchruns(options);
    job.token = system.fresh_id.to_string();
    const auto id = options.find("rdzv-id");
    job.run_id = id && !id->text.empty() ? id->text : "hosts-" + system.fresh_id.to_short_string();
    job.port = port_of(options, system.fresh_id);
    job.options = options;
    return job;
}

std::vector<std::string> node_arguments(
    const HostJob& job, int place, int node, int count, const std::string& first_address) {
    using namespace host_job;
    std::vector<std::string> words;
    const auto add = [&](const std::string& name, const std::string& value) {
        words.push_back("--" + name + "=" + value);
    };
    const auto& options = job.options;
    const bool is_range = job.nodes.min < job.nodes.max || job.nodes.spares > 0;
    const auto conf = options.find("rdzv-conf");
    auto conf_text = conf ? conf->text : std::string{};
    const bool has_others = count > 1 || is_range;
    if (has_others) {
        const auto fixed = control::NodeRange{count, count, 0};
        add("nnodes", control::describe(is_range ? job.nodes : fixed));
        if (!options.find("rdzv-backend")) add("rdzv-backend", "c10d");
        if (!options.find("rdzv-id")) add("rdzv-id", job.run_id);
        // A spare can take any place, and the hosts' switches would change the order.
        const bool is_static = options.find("rdzv-backend").value_or(Given{}).text == "static";
        if (is_static || (job.nodes.spares == 0 && !options.find("topology")))
            add("node-rank", std::to_string(node));
        if (!options.find("rdzv-endpoint")) {
            add("rdzv-endpoint", Endpoint{first_address, job.port}.to_string());
            if (!names_is_host(conf_text) && !is_static)
                conf_text += (conf_text.empty() ? "is_host=" : ",is_host=") +
                             std::string{node == 0 ? "true" : "false"};
        }
        // Lost nodes are never replaced.
        if (!is_range && !options.find("replacement-timeout")) add("replacement-timeout", "0");
    }
    if (!conf_text.empty()) add("rdzv-conf", conf_text);
    const auto& nproc = job.places[static_cast<std::size_t>(place)].nproc;
    if (!nproc.empty()) add("nproc-per-node", nproc);
    for (const auto& [name, given] : options.given) {
        if (std::find(kept_here.begin(), kept_here.end(), name) != kept_here.end()) continue;
        if (!option_row(name).is_flag())
            add(name, given.text);
        else if (given.text == "1")
            words.push_back("--" + name);
    }
    words.emplace_back("--");
    words.insert(words.end(), options.command.begin(), options.command.end());
    return words;
}

std::string address_of(const std::string& name, std::string_view ssh_settings) {
    constexpr std::string_view key = "hostname ";
    for (const auto line : split(ssh_settings, '\n'))
        if (line.starts_with(key)) return std::string{trimmed(line.substr(key.size()))};
    return host_job::without_user(name);
}

std::vector<std::string> ssh_arguments(
    const std::string& host, Duration connect_timeout, std::string_view ssh_settings) {
    const auto seconds = static_cast<int>(std::ceil(in_seconds(connect_timeout)));
    std::vector<std::string> words{"ssh", "-T", "-x", "-a"};
    std::vector<std::string> options{
        "BatchMode=yes",
        "ConnectTimeout=" + std::to_string(seconds),
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "ClearAllForwardings=yes",
        "RemoteCommand=none"};
    // OpenSSH before 8.7 fails at an unknown option.
    if (ssh_settings.find("sessiontype ") != std::string_view::npos)
        options.insert(
            options.end(), {"StdinNull=no", "ForkAfterAuthentication=no", "SessionType=default"});
    for (const auto& option : options)
        words.insert(words.end(), {"-o", option});
    words.insert(words.end(), {"--", host, "sh", "-s"});
    return words;
}

std::string explain_hosts(const HostJob& job) {
    const int count = static_cast<int>(job.places.size());
    const auto first = host_job::without_user(job.places.front().name);
    std::string text = "hosts            " + std::to_string(count) + ", each reached within " +
                       seconds_text(job.connect_timeout) + " or named; at most " +
                       std::to_string(limits::max_connecting_hosts) + " at once\n";
    for (int place = 0; place < count; ++place) {
        const auto& host = job.places[static_cast<std::size_t>(place)];
        text += host.name + (host.is_here ? " (this machine)" : " (ssh)") + ":\n  ddprun";
        for (const auto& word : node_arguments(job, place, place, count, first))
            text += ' ' + shell_word(word);
        text += '\n';
    }
    return text;
}

}  // namespace ddprun::launcher
