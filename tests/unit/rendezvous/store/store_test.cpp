// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/store.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/store/store_text.hpp"
#include "rendezvous/wire/encoder.hpp"
#include "rendezvous/wire/reply_decoder.hpp"
#include "rendezvous/wire/text.hpp"
#include "tests/support/samples.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

using namespace ddprun;
using namespace ddprun::wire;
using namespace std::chrono_literals;
using store::Store;

namespace {

using Lines = std::vector<std::string>;

/// A store and its effects, as store_text writes them: `value 1 B -> #2`.
class Story {
public:
    /// The effects of this request.
    Lines say(std::uint64_t from, Request request) {
        return feed(Store::Received{{from}, std::move(request)});
    }
    Lines leave(std::uint64_t client) { return feed(Store::Disconnected{{client}}); }
    Lines pass(Duration time) {
        now_ += time;
        return feed(Store::DeadlinePassed{});
    }

    /// The value of a key as client 99 gets it.
    std::string value_of(const std::string& key) {
        return std::string{answer<Value>(Get{key}).value.view()};
    }

    /// The answer to client 99.
    template <class Answer>
    Answer answer(Request request) {
        std::vector<Store::Effect> effects;
        store.handle(Store::Received{{99}, std::move(request)}, now_, effects);
        return std::get<Answer>(std::get<Store::Reply>(effects.at(0)).reply);
    }

    Store store;

private:
    Lines feed(Store::Event event) {
        std::vector<Store::Effect> effects;
        store.handle(std::move(event), now_, effects);
        Lines lines;
        for (const auto& effect : effects)
            lines.push_back(describe(effect));
        return lines;
    }

