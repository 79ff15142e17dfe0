// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/next_step.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <optional>

namespace ddprun::agent {
namespace next_step {
namespace {

/// torch's default for --rdzv-id.
constexpr std::string_view default_run_id = "none";

/// " --secure"; empty: the job has no secret, or its secret is from the environment and never
/// shown.
std::string secret_option(const std::optional<tls::SecretSource>& secret) {
    if (!secret || secret->path.empty()) return {};
    // The default file is in the user's home on each node, so no path is needed.
    if (secret->is_no_link) return " --secure";
    return " --rdzv-secret-file=" + shell_word(secret->path);
}

std::string engine_options(const EtcdPlan& etcd, bool is_encrypted) {
    const std::string protocol = is_encrypted ? "https://" : "";
    std::string members;
    for (const auto& member : etcd.members)
        members += (members.empty() ? "" : ",") + protocol + member.to_string();
    return " --rdzv-backend=etcd --rdzv-endpoint=" + members;
}

std::string engine_options(const witness::kubernetes::LeasePlace& place, bool) {
    return " --rdzv-backend=k8s --rdzv-endpoint=" + describe(place);
}

std::string election_options(const ElectionPlan& election, const std::string& typed) {
    const bool is_encrypted = election.access.credentials.has_value();
    auto text = std::visit(
        Overloaded{
            [&](const VotersPlan& plan) {
                const auto witness =
                    plan.witness ? " --rdzv-witness=" + plan.witness->to_string() : std::string{};
                return " --rdzv-endpoint=" + typed + " --rdzv-standby=auto" + witness;
            },
            [&](const auto& engine) { return engine_options(engine, is_encrypted); }},
        election.engine);
    if (!election.conf.empty()) text += " --rdzv-conf=" + shell_word(election.conf);
    return text;
}

/// What to check when the engine or the leader is not reached.
std::string election_advice(const ElectionPlan& election, const Endpoint& endpoint) {
    const std::string end = ", and that this node reaches it and the node that leads";
    const auto* place = std::get_if<witness::kubernetes::LeasePlace>(&election.engine);
    if (place == nullptr) return "check that etcd runs at " + endpoint.to_string() + end;
    return "check that Kubernetes' API answers at " + endpoint.to_string() +
           " and that the pod's service account may get, create and update the Lease " +
           describe(*place) + end;
}

/// The command that starts a node of this job, without the script and without options that may
/// differ between nodes.
std::string command(const AgentConfig& config) {
    const auto& [endpoint, is_host, is_static, election] = config.rendezvous;
    const auto& run_id = config.join.run_id;
    const auto typed = config.rendezvous.typed_endpoint();
    auto text = "ddprun --nnodes=" + control::describe(config.join.nodes);
    if (is_static)
        text += " --node-rank=RANK --master-addr=" + endpoint.host +
                " --master-port=" + std::to_string(endpoint.port);
    else
        text += election ? election_options(*election, typed) : " --rdzv-endpoint=" + typed;
    if (run_id != default_run_id) text += " --rdzv-id=" + shell_word(run_id);
    return text + secret_option(config.secret) + " ...";
}

/// Empty: the error is not about the secret.
std::string about_secret(control::ConnectError error) {
    using control::ConnectError;
    switch (error) {
        case ConnectError::wrong_secret: return "give every node the same secret (docs/secrets.md)";
        case ConnectError::not_encrypted:
            return "give the node that serves the rendezvous the same secret as this one";
        case ConnectError::needs_secret:
            return "start this node with the job's secret too: --secure or --rdzv-secret-file";
        case ConnectError::unresolved:
        case ConnectError::refused:
        case ConnectError::no_answer:
        case ConnectError::wrong_protocol:
        case ConnectError::wrong_version:
        case ConnectError::lost: return {};
    }
    contradiction("an error of no kind", __FILE__, __LINE__);
}

}  // namespace
}  // namespace next_step

std::string next_step_for_missing(const AgentConfig& config) {
    const auto& host = config.rendezvous.endpoint.host;
    if (config.join.incarnation)
        return "srun starts ddprun on each node of the step: check that it did, and that each "
               "reaches " +
               config.rendezvous.endpoint.to_string();
    auto text = "on each missing node: " + next_step::command(config);
    if (host == "localhost" || is_loopback(host))
        text += " (the endpoint " + host +
                " is reachable from this machine only; other hosts each wait at their own)";
    return text;
}

std::string next_step_after(control::ConnectError error, const AgentConfig& config) {
    using control::ConnectError;
    const auto& endpoint = config.rendezvous.endpoint;
    const auto& host = endpoint.host;
    if (auto step = next_step::about_secret(error); !step.empty()) return step;
    if (config.rendezvous.has_outside_engine())
        return next_step::election_advice(*config.rendezvous.election, endpoint);
    switch (error) {
        case ConnectError::unresolved: return "check the name " + host + " in the endpoint";
        case ConnectError::refused:
            return "start the job's ddprun on " + host + " too: that node serves the rendezvous";
        case ConnectError::no_answer:
            return "check that " + host + " is the right host, that the job's ddprun runs there, " +
                   "and that no firewall blocks its TCP port " + std::to_string(endpoint.port);
        case ConnectError::wrong_protocol:
            return "stop the other server on " + host + ", or choose another port on all nodes";
        case ConnectError::wrong_secret:
        case ConnectError::not_encrypted:
        case ConnectError::needs_secret:
        case ConnectError::wrong_version:
        case ConnectError::lost: return {};
    }
    contradiction("an error of no kind", __FILE__, __LINE__);
}

std::string next_step_after_loss(bool was_hosted, const AgentConfig& config) {
    const auto& endpoint = config.rendezvous.endpoint;
    const bool is_one_machine = endpoint.host == "localhost" || is_loopback(endpoint.host);
    if (!was_hosted || config.rendezvous.is_static || is_one_machine || config.join.incarnation)
        return {};
    if (const auto* voters = config.rendezvous.voters())
        return std::string{"start the job again; another node can serve once nodes of "} +
               (voters->witness ? "two hosts are in a round and the witness is reached"
                                : "three hosts are in a round") +
               " (docs/which-rendezvous.md)";
    if (config.join.nodes.max == 2)
        return "start the job again; it survives the loss of " + endpoint.host +
               " with --rdzv-witness=HOST on both nodes, where HOST is a third machine that runs "
               "ddprun-rendezvous, and with etcd (docs/which-rendezvous.md)";
    return "start the job again; it survives the loss of " + endpoint.host +
           " with --rdzv-standby=auto, the default, if it has at least 3 nodes and MIN of --nnodes "
           "is more than half of MAX, and with etcd (docs/which-rendezvous.md)";
}

}  // namespace ddprun::agent
