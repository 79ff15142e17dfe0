// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/peer_calls.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/listener.hpp"
#include "tests/process/support/free_port.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::test {
namespace {

using agent::Neighbours;
using agent::PeerAnswer;
using agent::PeerCalls;
using agent::PeerProbe;

const Nonce self = *Nonce::parse("00000000000000000000000000000001");
const Nonce other = *Nonce::parse("00000000000000000000000000000002");
const PeerProbe probe{self, other, 7};
const PeerAnswer accepted{PeerAnswer::Kind::accepted, 7};

/// One agent's peer_port; it answers `answer` to each caller.
struct Port {
    explicit Port(
        Duration answer_timeout = limits::peer_answer_timeout,
        std::optional<PeerCalls::Security> security = std::nullopt)
        : calls(std::make_unique<PeerCalls>(
              io,
              PeerCalls::Hooks{
                  [this](int caller, PeerProbe one) {
                      asked.push_back(one);
                      if (!is_silent) calls->answer(caller, answer);
                  },
                  [this](int ask, std::optional<PeerAnswer> one) { answered[ask] = one; }},
              answer_timeout,
              std::move(security))) {
        auto acceptor = net::listen(io, "127.0.0.1", 0);
        REQUIRE(acceptor.has_value());
        number = acceptor->local_endpoint().port();
        listener = std::make_shared<server::Listener>(
            std::move(*acceptor),
            [this](net::Tcp::socket socket) { calls->take(std::move(socket)); });
        listener->start();
    }
    ~Port() { listener->close(); }

    template <class Fact>
    bool until(Fact fact) {
        return holds_within(fact_timeout, [&] {
            io.restart();
            io.run_for(std::chrono::milliseconds{2});
            return fact();
        });
    }
    /// The answer of this port to these bytes, until it closes.
    std::string said_to(const std::string& bytes) {
        std::optional<std::string> heard;
        std::thread caller([&, number = number] {
            auto text = RawClient(number).say(bytes).hear_to_the_end();
            boost::asio::post(io, [&heard, text] { heard = text; });
        });
        CHECK(until([&] { return heard.has_value(); }));
        caller.join();
        return heard.value_or("nothing was heard");
    }

    boost::asio::io_context io;
    std::optional<PeerAnswer> answer = accepted;
    bool is_silent = false;
    std::vector<PeerProbe> asked;
    std::map<int, std::optional<PeerAnswer>> answered;
    std::unique_ptr<PeerCalls> calls;
    std::shared_ptr<server::Listener> listener;
    std::uint16_t number = 0;
};

/// More silent callers than a port accepts at the same time.
std::vector<std::unique_ptr<RawClient>> mute_callers(const Port& port) {
    std::vector<std::unique_ptr<RawClient>> callers;
    for (std::size_t i = 0; i < 2 * limits::max_peer_callers; ++i)
        callers.push_back(std::make_unique<RawClient>(port.number));
    return callers;
}

}  // namespace

TEST_CASE("a question and its answer travel between two agents") {
    Port port(fact_timeout);
    port.calls->ask({3, {"127.0.0.1", port.number}, probe});
    REQUIRE(port.until([&] { return !port.answered.empty(); }));
    CHECK(port.asked == std::vector{probe});
    CHECK(port.answered.at(3) == accepted);
}

TEST_CASE(
    "with a secret only a node that has it, and the agent that is called, understand each other") {
    const auto with = [](char character, const Nonce& own) {
        const tls::SecretSource source{"test", {}, {tls::Secret{std::string(43, character)}}};
        return PeerCalls::Security{source, [own] { return own; }};
    };
    Port callee(fact_timeout, with('A', self));
    Port caller(fact_timeout, with('A', other));
    Port without(fact_timeout, with('B', other));
    Port open(fact_timeout);
    const auto answer_to = [&](Port& from, PeerProbe question) {
        from.answered.clear();
        from.calls->ask({1, {"127.0.0.1", callee.number}, question});
        REQUIRE(callee.until([&] {
            from.io.restart();
            from.io.run_for(std::chrono::milliseconds{2});
            return from.answered.contains(1);
        }));
        return from.answered.at(1);
    };

    CHECK(answer_to(caller, probe) == accepted);
    CHECK(callee.asked == std::vector{probe});
    CHECK_FALSE(answer_to(without, probe).has_value());
    CHECK_FALSE(answer_to(open, probe).has_value());
    // The key in this probe is another callee's.
    CHECK_FALSE(answer_to(caller, {other, other, 7}).has_value());
    CHECK(callee.asked.size() == 1);
    CHECK(callee.said_to(encode(probe)).find("vouched") == std::string::npos);
}

TEST_CASE("a peer without an answer closes, and a port without a listener does not answer") {
    Port port;
    port.answer.reset();
    port.calls->ask({1, {"127.0.0.1", port.number}, probe});
    port.calls->ask({2, {"127.0.0.1", static_cast<std::uint16_t>(free_port())}, probe});
    port.calls->ask({3, {"no address", 1}, probe});
    REQUIRE(port.until([&] { return port.answered.size() == 3; }));
    for (const auto& [ask, answer] : port.answered)
        CHECK_FALSE(answer);
}

TEST_CASE("an agent that is stopped is not waited for") {
    Port port;
    port.is_silent = true;
    port.calls->ask({1, {"127.0.0.1", port.number}, probe});
    REQUIRE(port.until([&] { return !port.answered.empty(); }));
    CHECK_FALSE(port.answered.at(1));
    // This answer comes late: the caller is gone.
    port.calls->answer(1, accepted);
    port.calls->answer(99, accepted);
}

TEST_CASE("garbage on a peer_port is closed without a word, and a question is still answered") {
    Port port(fact_timeout);
    const auto question = agent::encode(probe);
    for (const auto& garbage :
         {std::string{"GET / HTTP/1.1\r\n\r\n"},
          std::string{"\n"},
          std::string(1000, 'x'),
          question + "more",
          std::string{"DDPRUN/1\n"}}) {
        CAPTURE(garbage);
        CHECK(port.said_to(garbage) == "");
    }
    CHECK(port.asked.empty());
    CHECK(port.said_to(question) == agent::encode(accepted));
}

TEST_CASE("many callers that say nothing keep no other caller out") {
    // None of them is closed by a timeout.
    Port port(fact_timeout);
    const auto mute = mute_callers(port);
    CHECK(port.said_to(agent::encode(probe)) == agent::encode(accepted));
}

TEST_CASE("callers that say nothing are closed in time") {
    Port port;
    const auto mute = mute_callers(port);
    std::thread caller([&] {
        for (const auto& each : mute)
            CHECK(each->hear_to_the_end() == "");
        boost::asio::post(port.io, [&] { port.answered[0] = std::nullopt; });
    });
    CHECK(port.until([&] { return !port.answered.empty(); }));
    caller.join();
}

}  // namespace ddprun::test
