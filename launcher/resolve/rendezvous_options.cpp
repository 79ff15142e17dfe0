// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/endpoint_list.hpp"
#include "launcher/grammar/node_range.hpp"
#include "launcher/grammar/number.hpp"
#include "launcher/resolve/lease_options.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/escaped.hpp"
#include "rendezvous/control/text.hpp"

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

void note_options_of_static(Resolving& job) {
    for (const auto* name : {"master-addr", "master-port"})
        if (const auto given = job.options.find(name))
            job.note(
                log::Level::warning,
                "option.ignored",
                given->origin + " is for --rdzv-backend=static only");
}

constexpr int highest_port = 65'535;
constexpr std::uint16_t no_port = 0;

/// 128 random bits in the form of a UUID, as torch makes them.
std::string as_uuid(const Nonce& nonce) {
    auto text = nonce.to_string();
    for (const std::size_t position : {20U, 16U, 12U, 8U})
        text.insert(position, 1, '-');
    return text;
}

bool is_alone(const JobSpec& spec) {
    return spec.nodes.value.max == 1 && spec.nodes.value.spares == 0;
}

std::optional<Given> given_endpoint(const Options& options) {
    auto given = options.find("rdzv-endpoint");
    if (given && trimmed(given->text).empty()) return std::nullopt;
    return given;
}

Result<Endpoint> read_endpoint(const Given& given, std::uint16_t default_port) {
    auto endpoint = parse_endpoint(given.text, default_port);
    if (!endpoint)
        return Failure{endpoint.error().code, given.origin + ": " + endpoint.error().context};
    return endpoint;
}

/// The job is this node alone, on a free port that cannot collide with another job's.
Result<> serve_alone(Resolving& job, const std::string& why) {
    job.spec.endpoint = {Endpoint{"localhost", no_port}, why};
    job.spec.is_host = {true, why};
    job.spec.is_static = {false, why};
    return {};
}

/// Nodes may join and leave.
Result<> use_endpoint(Resolving& job, const std::string& why) {
    auto& spec = job.spec;
    spec.is_static = {false, why};
    if (const auto given = given_endpoint(job.options)) {
        const auto endpoints = parse_endpoint_list(given->text, limits::default_rendezvous_port);
        if (!endpoints)
            return Failure{
                endpoints.error().code, given->origin + ": " + endpoints.error().context};
        const auto& first = endpoints->front();
        if (first.port == no_port && spec.nodes.value.max > 1)
            return usage(
                given->origin,
                given->text,
                "port 0 means any free one, which the other nodes could not know; give a port");
        spec.endpoint = {first, given->origin};
        spec.more_endpoints.assign(std::next(endpoints->begin()), endpoints->end());
    } else {
        spec.endpoint = {
            Endpoint{"localhost", limits::default_rendezvous_port},
            by_default + " (no --rdzv-endpoint)"};
        if (spec.nodes.value.max > 1)
            job.note(
                log::Level::warning,
                "rendezvous.endpoint_missing",
                "no --rdzv-endpoint: only nodes on this machine can join at " +
                    spec.endpoint.value.to_string());
    }
    spec.is_host = {
        job.conf.is_host, job.conf.is_host ? job.conf_origin + " is_host" : "found out"};
    if (job.conf.timeout)
        job.note(
            log::Level::warning,
            "option.ignored",
            job.conf_origin + ": timeout has no effect here; join_timeout has");
    note_options_of_static(job);
    return {};
}

constexpr std::uint16_t etcd_port = 2'379;
constexpr std::string_view default_etcd_prefix = "/ddprun";

/// Warns about options that only apply to other kinds of rendezvous.
void note_without_effect(Resolving& job) {
    if (job.conf.is_host)
        job.note(
            log::Level::warning,
            "option.ignored",
            job.conf_origin + " is_host: with an election the nodes choose the one that serves");
    note_options_of_static(job);
}

void note_open_password(Resolving& job) {
    const auto& access = job.spec.etcd_access;
    if (!access.user.empty() && !access.is_encrypted)
        job.note(
            log::Level::warning,
            "security.etcd_open",
            job.conf_origin +
                " etcd_user: the password is sent to etcd in clear text; with "
                "protocol=https it is not");
}

