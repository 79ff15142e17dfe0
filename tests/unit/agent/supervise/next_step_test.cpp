// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/next_step.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::agent;
using control::ConnectError;

namespace {

AgentConfig config_at(const std::string& host) {
    AgentConfig config;
    config.join.run_id = "none";
    config.join.nodes = {4, 4, 0};
    config.rendezvous.endpoint = {host, 29'400};
    return config;
}

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a missing node is started with what all nodes of the job must have") {
    auto config = config_at("node1");
    CHECK(
        next_step_for_missing(config) ==
        "on each missing node: ddprun --nnodes=4 --rdzv-endpoint=node1:29400 ...");

    config.join.run_id = "it's mine";
    CHECK(contains(next_step_for_missing(config), " --rdzv-id='it'\\''s mine' ..."));

    config.join.run_id = "job[1]";
    CHECK(contains(next_step_for_missing(config), " --rdzv-id='job[1]' ..."));

    config = config_at("fe80::1");
    CHECK(contains(next_step_for_missing(config), " --rdzv-endpoint=[fe80::1]:29400 ..."));

    config = config_at("node1");
    config.rendezvous.is_static = true;
    CHECK(
        next_step_for_missing(config) ==
        "on each missing node: ddprun --nnodes=4 --node-rank=RANK --master-addr=node1 "
        "--master-port=29400 ...");
}

TEST_CASE("a missing node is started with the job's secret") {
    auto config = config_at("node1");
    config.secret = tls::SecretSource{"PET_RDZV_SECRET_FILE", "/etc/my secret", {}};
    CHECK(
        contains(next_step_for_missing(config), ":29400 --rdzv-secret-file='/etc/my secret' ..."));

    config.secret = tls::SecretSource{"--secure", "/home/me/.config/ddprun/secret", {}, {}, true};
    CHECK(contains(next_step_for_missing(config), ":29400 --secure ..."));

    config.secret = tls::SecretSource{"DDPRUN_SECRET", "", {tls::Secret{"hidden"}}};
    CHECK(contains(next_step_for_missing(config), ":29400 ..."));
}

TEST_CASE("a missing node of a job with etcd is started with all members and the same settings") {
    auto config = config_at("e1");
    config.rendezvous.election = ElectionPlan{EtcdPlan{{{"e1", 2'379}, {"e2", 99}}, "/ddprun"}};
    config.join.run_id = "j";
    CHECK(
        next_step_for_missing(config) ==
        "on each missing node: ddprun --nnodes=4 --rdzv-backend=etcd --rdzv-endpoint=e1:2379,e2:99 "
        "--rdzv-id=j ...");

    config.rendezvous.election->conf = "protocol=https,cacert=/my ca.pem";
    CHECK(contains(
        next_step_for_missing(config),
        " --rdzv-conf='protocol=https,cacert=/my ca.pem' --rdzv-id=j"));
}

TEST_CASE("a missing node of a job with a Lease is started with it, and what to check is named") {
    auto config = config_at("10.96.0.1");
    config.rendezvous.election =
        ElectionPlan{witness::kubernetes::LeasePlace{{"10.96.0.1", 443}, "ml", "bert"}};
    config.join.run_id = "bert";
    CHECK(
        next_step_for_missing(config) ==
        "on each missing node: ddprun --nnodes=4 --rdzv-backend=k8s --rdzv-endpoint=ml/bert "
        "--rdzv-id=bert ...");
    CHECK(contains(
        next_step_after(ConnectError::refused, config),
        "may get, create and update the Lease ml/bert"));
}

TEST_CASE("a missing node of a job whose nodes vote is started as the others, and will vote too") {
    auto config = config_at("n1");
    const auto without = next_step_after(ConnectError::refused, config);
    config.rendezvous.election = ElectionPlan{VotersPlan{}};
    CHECK(
        next_step_for_missing(config) ==
        "on each missing node: ddprun --nnodes=4 --rdzv-endpoint=n1:29400 --rdzv-standby=auto ...");

    config.rendezvous.election->engine = VotersPlan{{{"n2", 29'400}, {"n3", 7}}};
    CHECK(contains(
        next_step_for_missing(config), " --rdzv-endpoint=n1:29400,n2:29400,n3:7 --rdzv-standby"));
    CHECK(next_step_after(ConnectError::refused, config) == without);
}

TEST_CASE("when the server is lost the next step is what would have saved the job") {
    auto config = config_at("node1");
    config.join.nodes = {2, 2, 0};
    CHECK(
        next_step_after_loss(true, config) ==
        "start the job again; it survives the loss of node1 with --rdzv-witness=HOST on both "
        "nodes, where HOST is a third machine that runs ddprun-rendezvous, and with etcd "
        "(docs/which-rendezvous.md)");
    config.join.nodes = {2, 4, 0};
    CHECK(
        next_step_after_loss(true, config) ==
        "start the job again; it survives the loss of node1 with --rdzv-standby=auto, the default, "
        "if it has at least 3 nodes and MIN of --nnodes is more than half of MAX, and with etcd "
        "(docs/which-rendezvous.md)");
    auto voted = config;
    voted.rendezvous.election = ElectionPlan{VotersPlan{}};
    CHECK(
        next_step_after_loss(true, voted) ==
        "start the job again; another node can serve once nodes of three hosts are in a round "
        "(docs/which-rendezvous.md)");
    voted.rendezvous.election->engine = VotersPlan{{}, Endpoint{"w", 7}};
    CHECK(
        next_step_after_loss(true, voted) ==
        "start the job again; another node can serve once nodes of two hosts are in a round and "
        "the witness is reached (docs/which-rendezvous.md)");
    CHECK(contains(next_step_for_missing(voted), " --rdzv-standby=auto --rdzv-witness=w:7 ..."));
    bool was_hosted = true;
    SUBCASE("another server would not have saved it") {
        SUBCASE("a daemon or an elected server is lost") {
            was_hosted = false;
        }
        SUBCASE("all nodes are on one machine") {
            config.rendezvous.endpoint.host = "localhost";
        }
        SUBCASE("places are fixed") {
            config.rendezvous.is_static = true;
        }
        SUBCASE("Slurm ends the step") {
            config.join.incarnation = "0";
        }
        CHECK(next_step_after_loss(was_hosted, config).empty());
    }
}

TEST_CASE("two ends with different secrets are an error of the secret, with etcd too") {
    auto config = config_at("node1");
    for (const bool has_etcd : {false, true}) {
        if (has_etcd) config.rendezvous.election.emplace();
        CHECK(contains(next_step_after(ConnectError::wrong_secret, config), "same secret"));
        CHECK(contains(next_step_after(ConnectError::not_encrypted, config), "same secret"));
        CHECK(contains(next_step_after(ConnectError::needs_secret, config), "--secure"));
    }
}

TEST_CASE("in a Slurm step srun starts the missing nodes") {
    auto config = config_at("n1");
    config.join.incarnation = "0";
    CHECK(
        next_step_for_missing(config) ==
        "srun starts ddprun on each node of the step: check that it did, and that each reaches "
        "n1:29400");
}

TEST_CASE("an endpoint that is this machine only is named as what keeps other hosts away") {
    for (const std::string host : {"localhost", "127.0.0.1", "::1"}) {
        CAPTURE(host);
        CHECK(contains(
            next_step_for_missing(config_at(host)),
            " (the endpoint " + host +
                " is reachable from this machine only; other hosts each wait at their own)"));
    }
}

TEST_CASE("a node that no server welcomed says what to look at") {
    const auto config = config_at("node1");
    CHECK(contains(next_step_after(ConnectError::unresolved, config), "the name node1"));
    CHECK(contains(next_step_after(ConnectError::refused, config), "ddprun on node1 too"));
    CHECK(contains(next_step_after(ConnectError::no_answer, config), "TCP port 29400"));
    CHECK(contains(next_step_after(ConnectError::wrong_protocol, config), "another port"));
}
