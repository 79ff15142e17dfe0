// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/leader_lease.hpp"

#include "rendezvous/witness/etcd_gateway.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::witness;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

namespace {

const etcd::Keys keys = etcd::keys_of("/ddprun/", "job");

/// Answers as etcd 3.4 writes them.
const std::string header =
    R"("header":{"cluster_id":"1","member_id":"2","revision":"9","raft_term":"3"})";
const std::string no_keys =
    "{" + header +
    R"(,"succeeded":true,"responses":[{"response_range":{"header":{"revision":"9"}}},{"response_range":{"header":{"revision":"9"}}}]})";
/// epoch 7
const std::string only_epoch =
    "{" + header +
    R"(,"succeeded":true,"responses":[{"response_range":{}},{"response_range":{"kvs":[{"key":"L2RkcnVuL2pvYi9lcG9jaA==","create_revision":"4","mod_revision":"8","version":"1","value":"Nw=="}],"count":"1"}}]})";
/// {"endpoint":"b:20001","nonce":"bb","epoch":"7"}
std::string led(const std::string& value) {
    return "{" + header +
           R"(,"responses":[{"response_range":{"kvs":[{"key":"L2RkcnVuL2pvYi9sZWFkZXI=","create_revision":"8","mod_revision":"8","version":"1","value":")" +
           value +
           R"(","lease":"77"}],"count":"1"}},{"response_range":{"kvs":[{"key":"L2RkcnVuL2pvYi9lcG9jaA==","mod_revision":"8","value":"Nw=="}]}}]})";
}
const std::string led_by_b =
    led("eyJlbmRwb2ludCI6ImI6MjAwMDEiLCJub25jZSI6ImJiIiwiZXBvY2giOiI3In0=");
/// {"endpoint":"a:20001","nonce":"aa","epoch":"7"}
const std::string led_by_itself =
    led("eyJlbmRwb2ludCI6ImE6MjAwMDEiLCJub25jZSI6ImFhIiwiZXBvY2giOiI3In0=");
const std::string granted = "{" + header + R"(,"ID":"55","TTL":"10"})";
const std::string won =
    "{" + header +
    R"(,"succeeded":true,"responses":[{"response_put":{}},{"response_put":{}},{"response_range":{}}]})";
/// With the record of an earlier leader: "it ended"
const std::string won_after_an_end =
    "{" + header +
    R"(,"succeeded":true,"responses":[{"response_put":{}},{"response_put":{}},{"response_range":{"kvs":[{"key":"L2RkcnVuL2pvYi9lbmRlZA==","value":"aXQgZW5kZWQ="}],"count":"1"}}]})";
/// The answer to a transaction whose comparison succeeded, or failed.
const std::string recorded =
    "{" + header + R"(,"succeeded":true,"responses":[{"response_put":{}}]})";
const std::string not_recorded = "{" + header + "}";
const std::string kept = R"({"result":{)" + header +
                         R"(,"ID":"55","TTL":"10"}})"
                         "\n";
const std::string expired = R"({"result":{)" + header + R"(,"ID":"55"}})";

struct Story {
    LeaderLease machine{{"etcd", "aa", 10s}};
    Instant now{};
    std::vector<LeaderLease::Effect> out;
    int request = 0;
    LeaseRequest asked = ReadRecord{};

    void handle(LeaderLease::Event event) {
        out.clear();
        machine.handle(std::move(event), now, out);
        for (const auto& effect : out)
            if (const auto* ask = std::get_if<LeaderLease::Ask>(&effect)) {
                request = ask->request;
                asked = ask->what;
            }
    }
    /// As etcd writes it.
    void answer(const Result<std::string>& body) {
        handle(
            LeaderLease::Answered{request, body ? etcd::read_answer(asked, *body) : body.error()});
    }
    void fails() { answer(Failure{system_code(EHOSTUNREACH), "etcd is away"}); }
    void seek() { handle(LeaderLease::Sought{}); }
    /// Proceeds until its server is open.
    void open(const std::string& record) {
        seek();
        answer(record);
        REQUIRE(got<LeaderLease::OpenServer>());
        handle(LeaderLease::ServerOpened{std::string{"a:20001"}});
    }
    void lead(const std::string& record = no_keys) {
        open(record);
        answer(granted);
        answer(won);
        REQUIRE(machine.is_leading());
    }
    void pass_to_deadline() {
        REQUIRE(machine.next_deadline());
        now = *machine.next_deadline();
        handle(LeaderLease::DeadlinePassed{});
    }
    template <class Effect>
    const Effect* got() const {
        for (const auto& effect : out)
            if (const auto* found = std::get_if<Effect>(&effect)) return found;
        return nullptr;
    }
    std::string path() const {
        const auto* ask = got<LeaderLease::Ask>();
        return ask ? etcd::write(keys, ask->what).path : "";
    }
};

}  // namespace