/// The members of etcd, and whether https is used; each member may begin with the protocol, as in
/// etcd's own programs.
struct EtcdMembers {
    std::vector<Endpoint> members;
    bool is_encrypted = false;
};

/// Removes `http://` or `https://` from the member.
std::optional<std::string_view> take_protocol(std::string_view& member) {
    for (const std::string_view protocol : {"http", "https"}) {
        const auto prefix = std::string{protocol} + "://";
        if (!member.starts_with(prefix)) continue;
        member.remove_prefix(prefix.size());
        if (member.ends_with('/')) member.remove_suffix(1);
        return protocol;
    }
    return std::nullopt;
}

Result<EtcdMembers> read_etcd_members(const Resolving& job, const Given& given) {
    EtcdMembers read;
    auto protocol = job.conf.protocol;
    if (protocol && *protocol != "http" && *protocol != "https")
        return usage(job.conf_origin + " protocol", *protocol, "accepted are http and https");
    for (const auto part : split(given.text, ',')) {
        auto member = trimmed(part);
        const auto own = take_protocol(member);
        if (own && protocol.value_or(std::string{*own}) != *own)
            return usage(
                given.origin, given.text, "all members and --rdzv-conf have the same protocol");
        if (own) protocol = *own;
        if (member.empty())
            return usage(given.origin, given.text, "there is nothing between two commas");
        const auto endpoint = read_endpoint({std::string{member}, given.origin}, etcd_port);
        if (!endpoint) return endpoint.error();
        if (endpoint->port == no_port)
            return usage(given.origin, std::string{member}, "etcd has no port 0");
        read.members.push_back(*endpoint);
    }
    if (read.members.size() > limits::max_etcd_members)
        return usage(
            given.origin,
            given.text,
            "at most " + std::to_string(limits::max_etcd_members) + " members of etcd");
    read.is_encrypted = protocol == "https";
    return read;
}

struct ConfKey {
    const char* name;
    std::optional<std::string> RdzvConf::*value;
    const char* backend;
};
constexpr std::array<ConfKey, 6> keys_of_one_backend{{
    {"cacert", &RdzvConf::cacert, "etcd"},
    {"cert", &RdzvConf::cert, "etcd"},
    {"key", &RdzvConf::key, "etcd"},
    {"etcd_user", &RdzvConf::etcd_user, "etcd"},
    {"etcd_password_file", &RdzvConf::etcd_password_file, "etcd"},
    {"service_account", &RdzvConf::service_account, "k8s"},
}};

/// A job without etcd must not look encrypted. `backend`: the one in use; empty: another one.
void note_keys_of_others(Resolving& job, std::string_view backend) {
    for (const auto& key : keys_of_one_backend)
        if (job.conf.*key.value && backend != key.backend)
            job.note(
                log::Level::warning,
                "option.ignored",
                job.conf_origin + ": " + key.name +
                    " has an effect only with --rdzv-backend=" + key.backend);
}

/// No node is special: the one leads that the engine's record names.
template <class Engine>
void use_election(Resolving& job, const Given& backend, From<Endpoint> endpoint, Engine engine) {
    auto& spec = job.spec;
    agent::ElectionPlan plan{std::move(engine)};
    if (const auto conf = job.options.find("rdzv-conf")) plan.conf = conf->text;
    spec.is_static = {false, backend.origin};
    spec.endpoint = std::move(endpoint);
    spec.is_host = {std::nullopt, backend.origin};
    spec.election = {std::move(plan), backend.origin};
    note_without_effect(job);
}

/// With etcd, the leader is the node whose server holds the job's key.
Result<> use_etcd(Resolving& job, const Given& backend) {
    auto& spec = job.spec;
    const auto given = given_endpoint(job.options);
    if (!given)
        return usage(
            backend.origin,
            backend.text,
            "give the members of etcd: --rdzv-endpoint=HOST[:2379][,HOST...]");
    if (!job.options.find("rdzv-id"))
        return usage(
            backend.origin,
            backend.text,
            "give the job a name, --rdzv-id=NAME: etcd has the keys of all jobs");
    auto read = read_etcd_members(job, *given);
    if (!read) return read.error();
    auto access =
        choose_etcd_access(job.conf, job.conf_origin, job.system.environment, read->is_encrypted);
    if (!access) return access.error();
    spec.etcd_access = std::move(*access);
    note_open_password(job);
    const auto first = read->members.front();
    use_election(
        job,
        backend,
        {first, given->origin},
        agent::EtcdPlan{
            std::move(read->members),
            job.conf.etcd_prefix.value_or(std::string{default_etcd_prefix})});
    return {};
}

