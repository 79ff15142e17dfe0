// SPDX-License-Identifier: Apache-2.0
// Agents that are raw frames, and a real server with its coordinator in this process.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/control_server.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using server::ListenOn;
using server::RendezvousServer;

struct Served {
    explicit Served(std::optional<std::string> hosted_run_id = {}, bool has_store_of_round = false)
        : server(
              {.listen = {ListenOn::Scope::loopback, "", 0},
               .hosted_run_id = std::move(hosted_run_id),
               .has_store_of_round = has_store_of_round,
               .version = "1.2.3",
               .on_idle = [this] { ++idle_count; }}),
          port(*server.start()) {}

    std::string status() const {
        return RawClient(port).say("GET /status HTTP/1.1\r\n\r\n").hear_to_the_end();
    }

    std::atomic<int> idle_count{0};
    RendezvousServer server;
    std::uint16_t port;
};

/// A number as the c10d protocol writes it.
std::string bytes_of(std::uint64_t number) {
    std::string bytes;
    for (int i = 0; i < 8; ++i, number >>= 8)
        bytes += static_cast<char>(number & 0xff);
    return bytes;
}

control::Join a_join(std::uint8_t number, int node_count) {
    control::Join join;
    join.run_id = "train";
    join.node.nonce = Nonce{{number}};
    join.node.host = "node" + std::to_string(number);
    join.node.pid = 1000 + number;
    join.nodes = {node_count, node_count, 0};
    join.nproc = 2;
    join.store_port = static_cast<std::uint16_t>(20000 + number);
    join.peer_port = static_cast<std::uint16_t>(21000 + number);
    join.settings.join_timeout = 600s;
    return join;
}

/// An agent of job "train" that has sent its preamble and got hello.
class FakeAgent {
public:
    FakeAgent(const Served& served, std::uint8_t number, int node_count)
        : client_(std::make_unique<RawClient>(served.port)),
          join_(a_join(number, node_count)) {
        client_->say("DDPRUN/1\n");
        hear<control::Hello>();
        join_.socket_addr = client_->socket_addr();
    }

    control::Join& join() { return join_; }
    void say_join() { client_->say_message(join_); }
    void send(const control::AgentMessage& message) { client_->say_message(message); }

    /// The next message of this kind; others before it are skipped.
    template <class Message>
    Message hear() {
        for (;;) {
            auto message = client_->hear_message();
            if (auto* wanted = std::get_if<Message>(&message)) return std::move(*wanted);
        }
    }

    void hang_up() { client_.reset(); }
    std::string hear_to_the_end() { return client_->hear_to_the_end(); }

private:
    std::unique_ptr<RawClient> client_;
    control::Join join_;
};

}  // namespace

TEST_CASE("two agents join and get one world") {
    Served served;
    FakeAgent first(served, 1, 2);
    FakeAgent second(served, 2, 2);

    first.say_join();
    const auto welcome = first.hear<control::Welcome>();
    second.say_join();
    second.hear<control::Welcome>();
    const auto a = first.hear<control::Assignment>();
    const auto b = second.hear<control::Assignment>();

    CHECK_FALSE(welcome.hosted);
    CHECK(a.group_rank == 0);
    CHECK(b.group_rank == 1);
    CHECK(a.rank_base == 0);
    CHECK(b.rank_base == 2);
    CHECK(a.world_size == 4);
    CHECK(b.world_size == 4);
    CHECK(a.master_port == 20001);
    CHECK(b.master_port == 20001);
    CHECK(a.round == b.round);

    const auto status = served.status();
    for (const auto* part : {"\"run_id\": \"train\"", "\"host\": \"node1\"", "\"host\": \"node2\""})
        CHECK(status.find(part) != std::string::npos);
}

TEST_CASE("a heartbeat is acknowledged with its number") {
    Served served;
    FakeAgent agent(served, 1, 2);
    agent.say_join();

    agent.send(control::Heartbeat{41});

    CHECK(agent.hear<control::HeartbeatAck>().seq == 41);
}

TEST_CASE("a failed worker stops the round for every agent") {
    Served served;
    FakeAgent first(served, 1, 2);
    FakeAgent second(served, 2, 2);
    first.say_join();
    second.say_join();
    const auto assignment = first.hear<control::Assignment>();
    second.hear<control::Assignment>();
    first.send(control::Started{assignment.round, 0});
    second.send(control::Started{assignment.round, 0});

    control::WorkerFailure failure;
    failure.rank = 3;
    failure.end = {control::WorkerEnd::Kind::killed, SIGSEGV, false};
    second.send(control::Failed{assignment.round, 0s, failure, {}});

    for (auto* agent : {&first, &second}) {
        const auto stop = agent->hear<control::Stop>();
        CHECK(stop.round == assignment.round);
        REQUIRE(stop.root_cause.worker.has_value());
        CHECK(stop.root_cause.worker->rank == 3);
    }
}

