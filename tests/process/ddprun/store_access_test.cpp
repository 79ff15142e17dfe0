// SPDX-License-Identifier: Apache-2.0
// The workers' store of jobs with a secret: accessible to nodes with the secret, and to no other
// caller.
#include "rendezvous/net/tcp.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/skip.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <csignal>
#include <regex>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun::test;

namespace {

const std::string line = "ddprun-secret-1:" + std::string(43, 'P') + "\n";

std::string secret_option(const TempDir& dir) {
    const auto path = dir.write("secret", line);
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    return "--rdzv-secret-file=" + path;
}

const std::string meet = "exec " + stub_in_shell("meet_in_store");

/// The address of the round's store in the log, such as "10.77.0.1:20123".
std::string store_in(const std::string& log_line) {
    std::smatch found;
    REQUIRE(std::regex_search(log_line, found, std::regex{"master=([0-9.]+:[0-9]+)"}));
    return found[1];
}

/// A node on one of two hosts.
Running node_at(
    const NetworkPair::Host& host,
    const NetworkPair& hosts,
    const Words& options,
    std::string path) {
    Running::Options how;
    how.arguments =
        Words{"--nnodes=2", "--rdzv-id=tested", "--rdzv-endpoint=" + hosts.a().address} + options +
        Words{"--no-python", std::move(path)};
    how.network_namespace = host.name;
    return Running(program("ddprun"), how);
}

}  // namespace

TEST_CASE("workers of two nodes with a secret meet in a store on their loopback address") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const Words options{"--nnodes=2", "--nproc-per-node=2", secret_option(dir)};
    auto a = start_job(dir, rendezvous.options(options), meet);
    auto b = start_job(dir, rendezvous.options(options), meet);
    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(
        sorted_lines(a.out() + b.out()) == Words{
                                               "rank 0 met 4 at 127.0.0.1",
                                               "rank 1 met 4 at 127.0.0.1",
                                               "rank 2 met 4 at 127.0.0.1",
                                               "rank 3 met 4 at 127.0.0.1"});
    CHECK(no_descendants_left());
}

TEST_CASE("on the network a job with a secret shows other callers nothing of its store") {
    if (const auto why = NetworkPair::why_not(); !why.empty()) return skip(why);
    const NetworkPair hosts;
    const TempDir dir;
    const auto path = dir.write_script(
        "worker",
        "#!/bin/sh\n" + stub_in_shell("meet_in_store") +
            "\necho port $MASTER_PORT first $DDPRUN_MASTER_ADDR\n"
            "until [ -e " +
            dir.path().string() + "/end ]; do sleep 0.02; done\n");
    const Words options{secret_option(dir), "--log-level=debug"};
    auto a = node_at(hosts.a(), hosts, options, path);
    auto b = node_at(hosts.b(), hosts, options, path);
    // The address for the node on the other host, whichever node connected first.
    const auto store =
        store_in(a.wait_for_line("assignment .*master=" + hosts.a().address + ":[0-9]+"));
    a.wait_for_line("port [0-9]+ first");
    CHECK(contains(b.wait_for_line("port [0-9]+ first"), "first " + hosts.a().address));

    // The exit code of a program without a secret on the other host, which begins like PyTorch's
    // client.
    const auto code_of_caller = [&](const std::string& port) {
        Running::Options how;
        how.environment = {
            {"MASTER_ADDR", hosts.a().address},
            {"MASTER_PORT", port},
            {"RANK", "0"},
            {"WORLD_SIZE", "1"}};
        how.network_namespace = hosts.b().name;
        Running program(stub("meet_in_store"), how);
        return program.wait_for_code();
    };
    // It is connected, but never receives the first byte of an answer.
    CHECK(code_of_caller(store.substr(store.find(':') + 1)) == 6);
    // The store itself has no port there.
    std::smatch found;
    const auto said = a.out();
    REQUIRE(std::regex_search(said, found, std::regex{"port ([0-9]+) first"}));
    CHECK(code_of_caller(found[1]) == 4);

    dir.write("end", "");
    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
}