/// The node leads that holds the job's Lease in Kubernetes.
Result<> use_lease(Resolving& job, const Given& backend) {
    auto& spec = job.spec;
    const auto given = given_endpoint(job.options);
    auto place = choose_lease(backend, given, job.system.environment);
    if (!place) return place.error();
    spec.service_account = job.conf.service_account.value_or(default_service_account);
    // A Lease is for one job, so its name is enough.
    spec.run_id = {place->name, given->origin};
    const auto server = place->server;
    use_election(job, backend, {server, "KUBERNETES_SERVICE_HOST"}, std::move(*place));
    return {};
}

/// Jobs may share a node, so the port depends on the step and is within --port-range.
std::uint16_t slurm_port(const Resolving& job) {
    const auto& ports = job.spec.ports.value;
    if (!job.options.find("port-range")) return job.slurm->port(first_slurm_port, slurm_port_count);
    return job.slurm->port(ports.first, ports.last - ports.first + 1);
}

/// Whether the scheduler's number of a node is its place. It is not when there are spares, which
/// take any place, or when switches are known, by which the server orders nodes.
bool takes_own_place(const JobSpec& spec) {
    if (spec.is_static.value) return true;
    return spec.nodes.value.spares == 0 && spec.node.topology.empty();
}

/// All facts come from the step that srun started: one agent per node, the first of which serves.
Result<> use_slurm_step(Resolving& job, bool is_static) {
    auto& spec = job.spec;
    const auto& step = *job.slurm;
    const auto& nodes = spec.nodes.value;
    if (nodes.max + nodes.spares != step.nodes)
        return usage(
            spec.nodes.origin,
            describe(nodes),
            "this Slurm step starts ddprun on " + std::to_string(step.nodes) +
                " nodes; leave the option out, or give srun as many nodes");
    spec.endpoint = {Endpoint{step.first_host, slurm_port(job)}, "first of SLURM_STEP_NODELIST"};
    spec.is_host = {step.node == 0, "SLURM_NODEID"};
    spec.is_static = {is_static, is_static ? "--rdzv-backend" : "Slurm step"};
    if (!spec.node_rank.value && takes_own_place(spec))
        spec.node_rank = {step.node, "SLURM_NODEID"};
    spec.run_id = {step.name(), "SLURM_JOB_ID, SLURM_STEP_ID"};
    spec.incarnation = step.restarts;
    job.note(
        log::Level::info,
        "slurm.step",
        "node " + std::to_string(step.node) + " of the " + std::to_string(step.nodes) +
            " of this Slurm step, whose first serves at " + spec.endpoint.value.to_string());
    return {};
}

/// The pod of index 0 serves, under the name that the job's headless service gives it.
Result<> use_indexed_job(Resolving& job, bool is_static) {
    auto& spec = job.spec;
    const auto& pod = *job.pod;
    const auto& nodes = spec.nodes.value;
    const std::string origin = "JOB_COMPLETION_INDEX";
    const auto index = std::to_string(pod.index);
    if (pod.index >= nodes.max + nodes.spares)
        return usage(
            origin,
            index,
            "accepted are 0 to " + std::to_string(nodes.max + nodes.spares - 1) +
                " with --nnodes=" + describe(nodes) +
                ", which is the number of the job's completions");
    if (pod.first_host.empty())
        return usage(
            origin,
            index,
            "the name of the job's first pod is not known here: set subdomain in the pod template "
            "to the name of a headless service, or give --rdzv-endpoint=HOST:PORT, the same in "
            "every pod");
    spec.endpoint = {
        Endpoint{pod.first_host, limits::default_rendezvous_port}, "first pod of the Indexed Job"};
    spec.is_host = {pod.index == 0, origin};
    spec.is_static = {is_static, is_static ? "--rdzv-backend" : "Indexed Job"};
    if (!spec.node_rank.value && takes_own_place(spec)) spec.node_rank = {pod.index, origin};
    spec.run_id = {pod.job, "name of the Indexed Job"};
    job.note(
        log::Level::info,
        "kubernetes.pod",
        "pod " + index + " of Indexed Job " + pod.job + ", whose first serves at " +
            spec.endpoint.value.to_string());
    return {};
}