    Instant now_{1h};
};

const Lines nothing;

/// The names as a client decodes them, in order.
Lines names_in(const EncodedKeys& keys) {
    ReplyDecoder decoder;
    std::string bytes;
    encode(Reply{keys}, bytes);
    decoder.append(bytes);
    auto names = std::get<Keys>(**decoder.next({Query::list_keys, 0})).keys;
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

TEST_CASE("SET stores, GET answers, a missing key is an empty value") {
    Story story;

    CHECK(story.say(1, Set{"/k", "v"}) == nothing);
    CHECK(story.say(1, Get{"/k"}) == Lines{"value 1 B -> #1"});
    CHECK(story.say(2, Get{"/missing"}) == Lines{"value 0 B -> #2"});
    CHECK(story.say(1, Set{"/k", "longer"}) == nothing);
    CHECK(story.value_of("/k") == "longer");
}

TEST_CASE("ADD counts in decimal text") {
    Story story;

    CHECK(story.say(1, Add{"/c", 2}) == Lines{"number 2 -> #1"});
    CHECK(story.say(1, Add{"/c", -5}) == Lines{"number -3 -> #1"});
    CHECK(story.value_of("/c") == "-3");
}

TEST_CASE("ADD reads numbers as PyTorch does") {
    const auto sum_with_one = [](const std::string& text) {
        Story story;
        story.say(1, Set{"/c", text});
        return story.say(1, Add{"/c", 1}).at(0);
    };

    for (const auto* text : {"5", " 5", "\t\n\v\f\r 5", "+5", "5abc", "5.9", "05"})
        CHECK(sum_with_one(text) == "number 6 -> #1");
    CHECK(sum_with_one("-5") == "number -4 -> #1");
    CHECK(sum_with_one("9223372036854775807") == "number -9223372036854775808 -> #1");
    for (const auto* text : {"", " ", "abc", "+", "-", "+-5", "- 5", "9223372036854775808"})
        CHECK(sum_with_one(text).rfind("close #1: ADD on key \"/c\"", 0) == 0);
}

TEST_CASE("a refused ADD leaves the value as it was") {
    Story story;
    story.say(1, Set{"/c", "words"});

    story.say(1, Add{"/c", 1});

    CHECK(story.value_of("/c") == "words");
}

TEST_CASE("COMPARE_SET wakes a waiter only when it creates the key") {
    Story story;
    story.say(7, Wait{{"/k"}});

    CHECK(story.say(1, CompareSet{"/k", "other", "x"}) == Lines{"value 5 B -> #1"});
    CHECK(
        story.say(1, CompareSet{"/k", "", "x"}) == Lines{"value 1 B -> #1", "stop waiting -> #7"});
    CHECK(story.say(1, CompareSet{"/k", "wrong", "y"}) == Lines{"value 1 B -> #1"});
    CHECK(story.value_of("/k") == "x");
}

TEST_CASE("a waiter is answered once, when its last missing key appears") {
    Story story;

    CHECK(story.say(1, Wait{{"/a", "/b"}}) == nothing);
    CHECK(story.say(2, Set{"/a", "1"}) == nothing);
    CHECK(story.say(2, Set{"/a", "2"}) == nothing);
    CHECK(story.say(2, Set{"/b", "1"}) == Lines{"stop waiting -> #1"});
    CHECK(story.say(2, Set{"/b", "2"}) == nothing);
}

TEST_CASE("every way of writing a key wakes its waiters, in the order in which they came") {
    const Request writes[] = {
        Set{"/k", "v"}, Append{"/k", "v"}, MultiSet{{{"/x", ""}, {"/k", "v"}}}};
    for (const auto& write : writes) {
        Story story;
        for (const auto client : {3, 1, 2})
            story.say(static_cast<std::uint64_t>(client), Wait{{"/k"}});
        CHECK(
            story.say(9, write) ==
            Lines{"stop waiting -> #3", "stop waiting -> #1", "stop waiting -> #2"});
    }
    Story story;
    story.say(1, Wait{{"/k"}});
    CHECK(story.say(9, Add{"/k", 0}) == Lines{"number 0 -> #9", "stop waiting -> #1"});
}

TEST_CASE("a key that existed for a moment since the wait began counts") {
    Story story;
    story.say(1, Wait{{"/a", "/b"}});

    story.say(2, Set{"/a", ""});
    CHECK(story.say(2, DeleteKey{"/a"}) == Lines{"number 1 -> #2"});

    CHECK(story.say(2, Set{"/b", ""}) == Lines{"stop waiting -> #1"});
}

TEST_CASE("all clients that wait for the same key are found, each once") {
    Story story;
    story.say(1, Wait{{"/a", "/b"}});
    story.say(2, Wait{{"/b", "/b"}});
    story.say(3, Wait{{"/a"}});
    story.say(4, Wait{{"/b"}});
    CHECK_FALSE(story.store.waits_like_that_of({9}, 10));

    const auto for_a = story.store.waits_like_that_of({1}, 10);
    REQUIRE(for_a);
    CHECK(for_a->wait.first_missing == "/a");
    CHECK(for_a->wait.missing_count == 2);
    CHECK(for_a->clients == std::vector<ConnectionId>{{1}, {3}});

    story.say(9, Set{"/a", ""});
    const auto for_b = story.store.waits_like_that_of({1}, 2);
    REQUIRE(for_b);
    CHECK(for_b->wait.first_missing == "/b");
    CHECK(for_b->client_count == 3);
    CHECK(for_b->clients == std::vector<ConnectionId>{{1}, {2}});
}

TEST_CASE("a key listed twice is counted twice and given twice") {
    Story story;

    CHECK(story.say(1, Wait{{"/a", "/a"}}) == nothing);

    CHECK(story.say(2, Set{"/a", ""}) == Lines{"stop waiting -> #1"});
}

TEST_CASE("waiting for keys that are there, or for none, ends at once") {
    Story story;
    story.say(2, Set{"/a", ""});

    CHECK(story.say(1, Wait{{"/a"}}) == Lines{"stop waiting -> #1"});
    CHECK(story.say(1, Wait{{}}) == Lines{"stop waiting -> #1"});
    CHECK(story.say(1, Check{{}}) == Lines{"ready -> #1"});
}

TEST_CASE("CANCEL_WAIT is always answered, and nothing follows it") {
    Story story;
    story.say(1, Wait{{"/a"}});

    CHECK(story.say(1, CancelWait{}) == Lines{"wait canceled -> #1"});
    CHECK(story.say(2, Set{"/a", ""}) == nothing);
    CHECK(story.say(1, CancelWait{}) == Lines{"wait canceled -> #1"});
}

TEST_CASE("when a wait ends and is cancelled at once, the end is said first") {
    Story story;
    story.say(1, Wait{{"/a"}});

    CHECK(story.say(2, Set{"/a", ""}) == Lines{"stop waiting -> #1"});
    CHECK(story.say(1, CancelWait{}) == Lines{"wait canceled -> #1"});
}

TEST_CASE("a second wait replaces the first") {
    Story story;
    story.say(1, Wait{{"/a"}});
    story.say(1, Wait{{"/b"}});

    CHECK(story.say(2, Set{"/a", ""}) == nothing);
    CHECK(story.say(2, Set{"/b", ""}) == Lines{"stop waiting -> #1"});
}

TEST_CASE("a client that has left is not answered") {
    Story story;
    story.say(1, Wait{{"/a"}});
    story.say(2, Wait{{"/a"}});

    CHECK(story.leave(1) == nothing);

    CHECK(story.say(3, Set{"/a", ""}) == Lines{"stop waiting -> #2"});
    CHECK(story.store.wait_count() == 0);
}

TEST_CASE("MULTI_SET is stored as a whole before any client is woken") {
    Story story;
    story.say(1, Wait{{"/a"}});

    CHECK(story.say(2, MultiSet{{{"/a", "1"}, {"/b", "2"}}}) == Lines{"stop waiting -> #1"});

    CHECK(story.say(1, MultiGet{{"/b", "/a", "/no"}}) == Lines{"3 values -> #1"});
    CHECK(story.value_of("/b") == "2");
}

TEST_CASE("LIST_KEYS and GETNUMKEYS know keys and no queues") {
    Story story;
    for (const auto* key : {"/b", "init/", "/a"})
        story.say(1, Set{key, ""});
    story.say(1, QueuePush{"/q", ""});

    CHECK(names_in(story.answer<EncodedKeys>(ListKeys{})) == Lines{"/a", "/b", "init/"});
    CHECK(story.say(1, NumKeys{}) == Lines{"number 3 -> #1"});
    CHECK(story.say(1, DeleteKey{"/q"}) == Lines{"number 0 -> #1"});
}

TEST_CASE("the list of all keys is made again only if a key has come or gone") {
    Story story;
    for (int i = 0; i < 100; ++i)
        story.say(1, Set{"/default_pg/" + std::to_string(i), ""});
    const auto first = story.answer<EncodedKeys>(ListKeys{});
    story.say(1, Set{"/default_pg/0", "again"});
    CHECK(story.answer<EncodedKeys>(ListKeys{}).bytes.view().data() == first.bytes.view().data());

    story.say(1, DeleteKey{"/default_pg/99"});
    CHECK(names_in(story.answer<EncodedKeys>(ListKeys{})).size() == 99);
    story.say(1, CompareSet{"/new", "", ""});
    CHECK(names_in(story.answer<EncodedKeys>(ListKeys{})).back() == "/new");
    story.say(1, Add{"/newer", 1});
    CHECK(names_in(story.answer<EncodedKeys>(ListKeys{})).back() == "/newer");
    story.say(1, Append{"/newest", "x"});
    CHECK(names_in(story.answer<EncodedKeys>(ListKeys{})).back() == "/newest");
    CHECK(names_in(first).size() == 100);
}

TEST_CASE("the replies that carry a big value share it with the store") {
    Story story;
    const std::string value(limits::least_shared_bytes, 'v');
    story.say(1, Set{"/big", value});
    story.say(1, QueuePush{"/queue", value});
    const auto got = story.answer<Value>(Get{"/big"}).value;
    const auto all = story.answer<Values>(MultiGet{{"/big", "/no", "/big"}}).values;
    const auto refused = story.answer<Value>(CompareSet{"/big", "other", ""}).value;
    const auto popped = story.answer<Popped>(QueuePop{"/queue"}).value;

    CHECK(all.at(0).view().data() == got.view().data());
    CHECK(all.at(2).view().data() == got.view().data());
    CHECK(refused.view().data() == got.view().data());
    CHECK(popped->is_shared());

    story.say(1, Append{"/big", "+"});
    CHECK(story.value_of("/big") == value + "+");
    story.say(1, Set{"/big", "new"});
    CHECK(got == value);
}

TEST_CASE("a store refuses what would make it hold more than its bound") {
    Story story;
    story.store = Store{100'000};
    const std::string half(50'000, 'v');
    CHECK(story.say(1, Set{"/a", half}) == nothing);
    const Lines refused{
        "close #2: SET needs 50162 bytes more than the 50162 in the store; it holds at most "
        "100000"};
    CHECK(story.say(2, Set{"/b", half}) == refused);
    CHECK(story.value_of("/b").empty());

    // An existing value may change.
    CHECK(story.say(1, Set{"/a", std::string(50'000, 'w')}) == nothing);
    CHECK(story.say(1, Add{"/count", 1}) == Lines{"number 1 -> #1"});
    CHECK(story.say(3, Append{"/a", half}).size() == 1);
    CHECK(story.say(3, MultiSet{{{"/b", ""}, {"/c", half}}}).size() == 1);
    CHECK(story.say(3, QueuePush{"/q", half}).size() == 1);
    CHECK(story.say(3, CompareSet{"/b", "", half}).size() == 1);
    CHECK(story.store.key_count() == 2);

    CHECK(story.say(1, DeleteKey{"/a"}) == Lines{"number 1 -> #1"});
    CHECK(story.say(2, Set{"/b", half}) == nothing);
}

TEST_CASE("a value that replies still carry takes room besides the one that replaces it") {
    Story story;
    story.store = Store{100'000};
    const std::string half(50'000, 'v');
    story.say(1, Set{"/a", half});
    {
        const auto unread = story.answer<Value>(Get{"/a"});
        CHECK(story.say(1, Set{"/a", half}).size() == 1);
        CHECK(story.say(1, CompareSet{"/a", half, half}).size() == 1);
        CHECK(story.store.data_bytes() <= 100'000);
    }
    CHECK(story.say(1, Set{"/a", half}) == nothing);
}

TEST_CASE("a value that grows takes room besides what it grows from") {
    Story story;
    story.store = Store{100'000};
    story.say(1, Set{"/a", std::string(50'000, 'v')});
    CHECK(story.say(1, Append{"/a", "+"}).size() == 1);
    story.say(1, Set{"/a", std::string(40'000, 'v')});
    CHECK(story.say(1, Append{"/a", "+"}) == nothing);
    CHECK(story.store.data_bytes() >= 50'000);
    // Now there is room after it.
    CHECK(story.say(1, Append{"/a", std::string(9'000, '+')}) == nothing);

    story.store = Store{2'000};
    story.say(1, Set{"/small", std::string(900, 'v')});
    CHECK(story.say(1, Append{"/small", "+"}).size() == 1);
}

TEST_CASE("a value that has become shorter counts with the memory that it keeps") {
    Story story;
    story.say(1, Set{"/a", std::string(1'000, 'v')});
    story.say(1, Set{"/a", "v"});
    CHECK(story.store.data_bytes() > 1'000);
    story.say(1, DeleteKey{"/a"});
    CHECK(story.store.data_bytes() == 0);
}

TEST_CASE("a store that is full answers a COMPARE_SET that stores nothing") {
    Story story;
    story.store = Store{1'000};
    story.say(1, Set{"/a", std::string(700, 'v')});
    const std::string desired(900, 'd');
    CHECK(story.say(1, CompareSet{"/a", "other", desired}).front().starts_with("value"));
    CHECK(story.say(1, CompareSet{"/b", "other", desired}).front().starts_with("value"));
    CHECK(story.say(1, CompareSet{"/b", "", desired}).front().starts_with("close"));
}

TEST_CASE("the place of each key counts in what a MULTI_SET needs") {
    Story story;
    story.store = Store{100'000};
    MultiSet request;
    for (int i = 0; i < 1'000; ++i)
        request.pairs.push_back({"/" + std::to_string(i), ""});
    CHECK(story.say(1, request).front().starts_with("close #1: MULTI_SET needs 16"));
    CHECK(story.store.key_count() == 0);
}

TEST_CASE("what a store holds is counted, and nothing is left of what is gone") {
    Story story;
    const std::string big(limits::least_shared_bytes, 'v');
    for (const auto& value : {std::string{"small"}, big}) {
        story.say(1, Set{"/k", value});
        story.say(1, Set{"/k", value + value});
        story.say(1, Append{"/k", value});
        story.say(1, Append{"/appended", value});
        story.say(1, CompareSet{"/new", "", value});
        story.say(1, CompareSet{"/new", value, big});
        story.say(1, QueuePush{"/q", value});
        story.say(1, QueuePush{"/q", big});
        story.say(1, QueuePush{"/other", value});
    }
    story.say(1, Add{"/count", 9});
    story.say(1, Add{"/count", 1});
    story.say(1, ListKeys{});
    CHECK(story.store.data_bytes() > 8 * big.size());

    for (const auto* key : {"/k", "/appended", "/new", "/count"})
        story.say(1, DeleteKey{key});
    for (int i = 0; i < 4; ++i)
        story.say(1, QueuePop{"/q"});
    for (int i = 0; i < 2; ++i)
        story.say(1, QueuePop{"/other"});
    CHECK(story.store.data_bytes() == 0);
}

TEST_CASE("what waits hold is counted, and nothing is left of a wait that has ended") {
    Story story;
    story.say(1, Wait{{"/a", "/b", "/a"}});
    const auto one = story.store.wait_bytes();
    story.say(2, Wait{{"/a", "/b"}});
    CHECK(story.store.wait_bytes() - one < one);
    CHECK(story.store.wait_bytes({2}) > story.store.wait_bytes() - one);
    story.say(3, Barrier{"/barrier", 2});
    story.say(4, Wait{{"/queue"}});

    story.say(5, MultiSet{{{"/a", ""}, {"/b", ""}}});
    story.say(5, QueuePush{"/queue", ""});
    story.leave(3);
    CHECK(story.store.wait_count() == 0);
    CHECK(story.store.wait_bytes() == 0);
    CHECK(story.store.wait_bytes({1}) == 0);
}

TEST_CASE("a queue gives back what was pushed, first in first out") {
    Story story;
    story.say(1, QueuePush{"/q", "a"});
    story.say(1, QueuePush{"/q", ""});

    CHECK(story.say(2, QueueLen{"/q"}) == Lines{"number 2 -> #2"});
    CHECK(story.say(2, QueuePop{"/q"}) == Lines{"popped 1 B of 2 -> #2"});
    CHECK(story.say(2, QueuePop{"/q"}) == Lines{"popped 0 B of 1 -> #2"});
    CHECK(story.say(2, QueuePop{"/q"}) == Lines{"popped nothing of 0 -> #2"});
    CHECK(story.say(2, Check{{"/q"}}) == Lines{"not ready -> #2"});
}

TEST_CASE("a push wakes one waiter, and its element is kept for that one") {
    Story story;
    story.say(1, Wait{{"/q"}});
    story.say(2, Wait{{"/q"}});

    CHECK(story.say(3, QueuePush{"/q", "a"}) == Lines{"stop waiting -> #1"});
    CHECK(story.say(4, QueuePop{"/q"}) == Lines{"popped nothing of 0 -> #4"});
    CHECK(story.say(4, QueueLen{"/q"}) == Lines{"number 0 -> #4"});
    CHECK(story.say(4, Check{{"/q"}}) == Lines{"not ready -> #4"});

    CHECK(story.say(1, QueuePop{"/q"}) == Lines{"popped 1 B of 1 -> #1"});
    CHECK(story.store.wait_count() == 1);
    CHECK(story.store.next_deadline() == std::nullopt);
}

TEST_CASE("two poppers that find one element do not both get through their wait") {
    Story story;
    story.say(3, QueuePush{"/q", "a"});

    CHECK(story.say(1, Wait{{"/q"}}) == Lines{"stop waiting -> #1"});
    CHECK(story.say(2, Wait{{"/q"}}) == nothing);

    CHECK(story.say(1, QueuePop{"/q"}) == Lines{"popped 1 B of 1 -> #1"});
    CHECK(story.say(3, QueuePush{"/q", "b"}) == Lines{"stop waiting -> #2"});
}

TEST_CASE(
    "an element is given to the next waiter when the first one leaves or does something else") {
    Story story;
    for (const std::uint64_t client : {1U, 2U, 3U})
        story.say(client, Wait{{"/q"}});
    story.say(9, QueuePush{"/q", "a"});

    CHECK(story.leave(1) == Lines{"stop waiting -> #2"});
    CHECK(story.say(2, CancelWait{}) == Lines{"stop waiting -> #3", "wait canceled -> #2"});
    CHECK(story.say(3, QueuePop{"/q"}) == Lines{"popped 1 B of 1 -> #3"});
}

TEST_CASE("an element that is not fetched is free again after a while") {
    Story story;
    story.say(1, Wait{{"/q"}});
    story.say(2, Wait{{"/q"}});
    story.say(9, QueuePush{"/q", "a"});

    CHECK(story.pass(limits::queue_reservation - 1ms) == nothing);
    CHECK(story.pass(1ms) == Lines{"stop waiting -> #2"});
    CHECK(story.pass(limits::queue_reservation) == nothing);
    CHECK(story.store.next_deadline() == std::nullopt);
    CHECK(story.say(1, QueuePop{"/q"}) == Lines{"popped 1 B of 1 -> #1"});
}

TEST_CASE("a client that was woken by a queue once is not woken by it again") {
    // PyTorch's server leaves it registered: a later push would end its wait for something else.
    Story story;
    story.say(1, Wait{{"/q"}});
    story.say(2, QueuePush{"/q", "a"});
    story.say(1, QueuePop{"/q"});

    story.say(1, Wait{{"/k"}});

    CHECK(story.say(2, QueuePush{"/q", "b"}) == nothing);
    CHECK(story.say(2, Set{"/k", ""}) == Lines{"stop waiting -> #1"});
}

TEST_CASE("a queue that is not empty counts at once in a wait for several names") {
    Story story;
    story.say(2, QueuePush{"/q", "a"});

    CHECK(story.say(1, Wait{{"/k", "/q"}}) == nothing);

    CHECK(story.say(2, Set{"/k", ""}) == Lines{"stop waiting -> #1"});
}

TEST_CASE("a wait for several names takes no element away from a popper") {
    Story story;
    story.say(1, Wait{{"/q", "/k"}});
    story.say(2, Wait{{"/q"}});

    CHECK(story.say(9, QueuePush{"/q", "a"}) == Lines{"stop waiting -> #2"});
    CHECK(story.say(2, QueuePop{"/q"}) == Lines{"popped 1 B of 1 -> #2"});
    CHECK(story.say(9, Set{"/k", ""}) == Lines{"stop waiting -> #1"});
}

TEST_CASE("a barrier ends for all clients when the last one comes") {
    Story story;

    CHECK(story.say(1, Barrier{"/b", 3}) == nothing);
    CHECK(story.say(2, Barrier{"/b", 3}) == nothing);
    CHECK(
        story.say(3, Barrier{"/b", 3}) ==
        Lines{"stop waiting -> #3", "stop waiting -> #1", "stop waiting -> #2"});
    CHECK(story.value_of("/b") == "3");
    CHECK(story.say(4, Barrier{"/b", 3}) == Lines{"stop waiting -> #4"});
}

TEST_CASE("a barrier of one or fewer ends at once") {
    Story story;
    for (const int size : {1, 0, -1})
        CHECK(
            story.say(1, Barrier{"/b" + std::to_string(size), size}) ==
            Lines{"stop waiting -> #1"});
}

TEST_CASE("a cancelled arrival at a barrier stays counted") {
    Story story;
    story.say(1, Barrier{"/b", 2});
    story.say(1, CancelWait{});

    CHECK(story.say(2, Barrier{"/b", 2}) == Lines{"stop waiting -> #2"});
}

TEST_CASE("writing a barrier's key lets its waiters through, its own counting does not") {
    Story story;
    story.say(9, Wait{{"/b"}});
    CHECK(story.say(1, Barrier{"/b", 4}) == Lines{"stop waiting -> #9"});
    CHECK(story.say(2, Barrier{"/b", 4}) == nothing);
    CHECK(story.say(9, Wait{{"/b"}}) == Lines{"stop waiting -> #9"});

    CHECK(story.say(9, Set{"/b", "0"}) == Lines{"stop waiting -> #1", "stop waiting -> #2"});
}

TEST_CASE("a push lets no client through a barrier") {
    Story story;
    story.say(1, Barrier{"/b", 2});

    CHECK(story.say(2, QueuePush{"/b", "x"}) == nothing);
}

TEST_CASE("a barrier on a key that is no number is refused") {
    Story story;
    story.say(1, Set{"/b", "words"});

    CHECK(story.say(1, Barrier{"/b", 2}).at(0).rfind("close #1: BARRIER", 0) == 0);
}

TEST_CASE("PING is echoed, and VALIDATE needs no answer") {
    Story story;

    CHECK(story.say(1, Validate{}) == nothing);
    CHECK(story.say(1, Ping{4242}) == Lines{"pong 4242 -> #1"});
}

TEST_CASE("the store lists which client waits for what, longest first") {
    Story story;
    story.say(2, Wait{{"/a", "/b"}});
    story.say(1, Barrier{"/bar", 2});
    story.say(9, Set{"/a", ""});

    const auto waits = story.store.waits(10);

    REQUIRE(waits.size() == 2);
    CHECK(waits[0].client == ConnectionId{2});
    CHECK(waits[0].first_missing == "/b");
    CHECK(waits[0].missing_count == 1);
    CHECK(waits[1].client == ConnectionId{1});
    CHECK(story.store.waits(1).size() == 1);
}

TEST_CASE("ten thousand waiters on one key are dropped and woken without looking at each other") {
    Story story;
    const std::uint64_t count = 10'000;
    for (std::uint64_t client = 1; client <= 2 * count; ++client)
        story.say(client, Wait{{"/k", "/l"}});
    for (std::uint64_t client = 1; client <= count; ++client)
        story.leave(client);

    CHECK(story.say(99'999, Set{"/k", ""}) == nothing);
    CHECK(story.say(99'999, Set{"/l", ""}).size() == count);
}

TEST_CASE("waits and barriers on one key end in the order in which they began") {
    Story story;
    story.say(1, Barrier{"/k", 9});
    story.say(9, DeleteKey{"/k"});
    story.say(2, Wait{{"/k"}});
    story.say(3, Wait{{"/k", "/l"}});

    CHECK(story.say(9, Set{"/l", ""}) == nothing);
    CHECK(
        story.say(9, Set{"/k", ""}) == Lines{
                                           "stop waiting -> #1",
                                           "stop waiting -> #2",
                                           "stop waiting -> #3",
                                       });
}

TEST_CASE("an arrival at a barrier passes no client that waits in it") {
    Story story;
    const std::uint64_t count = 20'000;
    // If each arrival examined all earlier ones, this would take minutes with a sanitizer.
    for (std::uint64_t client = 1; client < count; ++client)
        story.say(client, Barrier{"/bar", static_cast<std::int64_t>(count)});

    CHECK(story.say(count, Barrier{"/bar", static_cast<std::int64_t>(count)}).size() == count);
}

TEST_CASE("every event is answered in every state of a client") {
    // States: fresh, waiting for a key, waiting for a queue, in a barrier, holding a queue element.
    const std::vector<std::vector<Request>> ways_there{
        {},
        {Wait{{"/a", "/b"}}},
        {Wait{{"/q"}}},
        {Barrier{"/bar", 3}},
        {QueuePush{"/q", "x"}, Wait{{"/q"}}},
    };
    for (const auto& way : ways_there) {
        for (auto request : test::sample_requests()) {
            CAPTURE(wire::describe(request));
            Story story;
            for (const auto& step : way)
                story.say(1, step);
            const bool is_waiting = story.store.wait_count() > 0;

            const auto said = story.say(1, request);

            // At most one reply; any other effect ends a wait of this only client.
            const bool has_reply = wire::awaited_reply(request).has_value();
            const bool may_wait =
                std::holds_alternative<Wait>(request) || std::holds_alternative<Barrier>(request);
            CHECK(said.size() <= (has_reply ? 1U : 0U) + (is_waiting ? 1U : 0U));
            if (has_reply && !may_wait) CHECK(said.size() >= 1);
            for (const auto& line : said)
                CHECK(line.find("#1") != std::string::npos);

            story.leave(1);
            story.pass(limits::queue_reservation);
            CHECK(story.store.wait_count() == 0);
            CHECK(story.store.next_deadline() == std::nullopt);
        }
        Story story;
        for (const auto& step : way)
            story.say(1, step);
        CHECK(story.pass(0s) == nothing);
        CHECK(story.leave(1) == nothing);
        CHECK(story.leave(1) == nothing);
    }
}

TEST_CASE("a MULTI_GET whose reply would be longer than any request is refused") {
    Story story;
    story.say(1, Set{"/big", std::string(limits::max_value_bytes, 'x')});
    const auto most = limits::max_request_bytes / limits::max_value_bytes;

    CHECK(
        story.say(1, MultiGet{std::vector<std::string>(most + 1, "/big")}) ==
        Lines{"close #1: MULTI_GET of 33 keys: its reply would have 276824064 bytes"});
}