TEST_CASE("a node finds the leader by its key") {
    Story story;
    story.seek();
    CHECK(story.path() == "/v3/kv/txn");
    story.answer(led_by_b);
    REQUIRE(story.got<LeaderLease::Found>());
    CHECK(story.got<LeaderLease::Found>()->leader == Leader{"b:20001", "bb", 7});
}

TEST_CASE("the leader whose connection has just ended is tried before etcd is asked") {
    Story story;
    // It does not know any leader yet.
    story.handle(LeaderLease::Sought{true});
    CHECK(story.path() == "/v3/kv/txn");
    story.answer(led_by_b);

    story.handle(LeaderLease::Sought{true});
    CHECK(story.path().empty());
    REQUIRE(story.got<LeaderLease::Found>());
    CHECK(story.got<LeaderLease::Found>()->leader == Leader{"b:20001", "bb", 7});
    // The leader was not reachable.
    story.handle(LeaderLease::Sought{false});
    CHECK(story.path() == "/v3/kv/txn");
}

TEST_CASE("where there is none it is a candidate, with an epoch above every one before") {
    Story story;
    SUBCASE("the first of all") {
        story.lead();
        CHECK(*story.got<LeaderLease::Elected>() == LeaderLease::Elected{1, Instant{} + 8s, false});
    }
    SUBCASE("after one that is gone") {
        story.lead(only_epoch);
        CHECK(*story.got<LeaderLease::Elected>() == LeaderLease::Elected{8, Instant{} + 8s, true});
    }
    SUBCASE("after one that etcd has forgotten") {
        story.seek();
        story.answer(led_by_b);
        story.lead();
        CHECK(story.got<LeaderLease::Elected>()->epoch == 8);
        CHECK(story.got<LeaderLease::Elected>()->led_before);
    }
    SUBCASE("after one that only another node knows of") {
        story.lead();
        story.handle(LeaderLease::SteppedDown{1, 20});
        CHECK(story.path() == "/v3/lease/revoke");
        story.answer("{}");
        story.lead();
        CHECK(story.got<LeaderLease::Elected>()->epoch == 21);
    }
}

TEST_CASE("the right counts from the sending of what was answered") {
    Story story;
    story.open(no_keys);
    story.now += 1s;
    story.answer(granted);
    story.now += 1s;
    story.answer(won);
    CHECK(story.got<LeaderLease::Elected>()->until == Instant{} + 8s);

    story.pass_to_deadline();
    CHECK(story.path() == "/v3/lease/keepalive");
    const auto sent_at = story.now;
    story.now += 1s;
    story.answer(kept);
    CHECK(*story.got<LeaderLease::Extended>() == LeaderLease::Extended{1, sent_at + 8s});
}

TEST_CASE("a campaign that took longer than the right lasts wins nothing") {
    Story story;
    story.open(no_keys);
    story.now += 4s;
    story.answer(granted);
    story.now += 4s;
    story.answer(won);
    CHECK_FALSE(story.machine.is_leading());
    CHECK(story.got<LeaderLease::NotFound>());
    CHECK(story.path() == "/v3/lease/revoke");
}

TEST_CASE("a leader that etcd does not confirm leads for 0.8 of the TTL") {
    Story story;
    story.lead();
    while (story.machine.is_leading()) {
        story.pass_to_deadline();
        if (story.got<LeaderLease::Ask>()) story.fails();
        REQUIRE(story.now <= Instant{} + 8s);
    }
    CHECK(story.now == Instant{} + 8s);
}

TEST_CASE("a leader whose lease has ended leads no more") {
    Story story;
    story.lead();
    story.pass_to_deadline();
    story.answer(expired);
    CHECK(story.got<LeaderLease::Deposed>());
    CHECK_FALSE(story.machine.is_leading());
}

TEST_CASE("the end of an earlier leadership, heard late, does not end the one that holds") {
    Story story;
    story.lead(only_epoch);
    story.handle(LeaderLease::SteppedDown{7, 0});
    CHECK(story.machine.is_leading());
    CHECK(story.out.empty());
}

