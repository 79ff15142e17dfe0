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
using agent::PeerVouch;

const Nonce self = *Nonce::parse("00000000000000000000000000000001");
const Nonce other = *Nonce::parse("00000000000000000000000000000002");
const PeerVouch vouch{self, other, 7};
const PeerAnswer vouched{PeerAnswer::Kind::vouched, 7};

/// One agent's peer_port; it answers `answer` to everybody.
struct Port {
    explicit Port(Duration answer_timeout = limits::peer_answer_timeout)
        : calls(std::make_unique<PeerCalls>(
              io,
              PeerCalls::Hooks{
                  [this](int caller, PeerVouch one) {
                      asked.push_back(one);
                      if (!is_silent) calls->answer(caller, answer);
                  },
                  [this](int ask, std::optional<PeerAnswer> one) { answered[ask] = one; }},
              answer_timeout)) {
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
    /// What this port answers to these bytes, until it closes.
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
    std::optional<PeerAnswer> answer = vouched;
    bool is_silent = false;
    std::vector<PeerVouch> asked;
    std::map<int, std::optional<PeerAnswer>> answered;
    std::unique_ptr<PeerCalls> calls;
    std::shared_ptr<server::Listener> listener;
    std::uint16_t number = 0;
};

/// More than a port bears with at once.
std::vector<std::unique_ptr<RawClient>> mute_callers(const Port& port) {
    std::vector<std::unique_ptr<RawClient>> callers;
    for (std::size_t i = 0; i < 2 * limits::max_peer_callers; ++i)
        callers.push_back(std::make_unique<RawClient>(port.number));
    return callers;
}

}  // namespace

TEST_CASE("a question and its answer travel between two agents") {
    Port port(fact_timeout);
    port.calls->ask({3, {"127.0.0.1", port.number}, vouch});
    REQUIRE(port.until([&] { return !port.answered.empty(); }));
    CHECK(port.asked == std::vector{vouch});
    CHECK(port.answered.at(3) == vouched);
}

TEST_CASE("who has nothing to say closes, and who is not there does not answer") {
    Port port;
    port.answer.reset();
    port.calls->ask({1, {"127.0.0.1", port.number}, vouch});
    port.calls->ask({2, {"127.0.0.1", static_cast<std::uint16_t>(free_port())}, vouch});
    port.calls->ask({3, {"no address", 1}, vouch});
    REQUIRE(port.until([&] { return port.answered.size() == 3; }));
    for (const auto& [ask, answer] : port.answered)
        CHECK_FALSE(answer);
}

TEST_CASE("an agent that is stopped is not waited for") {
    Port port;
    port.is_silent = true;
    port.calls->ask({1, {"127.0.0.1", port.number}, vouch});
    REQUIRE(port.until([&] { return !port.answered.empty(); }));
    CHECK_FALSE(port.answered.at(1));
    // Its answer comes late: there is nobody any more.
    port.calls->answer(1, vouched);
    port.calls->answer(99, vouched);
}

TEST_CASE("garbage on a peer_port is closed without a word, and a question is still answered") {
    Port port(fact_timeout);
    const auto question = agent::encode(vouch);
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
    CHECK(port.said_to(question) == "vouched 7\n");
}

TEST_CASE("many callers that say nothing keep nobody out") {
    // None of them is closed because its time is over.
    Port port(fact_timeout);
    const auto mute = mute_callers(port);
    CHECK(port.said_to(agent::encode(vouch)) == "vouched 7\n");
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