/// The endpoint in the form in which torchrun sets MASTER_ADDR and MASTER_PORT.
Result<From<Endpoint>> master_endpoint(const Resolving& job) {
    if (const auto given = given_endpoint(job.options)) {
        if (given->text.find(',') != std::string::npos)
            return usage(
                given->origin,
                given->text,
                "with static rendezvous (--node-rank) there is one endpoint, where node 0 serves; "
                "a list is for nodes without --node-rank");
        const auto endpoint = read_endpoint(*given, no_port);
        if (!endpoint) return endpoint.error();
        if (endpoint->port == no_port)
            return usage(
                given->origin,
                given->text,
                "static rendezvous needs HOST:PORT, or --master-addr and --master-port");
        return From<Endpoint>{*endpoint, given->origin};
    }
    const auto addr = given_or(job.options, "master-addr", "127.0.0.1");
    const auto host = trimmed(addr.text);
    // A host without a port; parse_endpoint also reads "::1" and "[::1]" as such.
    auto endpoint = read_endpoint({std::string{host}, addr.origin}, no_port);
    if (!endpoint) return endpoint.error();
    if (endpoint->port != no_port)
        return usage(addr.origin, addr.text, "the port has an option of its own, --master-port");
    const auto port =
        given_or(job.options, "master-port", std::to_string(limits::default_master_port));
    const auto number = number_between(port, 1, highest_port);
    if (!number) return number.error();
    endpoint->port = static_cast<std::uint16_t>(*number);
    const bool is_same = addr.origin == port.origin;
    return From<Endpoint>{*endpoint, is_same ? addr.origin : addr.origin + ", " + port.origin};
}

/// Fixed places at a fixed address: node 0 serves, and MASTER_ADDR and MASTER_PORT are used as
/// given.
Result<> use_master(Resolving& job, const std::string& why) {
    auto& spec = job.spec;
    const auto endpoint = master_endpoint(job);
    if (!endpoint) return endpoint.error();
    spec.endpoint = *endpoint;
    spec.is_static = {true, why};
    if (const auto unit = job.options.find("node-unit"); unit && spec.nodes.value.spares > 0)
        return usage(
            unit->origin,
            unit->text,
            "with static rendezvous all nodes must come, and " + describe(spec.nodes.value) + " (" +
                spec.nodes.origin +
                ") leaves some out; give a number of nodes that is a "
                "multiple of it, or --rdzv-backend=c10d");
    if (spec.nodes.value.spares > 0)
        return usage(
            spec.nodes.origin,
            describe(spec.nodes.value),
            "with static rendezvous every node has its place and there are no spares; use "
            "--rdzv-backend=c10d");
    if (spec.nodes.value.min != spec.nodes.value.max) {
        const auto most = spec.nodes.value.max;
        job.note(
            log::Level::warning,
            "nodes.fixed",
            spec.nodes.origin + "=" + describe(spec.nodes.value) + ": with static rendezvous all " +
                std::to_string(most) + " nodes must come; use --rdzv-backend=c10d for a range");
        spec.nodes = {control::NodeRange{most, most, 0, spec.nodes.value.unit}, spec.nodes.origin};
    }
    if (!spec.node_rank.value && job.slurm && job.slurm->nodes == spec.nodes.value.max)
        spec.node_rank = {job.slurm->node, "SLURM_NODEID"};
    if (!spec.node_rank.value && job.pod && job.pod->index < spec.nodes.value.max)
        spec.node_rank = {job.pod->index, "JOB_COMPLETION_INDEX"};
    const bool is_placed = spec.node_rank.value.has_value();
    if (!is_placed) spec.node_rank = {0, by_default};
    if (spec.nodes.value.max > 1 && (!is_placed || is_loopback(spec.endpoint.value.host)))
        job.note(
            log::Level::warning,
            "rendezvous.node_zero",
            is_placed ? "all nodes must be on this machine: node 0 serves at " +
                            spec.endpoint.value.to_string()
                      : "no --node-rank: this is node 0 and serves at " +
                            spec.endpoint.value.to_string());
    if (const auto given = job.options.find("topology"))
        job.note(
            log::Level::warning,
            "option.ignored",
            given->origin + ": with static rendezvous the place of a node is its --node-rank");
    const bool is_first = *spec.node_rank.value == 0;
    spec.is_host = {is_first, "node rank " + std::to_string(*spec.node_rank.value)};
    if (job.conf.is_host && *job.conf.is_host != is_first)
        return usage(
            job.conf_origin + " is_host",
            *job.conf.is_host ? "true" : "false",
            "with static rendezvous node rank 0 serves, and no other");
    // torch calls the time limit `timeout` for this kind of rendezvous, and `join_timeout` for the
    // other kind.
    if (job.conf.timeout && !job.conf.join_timeout) job.conf.join_timeout = job.conf.timeout;
    return {};
}

