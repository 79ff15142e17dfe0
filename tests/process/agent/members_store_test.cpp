// SPDX-License-Identifier: Apache-2.0
// A round's store for members only: the agent that serves it and the agent of another node, in one
// process and over real sockets.
#include "agent/runner/round_stores.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/session.hpp"
#include "rendezvous/tunnel/tunnel.hpp"
#include "rendezvous/wire/encoder.hpp"
#include "tests/process/support/free_port.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"
#include "tests/support/store_thread.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::test {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using agent::PortRange;
using agent::RoundStores;
using agent::StoreDoor;

const tls::Secret secret{std::string(43, 'A')};
const std::string incarnation = "inc";
constexpr int round_number = 4;

/// The stores of one node.
struct Node {
    explicit Node(
        PortRange range = {}, bool has_one_node = false, const tls::Secret& own_secret = secret)
        : stores(std::make_unique<RoundStores>(
              io,
              "127.0.0.1",
              range,
              wire::Accepted::current,
              RoundStores::OnWait{},
              RoundStores::Members{{"test", {}, {own_secret}}, has_one_node})) {}

    Result<std::uint16_t> try_open() {
        std::optional<Result<std::uint16_t>> opened;
        stores->open([&](Result<std::uint16_t> port) { opened = std::move(port); });
        until([&] { return opened.has_value(); });
        return *opened;
    }
    std::uint16_t open() { return try_open().value(); }

    /// Returns the port of this node's workers.
    std::uint16_t enter(std::uint16_t store_port, bool is_here, int round = round_number) {
        reached.reset();
        const auto port = stores->enter(
            {incarnation, round, {"127.0.0.1", store_port}, is_here},
            [this](StoreDoor::Reached it) { reached = std::move(it); });
        return port.value();
    }
    template <class Fact>
    void until(Fact fact) {
        REQUIRE(holds_within(fact_timeout, [&] {
            io.restart();
            io.poll();
            return fact();
        }));
    }
    std::string failure() {
        until([&] { return reached.has_value(); });
        return reached->failure;
    }

    boost::asio::io_context io;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
        io.get_executor()};
    std::optional<StoreDoor::Reached> reached;
    std::unique_ptr<RoundStores> stores;
};

/// A round of two nodes: `first` has the store.
struct TwoNodes {
    explicit TwoNodes(int round_of_other = round_number) {
        store_port = first.open();
        first_port = first.enter(store_port, true);
        other_port = other.enter(store_port, false, round_of_other);
    }

    client::StoreClient client(std::uint16_t port) const {
        return client::StoreClient::connect({{"127.0.0.1", port}, fact_timeout}).value();
    }

    Node first;
    Node other;
    /// The port of the store for the other nodes.
    std::uint16_t store_port = 0;
    std::uint16_t first_port = 0;
    std::uint16_t other_port = 0;
};

constexpr auto validate = "\0\xce\xf7\x85\x3c"sv;

std::string set_request(const std::string& key, const std::string& value) {
    std::string bytes;
    wire::encode(wire::Request{wire::Set{key, value}}, bytes);
    return bytes;
}

/// A member without an agent: the test decides what it sends after its proof.
class Member {
public:
    explicit Member(std::uint16_t port, const tls::Key& key)
        : raw_(port),
          session_(tls::Session::for_client(key)) {
        send();
        while (!session_.is_established())
            REQUIRE(session_.receive(raw_.hear(1), plain_).has_value());
        send();
    }
    void say(std::string_view bytes) {
        session_.send(bytes);
        send();
    }
    std::string hear(std::size_t bytes) {
        while (plain_.size() < bytes)
            REQUIRE(session_.receive(raw_.hear(1), plain_).has_value());
        return std::exchange(plain_, {});
    }
    /// The kind of the next frame, and its data.
    tunnel::Kind hear_frame(std::string& data) {
        for (;;) {
            const auto frame = tunnel::decode(plain_).value();
            if (frame) {
                data = frame->data;
                plain_.erase(0, frame->encoded_bytes());
                return frame->kind;
            }
            const auto byte = raw_.hear(1);
            REQUIRE_FALSE(byte.empty());
            REQUIRE(session_.receive(byte, plain_).has_value());
        }
    }
    std::string hear_to_the_end() { return raw_.hear_to_the_end(); }

private:
    void send() { raw_.say(session_.take_output()); }

    RawClient raw_;
    tls::Session session_;
    std::string plain_;
};