TEST_CASE("epochs never begin again from below") {
    Story story;
    story.lead();
    story.handle(LeaderLease::SteppedDown{1, std::numeric_limits<std::uint64_t>::max()});
    story.answer("{}");
    story.open(no_keys);
    story.answer(granted);
    REQUIRE(story.got<LeaderLease::NotFound>());
    CHECK(story.got<LeaderLease::NotFound>()->reason.starts_with("no epoch is left"));
}

TEST_CASE("what may have been done without an answer is withdrawn") {
    Story story;
    SUBCASE("at once") {
        story.open(no_keys);
        story.answer(granted);
        story.fails();
        CHECK(story.got<LeaderLease::NotFound>());
    }
    SUBCASE("when it is found") {
        story.seek();
        story.answer(led_by_itself);
        CHECK(story.got<LeaderLease::NotFound>());
    }
    CHECK(story.path() == "/v3/lease/revoke");
    story.seek();
    CHECK(story.got<LeaderLease::NotFound>());
}

TEST_CASE("a leader learns how jobs before have ended, at the moment at which it wins") {
    Story story;
    story.open(only_epoch);
    story.answer(granted);
    story.answer(won_after_an_end);
    REQUIRE(story.got<LeaderLease::Elected>());
    CHECK(story.got<LeaderLease::Elected>()->ends == "it ended");
}

TEST_CASE("an end is recorded under a lease of its own, while the key is the leader's own") {
    Story story;
    story.lead();
    story.handle(LeaderLease::EndDecided{1, 4, "ends"});
    CHECK(story.path() == "/v3/lease/grant");
    story.answer(granted);
    CHECK(story.path() == "/v3/kv/txn");

    SUBCASE("it is") {
        story.answer(recorded);
        REQUIRE(story.got<LeaderLease::Recorded>());
        CHECK(story.got<LeaderLease::Recorded>()->number == 4);
        CHECK(story.machine.is_leading());
    }
    SUBCASE("another one has the key: it is recorded by none") {
        story.answer(not_recorded);
        CHECK_FALSE(story.got<LeaderLease::Recorded>());
        CHECK(story.got<LeaderLease::Deposed>());
        CHECK_FALSE(story.machine.is_leading());
    }
    SUBCASE("without an answer it is asked again, and the leadership is kept meanwhile") {
        story.fails();
        CHECK_FALSE(story.got<LeaderLease::Recorded>());
        story.pass_to_deadline();
        CHECK(story.path() == "/v3/kv/txn");
        story.answer(recorded);
        CHECK(story.got<LeaderLease::Recorded>());
    }
    SUBCASE("another end comes meanwhile: that one has the first in it") {
        story.handle(LeaderLease::EndDecided{1, 5, "both ends"});
        story.answer(recorded);
        CHECK_FALSE(story.got<LeaderLease::Recorded>());
        CHECK(story.path() == "/v3/lease/grant");
        story.answer(granted);
        story.answer(recorded);
        REQUIRE(story.got<LeaderLease::Recorded>());
        CHECK(story.got<LeaderLease::Recorded>()->number == 5);
    }
}

TEST_CASE("an end of an earlier leadership of this node is not recorded") {
    Story story;
    story.lead(only_epoch);
    story.handle(LeaderLease::EndDecided{7, 1, "ends"});
    CHECK(story.out.empty());
}

TEST_CASE("time for more goes before the record of an end") {
    Story story;
    story.lead();
    story.handle(LeaderLease::EndDecided{1, 1, "ends"});
    story.now += 4s;
    story.fails();
    CHECK(story.path() == "/v3/lease/keepalive");
    story.answer(kept);
    CHECK(story.got<LeaderLease::Extended>());
    story.pass_to_deadline();
    CHECK(story.path() == "/v3/lease/grant");
}

TEST_CASE("of two candidates the one that comes second follows the first") {
    Story story;
    story.open(no_keys);
    story.answer(granted);
    story.answer(led_by_b);
    REQUIRE(story.got<LeaderLease::Found>());
    CHECK(story.got<LeaderLease::Found>()->leader.endpoint == "b:20001");
}

TEST_CASE("a campaign that a second member finds done already is no other's") {
    Story story;
    story.open(no_keys);
    story.answer(granted);
    story.answer(led_by_itself);
    CHECK_FALSE(story.got<LeaderLease::Found>());
    CHECK(story.got<LeaderLease::NotFound>());
    CHECK(story.path() == "/v3/lease/revoke");
}