Result<> read_node_rank(Resolving& job) {
    auto& spec = job.spec;
    spec.node_rank = {std::nullopt, "not given"};
    if (job.conf.rank) spec.node_rank = {job.conf.rank, job.conf_origin + " rank"};
    const auto given = job.options.find("node-rank");
    if (!given) return {};
    const auto rank = parse_int(given->text);
    if (!rank || *rank < 0)
        return usage(given->origin, given->text, "accepted is a whole number from 0 up");
    const auto& nodes = spec.nodes.value;
    const int most = nodes.max + nodes.spares - 1;
    if (*rank > most)
        return usage(
            given->origin,
            given->text,
            "accepted are 0 to " + std::to_string(most) + " with --nnodes=" + describe(nodes));
    spec.node_rank = {*rank, given->origin};
    return {};
}

/// The option that implies fixed places if no back end was named; empty: none does.
std::string reason_for_static(const Resolving& job) {
    for (const auto* name : {"node-rank", "master-addr", "master-port"})
        if (const auto given = job.options.find(name)) return given->origin;
    if (job.conf.rank) return job.conf_origin + " rank";
    // With several nodes, under torchrun each would be node 0 here and wait for ever. A single node
    // only requests that port.
    const auto given = given_endpoint(job.options);
    if (!given || !is_alone(job.spec)) return {};
    const auto endpoint = parse_endpoint(given->text, no_port);
    return endpoint && endpoint->port != no_port ? given->origin : std::string{};
}

Result<> choose_rendezvous(Resolving& job) {
    auto& spec = job.spec;
    const auto standalone = job.options.find("standalone");
    const auto backend = job.options.find("rdzv-backend");
    const bool is_etcd = backend && (backend->text == "etcd" || backend->text == "etcd-v2");
    const bool is_lease = backend && (backend->text == "k8s" || backend->text == "kubernetes");
    const bool is_elected = is_etcd || is_lease;
    if (backend && !is_elected && backend->text != "static" && backend->text != "c10d")
        return usage(backend->origin, backend->text, "accepted are c10d, static, etcd and k8s");

    if (standalone && standalone->text == "1") {
        if (spec.nodes.value.min > 1)
            return usage(
                standalone->origin,
                spec.nodes.origin + "=" + describe(spec.nodes.value),
                "a standalone job has one node; leave one of the two out");
        spec.nodes = {control::NodeRange{}, standalone->origin};
        spec.node_rank = {std::nullopt, standalone->origin};
        return serve_alone(job, standalone->origin);
    }
    note_keys_of_others(job, is_etcd ? "etcd" : is_lease ? "k8s" : "");
    if (is_etcd) return use_etcd(job, *backend);
    if (is_lease) return use_lease(job, *backend);
    const bool has_any_address = given_endpoint(job.options) || job.options.find("master-addr") ||
                                 job.options.find("master-port");
    if (job.slurm && !is_alone(spec) && !has_any_address)
        return use_slurm_step(job, backend && backend->text == "static");
    if (job.pod && !is_alone(spec) && !has_any_address)
        return use_indexed_job(job, backend && backend->text == "static");
    if (backend && backend->text == "c10d") return use_endpoint(job, backend->origin);
    const bool has_address = given_endpoint(job.options) || job.options.find("master-port");
    if (is_alone(spec) && !has_address) return serve_alone(job, "one node and no endpoint given");
    if (backend) return use_master(job, backend->origin);
    if (const auto why = reason_for_static(job); !why.empty()) return use_master(job, why);
    if (has_address) return use_endpoint(job, "no fixed places requested");
    return usage(
        spec.nodes.origin,
        describe(spec.nodes.value),
        "more than one node needs --rdzv-endpoint=HOST:PORT, the same on every node, where HOST is "
        "one of them");
}

