// SPDX-License-Identifier: Apache-2.0
// The server of the node that holds the job's Lease leads. The API server here is a stand-in of
// about a hundred lines (api_server.py), not a cluster: it has the answers of the published API for
// one kind of object, with https and a token.
#include "tests/process/ddprun/authority.hpp"
#include "tests/process/ddprun/elected_nodes.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun::test;
using std::chrono::seconds;

namespace {

std::string why_no_openssl() {
    return ::access(openssl_program, X_OK) == 0 ? "" : "no openssl here (Debian's openssl)";
}

/// The API server and a pod's service account.
class ApiServer {
public:
    ApiServer() {
        authority_.sign("server", "IP:127.0.0.1");
        std::filesystem::create_directory(account());
        replace("account/ca.crt", read_file(authority_.path("ca.pem")));
        replace("account/namespace", "ml");
        accept("token-1");
        give("token-1");
        start();
    }

    void start() {
        process_ = std::make_unique<Running>(
            "/usr/bin/python3",
            Words{
                std::string{DDPRUN_SOURCE_DIR} + "/tests/process/ddprun/api_server.py",
                std::to_string(port_),
                authority_.path("server.pem"),
                authority_.path("server.key"),
                dir_.path().string()});
        process_->wait_for_line("ready");
    }
    void end() {
        process_->signal(SIGKILL);
        process_->wait_for_exit();
    }
    void stop() const { process_->signal(SIGSTOP); }
    void go_on() const { process_->signal(SIGCONT); }
    /// Waits until it has answered a request in this way: "PUT 409".
    void wait_for(const std::string& answer) { process_->wait_for_line("^(" + answer + ")$"); }

    /// The token that it accepts from now on, and the one in the service account's folder.
    void accept(const std::string& token) { replace("token", token); }
    void give(const std::string& token) { replace("account/token", token); }
    /// api_server.py names the modes.
    void set_mode(const std::string& mode) { replace("mode", mode); }

    nlohmann::json lease() const {
        return nlohmann::json::parse(read_file((dir_.path() / "state.json").string()))
            .at("leases")
            .at("bert");
    }
    std::string holder() const { return lease().at("spec").at("holderIdentity"); }
    /// How it has answered requests since it was started last, a line for each. Requires: it has
    /// ended.
    std::string answers() const {
        const std::string first = "ready\n";
        REQUIRE(process_->out().starts_with(first));
        return process_->out().substr(first.size());
    }
    void put_lease(const nlohmann::json& lease) {
        replace(
            "state.json",
            nlohmann::json{{"revision", 100}, {"writes", 0}, {"leases", {{"bert", lease}}}}.dump());
    }

    Running start_node(const TempDir& dir, const Words& more, const std::string& script) const {
        static int number = 0;
        Running::Options options;
        options.arguments =
            Words{
                "--rdzv-backend=k8s",
                "--rdzv-endpoint=bert",
                "--log-level=debug",
                "--rdzv-conf=last_call_timeout=60,service_account=" + account()} +
            more +
            Words{
                "--no-python",
                dir.write_script("pod" + std::to_string(number++), "#!/bin/sh\n" + script + "\n")};
        options.environment = {
            {"KUBERNETES_SERVICE_HOST", "127.0.0.1"},
            {"KUBERNETES_SERVICE_PORT", std::to_string(port_)}};
        return Running{program("ddprun"), options};
    }
    std::string account() const { return (dir_.path() / "account").string(); }
    std::string place() const { return "127.0.0.1:" + std::to_string(port_); }

private:
    /// No reader sees half of it.
    void replace(const std::string& file, const std::string& text) {
        const auto path = dir_.path() / file;
        std::filesystem::rename(dir_.write("new", text), path);
    }