std::string bytes_of(const tunnel::Frame& frame) {
    std::string bytes;
    tunnel::encode(frame, bytes);
    return bytes;
}

std::string frames(const std::vector<tunnel::Frame>& list) {
    std::string bytes{tunnel::preamble};
    for (const auto& frame : list)
        tunnel::encode(frame, bytes);
    return bytes;
}

tls::Key store_key() {
    return tls::store_key(secret, incarnation, round_number);
}

server::StoreSurvey survey_of(const Node& node) {
    std::promise<server::StoreSurvey> answered;
    auto answer = answered.get_future();
    node.stores->survey([&](server::StoreSurvey survey) { answered.set_value(std::move(survey)); });
    return answer.get();
}

/// A store of an older release, as seen by a node with a secret: it closes on an invalid request.
class ClosingServer {
public:
    ClosingServer()
        : acceptor_(*net::listen(io_, "127.0.0.1", 0)),
          port_(acceptor_.local_endpoint().port()),
          thread_([this] {
              accept();
              io_.run();
          }) {}
    ~ClosingServer() {
        io_.stop();
        thread_.join();
    }
    ClosingServer(const ClosingServer&) = delete;
    ClosingServer& operator=(const ClosingServer&) = delete;

    std::uint16_t port() const { return port_; }

private:
    void accept() {
        acceptor_.async_accept([this](const error_code& ec, net::Tcp::socket socket) {
            if (ec) return;
            std::array<char, 4096> nowhere{};
            error_code ignored;
            socket.read_some(boost::asio::buffer(nowhere), ignored);
            accept();
        });
    }

    boost::asio::io_context io_;
    net::Tcp::acceptor acceptor_;
    std::uint16_t port_;
    std::thread thread_;
};

}  // namespace

TEST_CASE("every operation of a store works through a tunnel as on the node that has it") {
    TwoNodes nodes;
    CHECK(nodes.other.failure().empty());
    auto here = nodes.client(nodes.first_port);
    auto there = nodes.client(nodes.other_port);

    REQUIRE(there.set("key", "value").has_value());
    CHECK(here.get("key").value() == "value");
    CHECK(there.get("key").value() == "value");
    CHECK(there.add("count", 2).value() == 2);
    CHECK(here.add("count", 3).value() == 5);
    CHECK(there.check({"key", "count"}).value());
    CHECK_FALSE(there.check({"none"}).value());
    CHECK(there.wait({"key"}).has_value());
    CHECK(there.wait({"none"}, std::chrono::milliseconds{20}).error().code == std::errc::timed_out);
    CHECK(there.compare_set("key", "value", "other").value() == "other");
    CHECK(there.append("key", "+").has_value());
    CHECK(there.multi_set({{"a", "1"}, {"b", "2"}}).has_value());
    CHECK(
        there.multi_get({"a", "b", "key"}).value() == std::vector<std::string>{"1", "2", "other+"});
    CHECK(there.delete_key("a").value());
    CHECK(there.num_keys().value() == here.num_keys().value());
    CHECK(there.list_keys().value().size() == here.list_keys().value().size());
    CHECK(there.queue_push("queue", "element").has_value());
    CHECK(there.queue_len("queue").value() == 1);
    CHECK(here.queue_pop("queue").value() == "element");
    CHECK_FALSE(there.try_queue_pop("queue").value().has_value());
    CHECK(there.ping().has_value());
    std::thread waiting(
        [&] { CHECK(nodes.client(nodes.other_port).barrier("all", 2).has_value()); });
    CHECK(here.barrier("all", 2).has_value());
    waiting.join();

    const std::string big(limits::max_value_bytes, 'b');
    REQUIRE(there.set("big", big).has_value());
    CHECK(here.get("big").value() == big);
    CHECK(there.get("big").value() == big);
}

TEST_CASE("a client that says a megabyte and closes at once has said all of it") {
    TwoNodes nodes;
    auto here = nodes.client(nodes.first_port);
    {
        // Waits for a first answer, as PyTorch's clients do with PING, so that the client has been
        // admitted: the user of a connection that is already closed cannot be determined.
        RawClient client(nodes.other_port);
        std::string first{validate};
        wire::encode(wire::Request{wire::Add{"/admitted", 1}}, first);
        client.say(first);
        REQUIRE(client.hear(8).size() == 8);
        std::string all;
        for (int i = 0; i < 64; ++i)
            all += set_request("/part" + std::to_string(i), std::string(16 * 1024, 'x'));
        client.say(all);
    }
    for (int i = 0; i < 64; ++i)
        CHECK(here.get("part" + std::to_string(i)).value().size() == 16 * 1024);
    // The other node's connection to the store has ended too.
    CHECK(holds_within(fact_timeout, [&] { return survey_of(nodes.first).connections == 1; }));
}