TEST_CASE("a question that is not answered at all counts as failed after five seconds") {
    Story story;
    story.seek();
    CHECK(story.machine.next_deadline() == Instant{} + 5s);
    story.pass_to_deadline();
    CHECK(story.got<LeaderLease::NotFound>()->reason == "etcd does not answer");
    story.answer(led_by_b);
    CHECK(story.out.empty());
}

TEST_CASE("what is no answer of etcd is said, and decides nothing") {
    for (const std::string body :
         {"<html>502 Bad Gateway</html>",
          "[]",
          "{}",
          "{\"responses\":7}",
          "null",
          R"({"responses":[{"response_range":{"kvs":[{"value":"!!"}]}},{"response_range":{}}]})",
          R"({"responses":[{"response_range":{"kvs":7}},{"response_range":{}}]})"}) {
        CAPTURE(body);
        Story story;
        story.seek();
        story.answer(body);
        CHECK(story.got<LeaderLease::NotFound>());
    }
    for (const std::string body :
         {R"({"ID":"55","TTL":"0"})", R"({"ID":55.5,"TTL":"10"})", R"({"TTL":"10"})", "<html>"}) {
        CAPTURE(body);
        Story story;
        story.open(no_keys);
        story.answer(body);
        CHECK(story.got<LeaderLease::NotFound>());
    }
}

TEST_CASE("a node that leaves gives its key back, and all of it when the job is over") {
    Story story;
    SUBCASE("the job is over") {
        story.lead();
        story.handle(LeaderLease::Left{true});
        CHECK(story.path() == "/v3/kv/txn");
        story.answer("{}");
    }
    SUBCASE("after its server has stepped down") {
        story.lead();
        story.handle(LeaderLease::SteppedDown{1, 0});
        CHECK(story.path() == "/v3/lease/revoke");
        story.handle(LeaderLease::Left{false});
        CHECK_FALSE(story.got<LeaderLease::Released>());
        story.fails();
    }
    SUBCASE("it has none") {
        story.handle(LeaderLease::Left{false});
    }
    CHECK(story.got<LeaderLease::Released>());
    story.seek();
    CHECK(story.out.empty());
}

TEST_CASE("a node that leaves while it campaigns takes back what etcd may grant it yet") {
    Story story;
    story.open(no_keys);
    story.answer(granted);
    story.handle(LeaderLease::Left{false});
    CHECK(story.path() == "/v3/lease/revoke");
    CHECK_FALSE(story.got<LeaderLease::Released>());
    story.answer(std::string{"{}"});
    CHECK(story.got<LeaderLease::Released>());
}

TEST_CASE("every event of the lease is defined in every state") {
    const std::vector<void (*)(Story&)> states{
        [](Story&) {},
        [](Story& story) { story.seek(); },
        [](Story& story) {
            story.seek();
            story.answer(no_keys);
        },
        [](Story& story) { story.open(no_keys); },
        [](Story& story) {
            story.open(no_keys);
            story.answer(granted);
        },
        [](Story& story) { story.lead(); },
        [](Story& story) {
            story.lead();
            story.handle(LeaderLease::EndDecided{1, 1, "ends"});
        },
        [](Story& story) {
            story.lead();
            story.handle(LeaderLease::EndDecided{1, 1, "ends"});
            story.answer(granted);
        },
        [](Story& story) {
            story.lead();
            story.handle(LeaderLease::SteppedDown{1, 2});
        },
        [](Story& story) {
            story.lead();
            story.handle(LeaderLease::Left{true});
        },
        [](Story& story) { story.handle(LeaderLease::Left{false}); },
    };
    for (const auto& reach : states)
        for (int event = 0; event < 8; ++event) {
            Story story;
            reach(story);
            switch (event) {
                case 0: story.seek(); break;
                case 1: story.answer(no_keys); break;
                case 2: story.fails(); break;
                case 3: story.handle(LeaderLease::ServerOpened{std::string{"a:1"}}); break;
                case 4: story.handle(LeaderLease::SteppedDown{1, 9}); break;
                case 5: story.handle(LeaderLease::Left{false}); break;
                case 6: story.handle(LeaderLease::EndDecided{1, 2, "ends"}); break;
                default: story.now += 3600s; story.handle(LeaderLease::DeadlinePassed{});
            }
            // One request at a time, and none without a time limit.
            if (story.got<LeaderLease::Ask>()) CHECK(story.machine.next_deadline() > story.now);
        }
}