Result<> name_job(Resolving& job) {
    auto& spec = job.spec;
    const bool is_own = spec.endpoint.value.port == no_port;
    const auto id = job.options.find("rdzv-id");
    if (id && !id->text.empty() && !job.options.has_flag("standalone")) {
        // A truncated or changed id might belong to another job.
        if (!control::is_escaped_whole(id->text, limits::max_name_bytes))
            return Failure{
                system_code(EINVAL),
                id->origin + ": accepted is UTF-8 text of at most " +
                    std::to_string(limits::max_name_bytes) +
                    " bytes (quotes, backslashes and control characters count more than one)"};
        spec.run_id = {id->text, id->origin};
    } else if (!spec.run_id.value.empty()) {
        return {};  // the scheduler's name of the job
    } else if (is_own || id) {
        spec.run_id = {as_uuid(job.system.fresh_id), "random"};
    } else {
        spec.run_id = {"none", by_default};
    }
    return {};
}

/// Without a request, two agents of one step must not get two places on one node, nor a job each.
Result<> check_tasks_per_node(const Resolving& job) {
    const auto& step = *job.slurm;
    if (step.tasks <= step.nodes) return {};
    const auto& nodes = job.spec.nodes.value;
    const bool has_place_for_each =
        given_endpoint(job.options) && nodes.max + nodes.spares >= step.tasks;
    const bool is_one_job_each = job.options.find("nnodes") && is_alone(job.spec);
    if (has_place_for_each || is_one_job_each) return {};
    return usage(
        "SLURM_STEP_NUM_TASKS",
        std::to_string(step.tasks),
        "srun started ddprun " + std::to_string(step.tasks) + " times on " +
            std::to_string(step.nodes) + (step.nodes == 1 ? " node" : " nodes") +
            ", and ddprun starts the workers itself: use srun --ntasks-per-node=1 and ddprun "
            "--nproc-per-node=" +
            std::to_string((step.tasks + step.nodes - 1) / step.nodes) +
            ", or --standalone for a job of each ddprun alone");
}

}  // namespace

Result<> resolve_nodes(Resolving& job) {
    if (!job.options.has_flag("standalone")) {
        auto step = read_slurm_step(job.system.environment);
        if (!step) return step.error();
        job.slurm = *step;
        job.pod =
            read_indexed_pod(job.system.environment, job.system.host_name, job.system.read_hosts);
    }
    const auto given = job.options.find("nnodes");
    job.spec.nodes = {control::NodeRange{}, by_default};
    if (given) {
        const auto range = parse_node_range(given->text);
        if (!range)
            return Failure{range.error().code, given->origin + ": " + range.error().context};
        job.spec.nodes = {*range, given->origin};
    } else if (job.slurm && job.slurm->tasks == job.slurm->nodes) {
        const int nodes = job.slurm->nodes;
        job.spec.nodes = {control::NodeRange{nodes, nodes, 0}, "SLURM_STEP_NUM_NODES"};
    }
    if (auto used = use_node_unit(job); !used) return used;
    return job.slurm ? check_tasks_per_node(job) : Result<>{};
}

Result<> resolve_rendezvous(Resolving& job) {
    if (auto read = read_node_rank(job); !read) return read.error();
    if (auto chosen = choose_rendezvous(job); !chosen) return chosen.error();
    return name_job(job);
}

}  // namespace ddprun::launcher