    TempDir dir_;
    Authority authority_{dir_};
    int port_ = free_port();
    std::unique_ptr<Running> process_;
};

void check_all_succeed(const TempDir& dir, std::vector<Running>& nodes) {
    dir.write("go", "");
    for (auto& node : nodes) {
        node.wait_for_line("done in 0");
        CHECK(node.wait_for_code() == 0);
        CHECK_FALSE(contains(node.err(), "round.stopped"));
    }
}

/// The Lease of a job that is not over.
nlohmann::json led_by_gpt(const std::string& holder) {
    return {
        {"kind", "Lease"},
        {"apiVersion", "coordination.k8s.io/v1"},
        {"metadata",
         {{"name", "bert"},
          {"namespace", "ml"},
          {"resourceVersion", "9"},
          {"annotations",
           {{"ddprun/run-id", "gpt"},
            {"ddprun/endpoint", "10.0.0.2:20001"},
            {"ddprun/epoch", "7"}}}}},
        {"spec", {{"holderIdentity", holder}, {"leaseDurationSeconds", 60}}}};
}

/// Checks that a node ends like one that has not reached the leader, and prints why.
void check_unreached(const TempDir& dir, const ApiServer& server, const std::string& reason) {
    auto node = server.start_node(
        dir,
        {"--nnodes=2",
         // Not wrapped to the width of a screen.
         "--report-format=json",
         "--rdzv-conf=join_timeout=2,service_account=" + server.account()},
        "true");
    CHECK(node.wait_for_code() == 81);
    CAPTURE(node.err());
    CHECK(contains(node.err(), reason));
    CHECK_FALSE(contains(node.err(), "token-"));
}

}  // namespace

TEST_CASE("Lease: nodes find the one that leads, and the job leaves no holder and no epoch") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    // Twice: the second job of this name must be a new one.
    for (int job = 0; job < 2; ++job) {
        auto nodes = start_three(dir, server, {"--nnodes=3"});
        CHECK(server.holder() != "");
        dir.write("go", "");
        for (auto& node : nodes)
            CHECK(node.wait_for_code() == 0);
        CHECK(::unlink((dir.path() / "go").c_str()) == 0);
        const auto lease = server.lease();
        CHECK(lease.at("spec").at("holderIdentity") == "");
        const auto& annotations = lease.at("metadata").at("annotations");
        CHECK(annotations.at("ddprun/run-id") == "bert");
        CHECK_FALSE(annotations.contains("ddprun/epoch"));
        CHECK(annotations.contains("ddprun/ended"));
    }
    server.end();
    CHECK(no_descendants_left());
}

TEST_CASE("Lease: the leader's node is killed, another one leads and the job goes on without it") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    auto nodes = start_three(dir, server, {"--nnodes=2:3"});

    ::kill(agent_of(nodes[0]), SIGKILL);

    wait_until_others_go_on(nodes);
    CHECK(server.lease().at("spec").at("leaseTransitions") >= 1);
    dir.write("go", "");
    for (const std::size_t i : {1U, 2U})
        CHECK(nodes[i].wait_for_code() == 0);
    nodes[0].wait_for_exit();
    server.end();
    CHECK(no_descendants_left());
}

TEST_CASE("Lease: SIGTERM on the leader's node: another one leads at once, one node leaves") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    auto nodes = start_three(dir, server, {"--nnodes=2:3"});

    const auto first_holder = server.holder();
    CHECK(first_holder != "");
    nodes[0].signal(SIGTERM);

    // It has given the Lease back before it ends, so that no other node waits for its expiry.
    CHECK(nodes[0].wait_for_code() != 0);
    CHECK(server.holder() != first_holder);
    for (const std::size_t i : {1U, 2U}) {
        nodes[i].wait_for_line("up 2 in 1");
        nodes[i].wait_for_line("rendezvous.leader_changed .*epoch=2");
    }
    dir.write("go", "");
    for (const std::size_t i : {1U, 2U})
        CHECK(nodes[i].wait_for_code() == 0);
    server.end();
    CHECK(no_descendants_left());
}

TEST_CASE("Lease: the API server is away for longer than the lease, and no worker notices") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    auto nodes = start_three(dir, server, {"--nnodes=3"});

    SUBCASE("stopped, and continued") {
        server.stop();
        nodes[0].wait_for_line("rendezvous.stepped_down", seconds{30});
        server.go_on();
    }
    SUBCASE("killed, and started again") {
        server.end();
        nodes[0].wait_for_line("rendezvous.stepped_down", seconds{30});
        server.start();
    }
    for (auto& node : nodes)
        node.wait_for_line("rendezvous.resumed", seconds{60});
    check_all_succeed(dir, nodes);
    server.end();
    CHECK(no_descendants_left());
}

