// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun::launcher {
namespace failover_options {
namespace {

bool is_of_one_machine(const Endpoint& endpoint) {
    return endpoint.host == "localhost" || is_loopback(endpoint.host);
}

/// Why the nodes of this job elect no other server; empty: they do.
std::string reason_for_none(const JobSpec& spec) {
    const auto& nodes = spec.nodes.value;
    const auto& more = spec.more_endpoints;
    if (spec.election.value) return "the nodes elect the server by an engine";
    if (spec.is_static.value) return "node 0 serves, with static rendezvous";
    if (is_of_one_machine(spec.endpoint.value) ||
        std::any_of(more.begin(), more.end(), is_of_one_machine))
        return "all nodes are on this machine";
    if (nodes.max < 2) return "a job of one node has no other server";
    const bool has_witness = spec.witness.value.has_value();
    if (nodes.max < 3 && !has_witness)
        return "fewer than 3 nodes have no majority without one of them, unless there is a "
               "--rdzv-witness";
    // Such a job would otherwise go on with fewer nodes than a majority, as long as its server
    // does. With several endpoints or a witness the server is not what it depends on.
    if (2 * nodes.min <= nodes.max && more.empty() && !has_witness)
        return "MIN of --nnodes is at most half of MAX";
    return {};
}

Result<> resolve_witness(Resolving& job) {
    auto& spec = job.spec;
    const auto given = given_or(job.options, "rdzv-witness", "");
    spec.witness = {std::nullopt, given.origin};
    if (given.text.empty()) return {};
    if (given.text.find("://") != std::string::npos)
        return usage(
            given.origin,
            given.text,
            "the witness is a ddprun-rendezvous, HOST[:PORT]; etcd and Kubernetes need none and "
            "elect the server themselves: --rdzv-backend=etcd or k8s");
    auto place = parse_endpoint(given.text, limits::default_rendezvous_port);
    if (!place) return Failure{place.error().code, given.origin + ": " + place.error().context};
    if (place->port == 0)
        return usage(given.origin, given.text, "accepted is HOST[:PORT], with a port above 0");
    if (is_of_one_machine(*place))
        return usage(
            given.origin,
            given.text,
            "the witness is a machine that no node runs on: give the address at which all nodes "
            "reach it");
    const auto nodes = spec.endpoints();
    if (std::find(nodes.begin(), nodes.end(), *place) != nodes.end())
        return usage(
            given.origin,
            given.text,
            "this is an endpoint too: a ddprun-rendezvous there leads the job, and nodes do not "
            "vote");
    spec.witness.value = std::move(*place);
    return {};
}

}  // namespace
}  // namespace failover_options

Result<> resolve_failover(Resolving& job) {
    using control::Failover;
    auto& spec = job.spec;
    if (auto resolved = failover_options::resolve_witness(job); !resolved) return resolved;
    const auto given = given_or(job.options, "rdzv-standby", "auto");
    spec.failover = {Failover::off, given.origin};
    if (given.text != "off" && given.text != "auto")
        return usage(given.origin, given.text, "accepted are auto and off");
    auto why =
        given.text == "off" ? given.origin + " is off" : failover_options::reason_for_none(spec);
    // The default does not change a lease that was asked for.
    if (why.empty() && given.origin == by_default &&
        spec.lease.value < limits::shortest_voted_lease)
        why = "the lease is shorter than " + describe_seconds(limits::shortest_voted_lease) + " s";
    if (!why.empty() && !spec.more_endpoints.empty())
        return usage(
            spec.endpoint.origin,
            agent::describe(spec.endpoints()),
            "several endpoints are for nodes that elect the server, and here they do not: " + why);
    if (!why.empty() && spec.witness.value)
        return usage(
            spec.witness.origin,
            spec.witness.value->to_string(),
            "a witness is for nodes that elect the server, and here they do not: " + why);
    if (!why.empty()) {
        if (given.text != "off") spec.failover.origin += ", but " + why;
        return {};
    }
    spec.failover.value = Failover::nodes;
    spec.election = {
        agent::ElectionPlan{agent::VotersPlan{spec.more_endpoints, spec.witness.value}},
        given.origin};
    return {};
}

}  // namespace ddprun::launcher
