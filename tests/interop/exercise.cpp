// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/exercise.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;
using client::StoreClient;
using Strings = std::vector<std::string>;

StoreClient connected(const Endpoint& store) {
    return StoreClient::connect({store, 60s, false}).value();
}

Strings sorted(Strings strings) {
    std::sort(strings.begin(), strings.end());
    return strings;
}

void keys_and_values(StoreClient store) {
    CHECK(store.set("k", "v").has_value());
    CHECK(store.get("k").value() == "v");
    CHECK(store.set("k", "").has_value());
    CHECK(store.get("k").value().empty());
    const std::string big(8 * 1024 * 1024, 'x');
    CHECK(store.set("big", big).has_value());
    CHECK(store.get("big").value() == big);
    CHECK(store.delete_key("big").value());
    CHECK_FALSE(store.delete_key("big").value());
    CHECK(store.add("c", 5).value() == 5);
    CHECK(store.add("c", -7).value() == -2);
    CHECK(store.get("c").value() == "-2");
    CHECK(store.check({"k", "c"}).value());
    CHECK_FALSE(store.check({"k", "nothing"}).value());
    CHECK(store.append("a", "po").has_value());
    CHECK(store.append("a", "tato").has_value());
    CHECK(store.get("a").value() == "potato");
    CHECK(store.multi_set({{"m1", "1"}, {"m2", "22"}}).has_value());
    CHECK(store.multi_get({"m2", "m1", "m2"}).value() == Strings{"22", "1", "22"});
    CHECK(store.multi_get({}).value().empty());
    CHECK(sorted(store.list_keys().value()) == Strings{"a", "c", "k", "m1", "m2"});
    CHECK(store.ping().has_value());
}

void compare_and_set(StoreClient store) {
    CHECK(store.compare_set("s", "", "first").value() == "first");
    CHECK(store.compare_set("s", "wrong", "x").value() == "first");
    CHECK(store.compare_set("s", "first", "second").value() == "second");
    CHECK(store.compare_set("missing", "old", "x").value() == "old");
    CHECK_FALSE(store.check({"missing"}).value());
}

void waits(StoreClient store, StoreClient other) {
    const auto late = store.wait({"late"}, 30ms);
    CHECK(late.error().code == system_code(ETIMEDOUT));
    CHECK(late.error().context == "wait timeout after 30ms, keys: /late");
    CHECK(store.check({"k"}).value());
    CHECK_FALSE(store.wait({"late"}, 0ms).has_value());

    auto waiting = std::async(std::launch::async, [&] { return other.get("late").value(); });
    CHECK(store.set("late", "now").has_value());
    CHECK(waiting.get() == "now");

    auto several = std::async(std::launch::async, [&] {
        return other.multi_get({"w1", "w2"}).value();
    });
    CHECK(store.add("w1", 1).value() == 1);
    CHECK(store.append("w2", "x").has_value());
    CHECK(several.get() == Strings{"1", "x"});
}

void queues(StoreClient store, StoreClient other) {
    CHECK(store.queue_len("q").value() == 0);
    CHECK_FALSE(store.try_queue_pop("q").value().has_value());
    CHECK(store.queue_push("q", "one").has_value());
    CHECK(store.queue_push("q", "").has_value());
    CHECK(store.queue_len("q").value() == 2);
    CHECK(store.check({"q"}).value());
    CHECK(store.queue_pop("q").value() == "one");
    CHECK(store.try_queue_pop("q").value() == "");
    CHECK(store.queue_pop("q", 30ms).error().code == system_code(ETIMEDOUT));

    auto popping = std::async(std::launch::async, [&] { return other.queue_pop("q").value(); });
    CHECK(store.queue_push("q", "later").has_value());
    CHECK(popping.get() == "later");
}

void barriers(StoreClient store, StoreClient other) {
    auto member =
        std::async(std::launch::async, [&] { return other.barrier("bar", 2).has_value(); });
    CHECK(store.barrier("bar", 2).has_value());
    CHECK(member.get());
    const auto alone = store.barrier("lonely", 2, 30ms);
    CHECK(alone.error().context == "barrier timeout after 30ms, key: lonely");
    CHECK(store.barrier("lonely", 2).has_value());  // the cancelled arrival still counts
}

void prefixes(StoreClient store, StoreClient other) {
    const auto mine = store.with_prefix("inner").with_prefix("outer");
    auto copy = mine.clone().value();
    CHECK(copy.set("k", "prefixed").has_value());
    CHECK(copy.get("k").value() == "prefixed");
    CHECK(store.get("inner/outer/k").value() == "prefixed");
    CHECK(copy.list_keys().value() == Strings{"k"});
    auto theirs = other.with_prefix("inner").with_prefix("outer");
    auto member =
        std::async(std::launch::async, [&] { return theirs.barrier("bar", 2).has_value(); });
    CHECK(copy.barrier("bar", 2).has_value());
    CHECK(member.get());
}

void counted_workers(const Endpoint& endpoint) {
    const auto before = connected(endpoint).num_keys().value();
    auto worker = StoreClient::connect({endpoint, 60s, true}).value();
    CHECK(worker.wait_for_workers(1, 60s).has_value());
    CHECK_FALSE(worker.wait_for_workers(1000, 30ms).has_value());
    CHECK(worker.num_keys().value() >= before);
}

}  // namespace

void exercise(const Endpoint& endpoint) {
    const auto store = connected(endpoint);
    const auto other = connected(endpoint);
    keys_and_values(store);
    compare_and_set(store);
    waits(store, other);
    queues(store, other);
    barriers(store, other);
    prefixes(store, other);
    counted_workers(endpoint);
}

}  // namespace ddprun::test