TEST_CASE("a cable that is cut and plugged in again ends no connection to the store") {
    if (const auto why = NetworkPair::why_not(); !why.empty()) return skip(why);
    const NetworkPair hosts;
    const TempDir dir;
    // Rank 1 connects before the cut, and sets its key after it.
    const auto path = dir.write_script(
        "worker",
        "#!/bin/sh\nif [ $RANK = 1 ]; then " + stub_in_shell("wait_in_store") +
            " late 600; exit; fi\n"
            "until [ -e " +
            dir.path().string() + "/go ]; do sleep 0.02; done\n" + stub_in_shell("meet_in_store") +
            " late\n");
    const Words options{secret_option(dir)};
    auto a = node_at(hosts.a(), hosts, options, path);
    auto b = node_at(hosts.b(), hosts, options, path);
    b.wait_for_line("waiting");
    hosts.cut();
    hosts.heal();
    dir.write("go", "");
    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
}

TEST_CASE("workers that are restarted meet in a fresh store") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const Words options{"--nnodes=2", "--max-restarts=1", secret_option(dir)};
    const auto script = stub_in_shell("meet_in_store") +
                        "\nif [ $RANK = 1 -a $TORCHELASTIC_RESTART_COUNT = 0 ]; then exit 3; fi\n"
                        "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then " +
                        wait_for_ever + "; fi\necho done";
    auto a = start_job(dir, rendezvous.options(options), script);
    auto b = start_job(dir, rendezvous.options(options), script);
    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(contains(a.out(), "done"));
    CHECK(contains(b.out(), "done"));
}

TEST_CASE("a store that is direct on one node is refused by name in a job with members") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto secret = secret_option(dir);
    auto a = start_job(dir, rendezvous.options({"--nnodes=2", secret}), meet);
    a.wait_for_line("nodes.missing");
    auto b = start_job(
        dir, rendezvous.options({"--nnodes=2", secret, "--store-access=direct"}), "echo wrong");
    CHECK(b.wait_for_code() == 83);
    CHECK(contains(b.err(), "--store-access"));
    CHECK(contains(b.err(), "direct (as of an older"));
    CHECK(b.out().empty());
    auto c = start_job(dir, rendezvous.options({"--nnodes=2", secret}), meet);
    CHECK(c.wait_for_code() == 0);
    CHECK(a.wait_for_code() == 0);
}

TEST_CASE("with --store-access=direct a store is for every caller, which is said once") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {secret_option(dir), "--store-access=direct"},
        "echo first=$DDPRUN_MASTER_ADDR. at $MASTER_ADDR");
    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.out(), "first=. at 127.0.0.1"));
    CHECK(contains(job.err(), "security.store_open"));
    auto members = one_node(dir, {secret_option(dir)}, "echo first=$DDPRUN_MASTER_ADDR.");
    CHECK(members.wait_for_code() == 0);
    CHECK(contains(members.out(), "first=127.0.0.1."));
    CHECK_FALSE(contains(members.err(), "security.store_open"));
}

TEST_CASE("a job at a fixed address has a members-only store too") {
    const TempDir dir;
    const auto secret = secret_option(dir);
    const auto port = "--master-port=" + std::to_string(free_port());
    const auto node = [&](const std::string& rank) {
        return start_job(
            dir,
            {"--nnodes=2", "--node-rank=" + rank, "--master-addr=127.0.0.1", port, secret},
            meet);
    };
    auto a = node("0");
    auto b = node("1");
    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(
        sorted_lines(a.out() + b.out()) ==
        Words{"rank 0 met 2 at 127.0.0.1", "rank 1 met 2 at 127.0.0.1"});
}

TEST_CASE("a node that finds no port for its store ends with the range, and opens none") {
    const TempDir dir;
    const auto first = free_port();
    boost::asio::io_context io;
    std::vector<ddprun::net::Tcp::acceptor> taken;
    // The fourth port is for probes between nodes.
    for (int i = 0; i < 3; ++i)
        if (auto one = ddprun::net::listen(io, "", static_cast<std::uint16_t>(first + i)))
            taken.push_back(std::move(*one));
    if (taken.size() < 3) return skip("another program has one of the ports");
    const auto range = std::to_string(first) + "-" + std::to_string(first + 3);
    auto job = start_job(
        dir,
        {"--nnodes=2",
         "--rdzv-endpoint=127.0.0.1:" + std::to_string(free_port()),
         "--port-range=" + range,
         secret_option(dir)},
        "echo wrong");
    CHECK(job.wait_for_code() != 0);
    CHECK(contains(job.err(), "(--port-range)"));
    CHECK(job.out().empty());
}
