// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/tcp.hpp"
#include "tests/process/ddprun/job.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <unistd.h>

#include <csignal>
#include <string>

using namespace ddprun::test;

namespace {

/// A program outside of the job that listens on a port: this test.
class OtherListener {
public:
    std::string port() const { return std::to_string(listener_.local_endpoint().port()); }
    static std::string name() { return "(pid " + std::to_string(::getpid()) + ")"; }

private:
    boost::asio::io_context io_;
    ddprun::net::Tcp::acceptor listener_ = *ddprun::net::listen(io_, "127.0.0.1", 0);
};

}  // namespace

TEST_CASE("a second node rank 0 is refused with the holder of its place, and the first logs it") {
    const TempDir dir;
    const Words words{
        "--nnodes=2",
        "--node-rank=0",
        "--master-addr=127.0.0.1",
        "--master-port=" + std::to_string(free_port()),
        "--log-level=info"};
    auto first = start_job(dir, words, "exit 0");
    // Wait until it has joined its own server: if it only listened, the second node might join
    // first.
    first.wait_for_line("rendezvous.job_changed .*state=forming");

    auto second = start_job(dir, words, "exit 0");

    CHECK(second.wait_for_code() == 83);
    const auto pid = [](const Running& job) { return "(pid " + std::to_string(job.pid()) + ")"; };
    const auto refusal = first.wait_for_line("rendezvous.refused");
    CHECK(contains(refusal, "node rank 0 of job"));
    CHECK(contains(refusal, pid(first)));
    CHECK(contains(refusal, pid(second)));
    CHECK(contains(second.err(), "taken by"));
    CHECK(contains(second.err(), std::to_string(first.pid())));
    first.signal(SIGINT);
    CHECK(first.wait_for_code() == 130);
}

TEST_CASE("another port of some ddprun is no server: node rank 0 is refused with its holder") {
    const TempDir dir;
    auto other = one_node(dir, {}, "echo port $MASTER_PORT\n" + wait_for_ever);
    const auto port = std::to_string(other.wait_for_number("port "));

    auto job = start_job(
        dir,
        {"--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--master-port=" + port},
        "exit 0");

    CHECK(job.wait_for_code() == 83);
    CHECK(contains(job.err(), "port " + port + " is in use on this machine by ddprun"));
    other.signal(SIGINT);
    CHECK(other.wait_for_code() == 130);
}

TEST_CASE("a job of one node whose port is taken goes elsewhere, and says so with the holder") {
    const TempDir dir;
    const OtherListener other;

    auto job = start_job(
        dir,
        {"--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + other.port(), "--nnodes=1"},
        "exit 0");

    CHECK(job.wait_for_code() == 0);
    const auto line = job.wait_for_line("warning .*rendezvous.moved port=[1-9]");
    CHECK(contains(line, "port " + other.port() + " is in use on this machine by "));
    CHECK(contains(line, OtherListener::name()));
}

TEST_CASE("another program on the port that several nodes know is named") {
    const TempDir dir;
    const OtherListener other;

    auto job = start_job(
        dir,
        {"--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + other.port(), "--nnodes=2"},
        "exit 0");

    const auto line = job.wait_for_line("warning .*rendezvous.port_taken");
    CHECK(contains(line, "port=" + other.port()));
    CHECK(contains(line, OtherListener::name()));
    job.signal(SIGINT);
    CHECK(job.wait_for_code() == 130);
}