TEST_CASE("what a store has answered is read to the last byte, though the store closes") {
    TwoNodes nodes;
    auto here = nodes.client(nodes.first_port);
    // The value is so short that a store has written all of it to a socket when it ends: the rest
    // of a longer answer is lost without a tunnel too.
    const std::string value(64 * 1024, 'r');
    REQUIRE(here.set("big", value).has_value());
    RawClient client(nodes.other_port);
    std::string request{validate};
    wire::encode(wire::Request{wire::Get{"/big"}}, request);
    client.say(request);
    const auto first = client.hear(8);
    REQUIRE(first.size() == 8);
    nodes.first.stores->close(nodes.store_port);
    CHECK((client.hear_to_the_end() == value));
    CHECK_FALSE(client.was_reset());
}

TEST_CASE("a client that ends its speech still gets its answer") {
    TwoNodes nodes;
    auto here = nodes.client(nodes.first_port);
    RawClient client(nodes.other_port);
    client.say(validate);
    std::string request;
    wire::encode(wire::Request{wire::Add{"/count", 1}}, request);
    client.say(request).end_of_speech();
    CHECK(client.hear(8).size() == 8);
    CHECK(client.hear_to_the_end().empty());
}

TEST_CASE("a client that reads nothing stops no other one of its node") {
    TwoNodes nodes;
    auto there = nodes.client(nodes.other_port);
    REQUIRE(there.set("big", std::string(limits::max_value_bytes, 'b')).has_value());
    RawClient mute(nodes.other_port);
    std::string request{validate};
    for (int i = 0; i < 4; ++i)
        wire::encode(wire::Request{wire::Get{"/big"}}, request);
    mute.say(request);
    for (int i = 0; i < 200; ++i)
        CHECK(there.add("count", 1).value() == i + 1);
}

TEST_CASE("the end of the agent that has the store is the end of every connection to it") {
    auto nodes = std::make_unique<TwoNodes>();
    RawClient client(nodes->other_port);
    client.say(validate);
    std::string request;
    wire::encode(wire::Request{wire::Add{"/count", 1}}, request);
    client.say(request);
    REQUIRE(client.hear(8).size() == 8);
    nodes->first.stores.reset();
    CHECK(client.hear_to_the_end().empty());
}

TEST_CASE("a caller without the secret gets nothing of a store but an alert") {
    TwoNodes nodes;
    REQUIRE(nodes.other.failure().empty());
    SUBCASE("in clear text") {
        RawClient client(nodes.store_port);
        client.say(std::string{validate} + set_request("/planted", "pickle"));
        // A TLS alert is no answer of a store.
        CHECK(client.hear_to_the_end().size() <= 7);
    }
    SUBCASE("with another secret") {
        RawClient client(nodes.store_port);
        auto session = tls::Session::for_client(
            tls::store_key(tls::Secret{std::string(43, 'B')}, incarnation, round_number));
        client.say(session.take_output());
        CHECK(client.hear_to_the_end().size() == 7);
    }
    SUBCASE("with the secret, of another round") {
        RawClient client(nodes.store_port);
        auto session =
            tls::Session::for_client(tls::store_key(secret, incarnation, round_number - 1));
        client.say(session.take_output());
        CHECK(client.hear_to_the_end().size() == 7);
    }
    SUBCASE("silent, it is closed in time") {
        RawClient client(nodes.store_port);
        CHECK(client.hear_to_the_end().empty());
    }
    CHECK_FALSE(nodes.client(nodes.first_port).check({"planted"}).value());
}

TEST_CASE("silent callers of a store's tunnels keep no node out") {
    Node first;
    const auto store_port = first.open();
    const auto first_port = first.enter(store_port, true);
    std::vector<std::unique_ptr<RawClient>> mute;
    for (int i = 0; i < 200; ++i)
        mute.push_back(std::make_unique<RawClient>(store_port));
    Node other;
    const auto other_port = other.enter(store_port, false);
    CHECK(other.failure().empty());
    auto there = client::StoreClient::connect({{"127.0.0.1", other_port}, fact_timeout}).value();
    CHECK(there.set("key", "value").has_value());
    auto here = client::StoreClient::connect({{"127.0.0.1", first_port}, fact_timeout}).value();
    CHECK(here.get("key").value() == "value");
}