TEST_CASE("Lease: a token that is replaced while the job runs is read again") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    auto nodes = start_three(dir, server, {"--nnodes=3"});

    server.give("token-2");
    server.accept("token-2");
    server.wait_for("GET 401|PUT 401");

    check_all_succeed(dir, nodes);
    server.end();
}

TEST_CASE("Lease: another program writes the object too, and the leader goes on") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    // With the answers to the election's requests in the log.
    auto nodes = start_three(dir, server, {"--nnodes=3", "--log-level=trace"});

    server.set_mode("busy");
    server.wait_for("PUT 409");

    check_all_succeed(dir, nodes);
    // Each write that was outdated was repeated within its request.
    CHECK(contains(nodes[0].err(), "election.event"));
    CHECK_FALSE(contains(nodes[0].err(), "HTTP status 409"));
    CHECK(server.lease().at("metadata").at("labels").contains("writes"));
    server.end();
}

TEST_CASE("Lease: what is refused is named, with what to do") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    const auto answers = "Kubernetes at " + server.place() + " answers: ";
    std::string reason;
    SUBCASE("no right") {
        server.set_mode("forbidden");
        reason =
            "(bind a Role with the verbs get, create and update for leases of "
            "coordination.k8s.io in the namespace ml to the pod's service account";
    }
    SUBCASE("another token") {
        server.accept("token-2");
        reason = answers + "HTTP status 401, 'Unauthorized' (it does not accept the token";
    }
    SUBCASE("another program's page") {
        server.set_mode("page");
        reason = answers + "HTTP status 200, no answer of Kubernetes' API: '<html><body>Sign in";
    }
    SUBCASE("a Lease of another program") {
        server.put_lease(
            {{"kind", "Lease"},
             {"apiVersion", "coordination.k8s.io/v1"},
             {"metadata", {{"name", "bert"}, {"namespace", "ml"}, {"resourceVersion", "9"}}},
             {"spec", {{"holderIdentity", "operator-0"}, {"leaseDurationSeconds", 15}}}});
        reason = answers +
                 "the Lease ml/bert belongs to another program, its holder is "
                 "'operator-0': give this job a Lease of its own";
    }
    SUBCASE("a Lease that another job uses") {
        server.put_lease(led_by_gpt("aa"));
        reason = answers + "the Lease ml/bert is used by the job 'gpt': give each job a Lease";
    }
    SUBCASE("a Lease of another job, which has no leader at this time") {
        server.put_lease(led_by_gpt(""));
        reason = answers + "the Lease ml/bert is still of the job 'gpt', which has no leader now: ";
    }
    check_unreached(dir, server, reason);
    server.end();
    CHECK(no_descendants_left());
}

TEST_CASE("Lease: an API server that does not prove its name gets no token") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    const TempDir other_dir;
    const Authority other{other_dir};
    std::filesystem::rename(other.path("ca.pem"), server.account() + "/ca.crt");
    check_unreached(
        dir, server, "Kubernetes: " + server.place() + ": its certificate is not accepted: ");
    server.end();
    CHECK(server.answers() == "");
}

TEST_CASE("Lease: a service account that cannot be used is named at once") {
    if (const auto reason = why_no_openssl(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ApiServer server;
    for (const std::string file : {"namespace", "ca.crt", "token"}) {
        const auto path = server.account() + "/" + file;
        const auto kept = read_file(path);
        REQUIRE(::unlink(path.c_str()) == 0);
        auto node = server.start_node(dir, {}, "true");
        CHECK(node.wait_for_code() == 2);
        CAPTURE(node.err());
        CHECK(contains(
            node.err(), "--rdzv-backend=k8s: '" + path + "': No such file or directory; the pod"));
        std::filesystem::rename(dir.write("kept", kept), path);
    }
    server.end();
}
