// SPDX-License-Identifier: Apache-2.0
// Several clients use one server concurrently, each on its own thread and connection. Their replies
// must be possible for a store that handles one request after another.
#include "rendezvous/base/clock.hpp"
#include "rendezvous/client/blocking_socket.hpp"
#include "rendezvous/client/client_session.hpp"
#include "rendezvous/wire/reply_decoder.hpp"
#include "rendezvous/wire/text.hpp"
#include "tests/support/store_history.hpp"
#include "tests/support/store_thread.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::wire;
using namespace std::chrono_literals;
using test::History;
using test::Linearization;
using test::Operation;
using test::StoreThread;

namespace {

/// One client: sends random requests, several at once, and records the replies.
class Recorder {
public:
    Recorder(const Endpoint& server, std::uint64_t seed)
        : random_(seed),
          socket_(connect(server)),
          session_(client::ClientSession::Greeting::validate) {}

    std::vector<Operation> record(int batches) {
        for (int i = 0; i < batches; ++i)
            one_of(4) == 0 ? wait() : ask_several();
        for (auto i = operations_.size(); i-- > 1;)
            operations_[i - 1].ended = std::min(operations_[i - 1].ended, operations_[i].ended);
        return std::move(operations_);
    }

private:
    static client::BlockingSocket connect(const Endpoint& server) {
        const auto addresses = client::BlockingSocket::resolve(server).value();
        return client::BlockingSocket::connect(addresses.front(), Clock::now() + 30s).value();
    }

    std::uint64_t one_of(std::uint64_t count) { return random_() % count; }
    std::string any_key() { return one_of(2) == 0 ? "/a" : "/b"; }
    /// A number, so that ADD is never refused.
    std::string any_value() { return std::to_string(one_of(3)); }

    Request any_request() {
        const auto key = any_key();
        switch (one_of(15)) {
            case 0: return Set{key, any_value()};
            case 1: return Get{key};
            case 2: return Add{key, 1};
            case 3: return CompareSet{key, any_value(), any_value()};
            case 4: return CompareSet{key, "", any_value()};
            case 5: return DeleteKey{key};
            case 6: return Append{key, any_value()};
            case 7: return MultiSet{{{"/a", any_value()}, {"/b", any_value()}}};
            case 8: return MultiGet{{"/a", "/b", "/a"}};
            case 9: return Check{{"/a", "/b"}};
            case 10: return NumKeys{};
            case 11: return ListKeys{};
            case 12: return QueuePush{"/q", any_value()};
            case 13: return QueuePop{"/q"};
            default: return QueueLen{"/q"};
        }
    }

    void ask_several() {
        const auto first = operations_.size();
        for (auto count = 1 + one_of(4); count > 0; --count) {
            operations_.push_back({any_request(), {}, Clock::now(), Instant::max()});
            session_.send(operations_.back().request);
        }
        send();
        for (auto i = first; i < operations_.size(); ++i) {
            if (!awaited_reply(operations_[i].request)) continue;
            operations_[i].reply = reply();
            operations_[i].ended = Clock::now();
        }
    }

    /// A WAIT that is cancelled at once is checked like a CHECK: if it ended, the key existed at
    /// some moment since it was sent; else the key was missing when the server read the request.
    void wait() {
        const auto key = any_key();
        const auto began = Clock::now();
        session_.send(Wait{{key}});
        if (one_of(2) == 0) send();
        session_.send(CancelWait{});
        send();
        const bool has_ended = std::holds_alternative<StopWaiting>(reply());
        if (has_ended) reply();
        operations_.push_back({Check{{key}}, Checked{has_ended}, began, Clock::now()});
    }

    void send() {
        socket_.send(session_.output(), Clock::now() + 30s).value();
        session_.sent(session_.output().size());
    }

    Reply reply() {
        for (;;) {
            auto reply = session_.next().value();
            if (!reply) {
                const auto bytes = socket_.receive(Clock::now() + 30s).value();
                if (bytes.empty()) throw std::runtime_error("no reply within 30 s");
                session_.receive(bytes);
                continue;
            }
            if (auto* keys = std::get_if<Keys>(&*reply)) std::ranges::sort(keys->keys);
            return *std::move(reply);
        }
    }

    std::mt19937_64 random_;
    client::BlockingSocket socket_;
    client::ClientSession session_;
    std::vector<Operation> operations_;
};

History record(const Endpoint& server, std::uint64_t seed, std::size_t clients, int batches) {
    std::vector<std::future<std::vector<Operation>>> recordings;
    for (std::size_t client = 0; client < clients; ++client)
        recordings.push_back(std::async(std::launch::async, [=] {
            return Recorder(server, seed * clients + client).record(batches);
        }));
    History history;
    for (auto& recording : recordings)
        history.push_back(recording.get());
    return history;
}

std::string text(const History& history) {
    std::ostringstream text;
    for (std::size_t client = 0; client < history.size(); ++client)
        for (const auto& [request, reply, began, ended] : history[client]) {
            text << "#" << client << " " << began.time_since_epoch().count() << " to ";
            if (ended == Instant::max())
                text << "?";
            else
                text << ended.time_since_epoch().count();
            text << ": " << describe(request) << (reply ? " -> " + describe(*reply) : "") << "\n";
        }
    return text.str();
}

}  // namespace

// The seed determines the clients' requests, but not how they interleave. DDPRUN_SEED=N repeats the
// same requests many times.
TEST_CASE("what clients see at once is what they would have seen one after another") {
    const char* const given = std::getenv("DDPRUN_SEED");
    const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
    constexpr std::uint64_t repetitions = 6;
    for (std::uint64_t i = 0; i < repetitions; ++i) {
        const auto seed = given != nullptr ? first : first + i;
        INFO("DDPRUN_SEED=", seed, " asks this again");
        StoreThread store;

        const auto history = record(store.endpoint(), seed, 4, 60);

        std::size_t count = 0;
        for (const auto& operations : history)
            count += operations.size();
        const auto longest = Linearization::longest(history);
        if (longest < count) MESSAGE(text(history));
        REQUIRE(longest == count);
    }
}