TEST_CASE("a member that breaks the tunnel's rules is closed, and the others are served") {
    TwoNodes nodes;
    using tunnel::Kind;
    std::string bytes;
    SUBCASE("another protocol") {
        bytes = "ddprun-store/9\n";
    }
    SUBCASE("a stream never opened") {
        bytes = frames({{5, Kind::data, "x"}});
    }
    SUBCASE("a number used again") {
        bytes = frames({{1, Kind::open, {}, 1}, {1, Kind::reset}, {1, Kind::open, {}, 1}});
    }
    SUBCASE("an unknown kind") {
        bytes = std::string{tunnel::preamble} + std::string(9, '\x09');
    }
    SUBCASE("a frame that is too long") {
        bytes = std::string{tunnel::preamble} + "\0\0\0\1\2\xff\xff\xff\xff"s;
    }
    Member member(nodes.store_port, store_key());
    member.say(bytes);
    member.hear_to_the_end();
    auto there = nodes.client(nodes.other_port);
    CHECK(there.set("key", "value").has_value());
    CHECK(there.get("key").value() == "value");
}

TEST_CASE("a member by hand reaches the store, stream by stream") {
    TwoNodes nodes;
    using tunnel::Kind;
    Member member(nodes.store_port, store_key());
    std::string ask{validate};
    wire::encode(wire::Request{wire::Add{"/count", 7}}, ask);
    member.say(frames({{1, Kind::open, {}, 40'000}, {1, Kind::data, ask}}));
    const auto answer = member.hear(tunnel::header_bytes + 8);
    CHECK(answer.substr(tunnel::header_bytes) == "\7\0\0\0\0\0\0\0"sv);
}

TEST_CASE("what a store has answered is read to the last byte, though it takes no more requests") {
    TwoNodes nodes;
    using tunnel::Kind;
    auto here = nodes.client(nodes.first_port);
    constexpr auto window = limits::tunnel_window_bytes;
    const std::string value(window + 64 * 1024, 'v');
    REQUIRE(here.set("big", value).has_value());
    Member member(nodes.store_port, store_key());
    std::string ask{validate};
    wire::encode(wire::Request{wire::Get{"/big"}}, ask);
    member.say(frames({{1, Kind::open, {}, 40'000}, {1, Kind::data, ask}}));
    std::string heard;
    std::string data;
    while (heard.size() < window) {
        REQUIRE(member.hear_frame(data) == Kind::data);
        heard += data;
    }
    // The rest has left the store, and waits in its tunnel for credit.
    REQUIRE(holds_within(
        fact_timeout, [&] { return survey_of(nodes.first).client_bytes < 32 * 1024; }));
    member.say(bytes_of({1, Kind::data, "\xff"}));
    REQUIRE(holds_within(fact_timeout, [&] { return survey_of(nodes.first).connections == 1; }));
    member.say(bytes_of({1, Kind::data, "x"}));
    member.say(bytes_of({1, Kind::credit, {}, window}));
    Kind last = Kind::data;
    while ((last = member.hear_frame(data)) == Kind::data)
        heard += data;
    CHECK(last == Kind::reset);
    CHECK(heard.size() == 8 + value.size());
}

TEST_CASE("a store that is no member's is refused by name, and nothing is sent to it") {
    std::optional<StoreThread> newer;
    std::optional<ClosingServer> older;
    std::uint16_t port = 0;
    SUBCASE("one that says so") {
        port = newer.emplace().endpoint().port;
        CHECK(RawClient(port).say("\x16\x03\x01").hear_to_the_end() == tls::no_encryption_here);
    }
    SUBCASE("one that closes") {
        port = older.emplace().port();
    }
    Node other;
    other.enter(port, false);
    const auto failure = other.failure();
    CHECK(failure.find("takes no encrypted connections") != std::string::npos);
    CHECK(failure.find("--store-access=direct") != std::string::npos);
}

TEST_CASE("the end of a round is the end of what leads to its store") {
    TwoNodes nodes;
    REQUIRE(nodes.other.failure().empty());
    nodes.other.stores->leave(round_number - 1);
    auto there = nodes.client(nodes.other_port);
    CHECK(there.set("key", "value").has_value());
    nodes.other.stores->leave(round_number);
    nodes.other.stores->wait_until_closed();
    CHECK_FALSE(RawClient::can_connect(nodes.other_port));
    CHECK_FALSE(there.get("key").has_value());
}

TEST_CASE("a store out of reach is named") {
    Node other;
    other.enter(static_cast<std::uint16_t>(free_port()), false);
    CHECK(other.failure().find("out of reach: connect to 127.0.0.1:") != std::string::npos);
}

TEST_CASE("a node that begins the round first waits for the one that has the store") {
    Node first;
    const auto store_port = first.open();
    Node other;
    const auto other_port = other.enter(store_port, false);
    RawClient client(other_port);
    std::string ask{validate};
    wire::encode(wire::Request{wire::Add{"/count", 7}}, ask);
    client.say(ask);
    first.enter(store_port, true);
    CHECK(client.hear(8) == "\7\0\0\0\0\0\0\0"sv);
    CHECK(other.failure().empty());
}

TEST_CASE("without a port for its tunnels a store is not opened at all") {
    const auto first = free_port();
    boost::asio::io_context io;
    const auto taken = net::listen(io, "127.0.0.1", first);
    REQUIRE(taken.has_value());
    Node node({first, first});
    const auto opened = node.try_open();
    REQUIRE_FALSE(opened.has_value());
    const auto range = std::to_string(first) + " and " + std::to_string(first);
    CHECK(
        opened.error().describe().find("no free port between " + range + " (--port-range)") !=
        std::string::npos);
}

TEST_CASE("with two ports a store is for members, not for every caller") {
    const auto first = free_port();
    Node node({first, static_cast<std::uint16_t>(first + 1)});
    const auto opened = node.try_open();
    // Another program may use the second port.
    if (!opened) return;
    const auto workers_port = node.enter(*opened, true);
    CHECK(workers_port != *opened);
    RawClient caller(*opened);
    caller.say(std::string{validate} + set_request("/planted", "pickle"));
    CHECK(caller.hear_to_the_end().size() <= 7);
    auto here = client::StoreClient::connect({{"127.0.0.1", workers_port}, fact_timeout}).value();
    CHECK_FALSE(here.check({"planted"}).value());
}

TEST_CASE("the store of a job of one node has one port, on the loopback address") {
    Node node({}, true);
    const auto port = node.open();
    CHECK(node.enter(port, true) == port);
    auto here = client::StoreClient::connect({{"127.0.0.1", port}, fact_timeout}).value();
    CHECK(here.set("key", "value").has_value());
    CHECK(here.get("key").value() == "value");
}

TEST_CASE("the port of a node's workers is closed to other users") {
    if (::geteuid() != 0) return skip("needs root, to be another user");
    TwoNodes nodes;
    REQUIRE(nodes.other.failure().empty());
    for (const auto port : {nodes.first_port, nodes.other_port}) {
        std::string heard = "not closed";
        std::thread([&] {
            constexpr uid_t another = 12'345;
            ::syscall(SYS_setresuid, another, another, another);
            std::string ask{validate};
            wire::encode(wire::Request{wire::Add{"/count", 7}}, ask);
            heard = RawClient(port).say(ask).hear_to_the_end();
        }).join();
        CHECK(heard.empty());
    }
    CHECK(nodes.client(nodes.first_port).add("count", 0).value() == 0);
}

TEST_CASE("the next round has another port, and that of the last one is closed") {
    TwoNodes nodes;
    REQUIRE(nodes.other.failure().empty());
    const auto next_store = nodes.first.open();
    RawClient old(nodes.other_port);
    old.say(validate);
    nodes.first.stores->close(nodes.store_port);
    const auto next_first = nodes.first.enter(next_store, true, round_number + 1);
    const auto next_other = nodes.other.enter(next_store, false, round_number + 1);
    CHECK(next_first != nodes.first_port);
    CHECK(next_other != nodes.other_port);
    CHECK(old.hear_to_the_end().empty());
    CHECK_FALSE(RawClient::can_connect(nodes.other_port));
    auto there = client::StoreClient::connect({{"127.0.0.1", next_other}, fact_timeout}).value();
    CHECK(there.set("key", "value").has_value());
    auto here = client::StoreClient::connect({{"127.0.0.1", next_first}, fact_timeout}).value();
    CHECK(here.get("key").value() == "value");
}

}  // namespace ddprun::test