TEST_CASE("at the next round the old store's clients read to the end, and the new one is empty") {
    constexpr auto validate_and_ping = "\0\xCE\xF7\x85\x3C\x0D\x01\x02\x03\x04"sv;
    constexpr auto pong = "\x01\x02\x03\x04"sv;
    const auto get = "\x03" + bytes_of(1) + "a";
    Served served({}, true);
    RawClient old_client(served.port);
    old_client.say(validate_and_ping);
    REQUIRE(old_client.hear(4) == pong);
    const std::string value(256 * 1024, 'v');
    const auto reply = bytes_of(value.size()) + value;
    old_client.say("\x01" + bytes_of(1) + "a" + reply);
    // More than the store buffers for one client: the last requests are not even read.
    std::string requests;
    for (int i = 0; i < 20'000; ++i)
        requests += get;
    old_client.say(requests);
    REQUIRE(old_client.hear(reply.size()) == reply);

    FakeAgent agent(served, 1, 1);
    agent.say_join();
    agent.hear<control::Assignment>();

    RawClient new_client(served.port);
    new_client.say(validate_and_ping).say(get);
    CHECK(new_client.hear(4) == pong);
    CHECK(new_client.hear(8) == bytes_of(0));
    const auto rest = old_client.hear_to_the_end();
    CHECK_FALSE(old_client.was_reset());
    CHECK(rest.size() >= reply.size());
    CHECK(rest.size() % reply.size() == 0);
}

TEST_CASE("a job's success is sent to all, and the server is idle when they have closed") {
    Served served{"train"};
    FakeAgent first(served, 1, 2);
    FakeAgent second(served, 2, 2);
    first.say_join();
    second.say_join();
    CHECK(first.hear<control::Welcome>().hosted);
    const auto assignment = first.hear<control::Assignment>();
    second.hear<control::Assignment>();

    for (auto* agent : {&first, &second}) {
        agent->send(control::Started{assignment.round, 0});
        agent->send(control::Succeeded{assignment.round});
    }

    CHECK(first.hear<control::JobResult>().outcome == control::Outcome::succeeded);
    CHECK(second.hear<control::JobResult>().outcome == control::Outcome::succeeded);
    CHECK(served.idle_count == 0);
    first.hang_up();
    second.hang_up();
    CHECK(holds_within(fact_timeout, [&] { return served.idle_count == 1; }));
}

TEST_CASE("an interrupted server ends the job for every agent") {
    Served served{"train"};
    FakeAgent first(served, 1, 2);
    FakeAgent second(served, 2, 2);
    first.say_join();
    second.say_join();
    first.hear<control::Assignment>();
    second.hear<control::Assignment>();

    served.server.interrupt(SIGTERM, "stopped");

    for (auto* agent : {&first, &second}) {
        const auto stop = agent->hear<control::Stop>();
        CHECK(stop.root_cause.kind == control::Cause::Kind::cancelled);
        agent->send(control::Ready{stop.round, 20009, 2});
    }
    CHECK(first.hear<control::JobResult>().exit_code == 128 + SIGTERM);
    CHECK(second.hear<control::JobResult>().exit_code == 128 + SIGTERM);
}

TEST_CASE("an interruption is handled before the next message of the host's agent") {
    boost::asio::io_context io;
    auto acceptor = *net::listen(io, "127.0.0.1", 0);
    RawClient client(acceptor.local_endpoint().port());
    auto join = a_join(1, 1);
    join.socket_addr = client.socket_addr();
    std::optional<server::ControlServer> control;
    // Called as from the agent's thread, while its next message has already arrived.
    control.emplace(
        io,
        coordinator::Coordinator::Options{},
        limits::handshake_timeout,
        server::ControlServer::Hooks{
            {},
            [](const std::string&, const std::string&) {},
            [&] { control->interrupt(SIGTERM, "stopped"); }});

    control->adopt(
        acceptor.accept(),
        "DDPRUN/1\n" + control::encode(control::AgentMessage{join}) +
            control::encode(control::AgentMessage{control::Ready{0, 20009, 2}}));
    std::jthread serving([&] { io.run_for(fact_timeout); });
    std::vector<int> rounds;
    std::optional<control::JobResult> result;
    while (!result) {
        const auto message = client.hear_message();
        if (const auto* sent = std::get_if<control::Assignment>(&message))
            rounds.push_back(sent->round);
        if (const auto* last = std::get_if<control::JobResult>(&message)) result = *last;
    }
    io.stop();
    serving.join();

    CHECK(rounds == std::vector{0});
    CHECK(result->exit_code == 128 + SIGTERM);
}

TEST_CASE("a hosting server refuses other run ids and says why") {
    Served served{"other"};
    FakeAgent agent(served, 1, 2);

    agent.say_join();

    CHECK(agent.hear<control::Refused>().reason != "");
}

TEST_CASE("a detached server sends no stop") {
    Served served;
    FakeAgent agent(served, 1, 1);
    agent.say_join();
    agent.hear<control::Assignment>();

    served.server.stop();

    CHECK(agent.hear_to_the_end() == "");
}

}  // namespace ddprun::test
