// SPDX-License-Identifier: Apache-2.0
// Memory that runs out in the middle of a request.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/store/store.hpp"
#include "tests/support/failing_allocation.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>
#include <map>
#include <new>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::wire;
using store::Store;
using test::FailingAllocation;

namespace {

// Long enough that no string has its bytes inside of itself.
const std::string missing = "/a key that is missing and that clients wait for";
const std::string other = "/another key that one client waits for besides";
const std::string barrier = "/a barrier of three clients, one of which waits";
const std::string queue = "/an empty queue that one client waits for";
const std::string full_queue = "/a queue with two elements, one of them reserved";
const std::string small = "/a key with a small value";
const std::string big = "/a key with a big value, which a reply carries too";
const std::string number = "/a key whose value is a number";
const std::string big_value(limits::least_shared_bytes, 'v');
const std::string small_value(100, 'v');

constexpr std::uint64_t sender = 1;
constexpr std::uint64_t waiters[] = {2, 3, 4, 5};

/// A store that clients wait at, and how often each of them was woken.
class Served {
public:
    Served() {
        for (const std::uint64_t client : {7U, 8U})
            feed(Store::Received{{client}, QueuePush{full_queue, small_value}});
        feed(Store::Received{{9}, Wait{{full_queue}}});
        feed(Store::Received{{2}, Wait{{missing}}});
        feed(Store::Received{{3}, Wait{{missing, other}}});
        feed(Store::Received{{4}, Barrier{barrier, 3}});
        feed(Store::Received{{5}, Wait{{queue}}});
        feed(Store::Received{
            {7}, MultiSet{{{small, small_value}, {big, big_value}, {number, "1"}}}});
        feed(Store::Received{{8}, Get{big}});
        woken.clear();
    }

    /// Returns false when memory for it is missing. Then its sender is closed, and its effects are
    /// lost.
    bool feed(Store::Event event, std::size_t allowed = std::numeric_limits<std::size_t>::max()) {
        std::vector<Store::Effect> effects;
        try {
            const FailingAllocation failing(allowed);
            store.handle(std::move(event), Instant{}, effects);
            has_failed = failing.has_failed();
        } catch (const std::bad_alloc&) {
            return false;
        }
        for (auto& effect : effects) {
            auto* const reply = std::get_if<Store::Reply>(&effect);
            if (reply == nullptr) continue;
            if (std::holds_alternative<StopWaiting>(reply->reply)) ++woken[reply->to.value];
            if (reply->to.value == 8) unread.push_back(std::move(reply->reply));
        }
        return true;
    }

    /// Ends all waits, and deletes everything.
    void empty() {
        for (const auto& key : {missing, other, barrier})
            feed(Store::Received{{7}, Append{key, ""}});
        feed(Store::Received{{7}, QueuePush{queue, ""}});
        for (const std::uint64_t client : {1U, 5U, 7U, 9U})
            feed(Store::Disconnected{{client}});
        for (const auto& key : {missing, other, barrier, small, big, number, queue, full_queue}) {
            feed(Store::Received{{7}, DeleteKey{key}});
            for (int i = 0; i < 4; ++i)
                feed(Store::Received{{7}, QueuePop{key}});
        }
        unread.clear();
    }

    Store store;
    std::map<std::uint64_t, int> woken;
    std::vector<Reply> unread;
    /// An allocation failed during the last event.
    bool has_failed = false;
};

std::vector<Request> requests() {
    return {
        Set{missing, small_value},
        Set{missing, big_value},
        Set{small, big_value},
        Set{big, small_value},
        CompareSet{missing, "", big_value},
        CompareSet{small, small_value, big_value},
        CompareSet{small, "", big_value},
        Get{small},
        Add{missing, 1},
        Add{number, 1'000'000'000'000'000'000},
        Add{small, 1},
        Wait{{missing, other, small}},
        Wait{{full_queue}},
        Append{missing, small_value},
        Append{small, small_value},
        Append{small, big_value},
        Append{big, small_value},
        MultiGet{{small, big}},
        MultiSet{{{missing, small_value}, {other, big_value}, {small, big_value}}},
        QueuePush{queue, small_value},
        QueuePush{queue, big_value},
        QueuePush{full_queue, big_value},
        QueuePop{full_queue},
        ListKeys{},
        Barrier{barrier, 3},
        Barrier{barrier, 2},
        Barrier{missing, 2},
    };
}

}  // namespace

TEST_CASE("memory that runs out at any point of a request leaves all counts right, and no waiter") {
    for (const auto& request : requests()) {
        CAPTURE(wire::name(query_of(request)));
        std::size_t allowed = 0;
        for (bool is_over = false; !is_over; ++allowed) {
            REQUIRE(allowed < 1000);
            Served served;
            const bool is_handled = served.feed(Store::Received{{sender}, request}, allowed);
            is_over = is_handled && !served.has_failed;
            if (!is_handled) served.feed(Store::Disconnected{{sender}});

            served.empty();
            for (const auto waiter : waiters)
                CHECK(served.woken[waiter] == 1);
            CHECK(served.store.key_count() == 0);
            CHECK(served.store.data_bytes() == 0);
            CHECK(served.store.wait_count() == 0);
            CHECK(served.store.wait_bytes() == 0);
        }
    }
}

TEST_CASE("a request for a small value allocates nothing in the store") {
    Store store;
    std::vector<Store::Effect> effects;
    effects.reserve(8);
    const auto feed = [&](const Request& request, std::size_t allowed) {
        Store::Event event = Store::Received{{sender}, request};
        effects.clear();
        const FailingAllocation failing(allowed);
        store.handle(std::move(event), Instant{}, effects);
        return !failing.has_failed();
    };
    const auto any = std::numeric_limits<std::size_t>::max();
    feed(MultiSet{{{small, small_value}, {big, big_value}, {number, "1"}}}, any);

    CHECK(feed(Get{small}, 0));
    CHECK(std::get<Value>(std::get<Store::Reply>(effects.at(0)).reply).value == small_value);
    for (const auto& request : std::initializer_list<Request>{
             Get{big},
             Get{missing},
             Set{small, small_value},
             Add{number, 1},
             Check{{small, missing}},
             Append{big, ""},
             NumKeys{},
             Ping{7},
             QueueLen{queue}}) {
        CAPTURE(wire::name(query_of(request)));
        CHECK(feed(request, 0));
    }
}
