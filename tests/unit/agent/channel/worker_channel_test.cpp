// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/worker_channel.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/supervise/machine_story.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::channel;
using namespace std::chrono_literals;

namespace {

using W = WorkerChannel;
using Lines = std::vector<std::string>;

/// A node of the user 1000 with two workers, whose tokens are aaa and bbb.
struct Story : test::LineStory<W> {
    Story() : LineStory{W{1000}} { is(W::RoundBegan{{"aaa", "bbb"}}); }

    Lines comes(int caller, int pid = 50, unsigned user = 1000) {
        return is(W::Connected{caller, {pid, user}});
    }
    Lines says(int caller, const std::string& bytes) { return is(W::Received{caller, bytes}); }
    Lines greets(int caller, const std::string& token, int pid = 50) {
        return says(caller, "ddprun-worker/1 " + token + ' ' + std::to_string(pid) + " c\n");
    }
    Lines attaches(int caller, const std::string& token, int pid = 50) {
        comes(caller, pid);
        return greets(caller, token, pid);
    }
};

}  // namespace

TEST_CASE("the process that shows a token gets the page of its worker") {
    Story story;
    CHECK(story.comes(1).empty());
    CHECK(story.says(1, "ddprun-worker/1 bb").empty());
    CHECK(story.says(1, "b 50 python\n") == Lines{"give page caller=1 local_rank=1"});
    CHECK(story.attaches(2, "aaa", 51) == Lines{"give page caller=2 local_rank=0"});
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("two libraries of one process have the same page, a second process has none") {
    Story story;
    story.attaches(1, "aaa", 50);
    CHECK(story.attaches(2, "aaa", 50) == Lines{"give page caller=2 local_rank=0"});
    CHECK(story.attaches(3, "aaa", 51) == Lines{"note refused: busy", "refuse caller=3: busy"});

    story.is(W::Closed{1});
    CHECK(story.attaches(4, "aaa", 51) == Lines{"refuse caller=4: busy"});
    story.is(W::Closed{2});
    CHECK(story.attaches(5, "aaa", 51) == Lines{"give page caller=5 local_rank=0 of a new owner"});
    CHECK(story.attaches(6, "aaa", 51) == Lines{"give page caller=6 local_rank=0"});
    story.is(W::RoundBegan{{"aaa"}});
    CHECK(story.attaches(7, "aaa", 52) == Lines{"give page caller=7 local_rank=0"});
}

TEST_CASE(
    "a worker that can be held keeps its connection, its token and its page over the end of a "
    "round") {
    Story story;
    story.attaches(1, "aaa", 50);
    story.attaches(2, "bbb", 51);
    CHECK(story.says(1, "recover").empty());
    CHECK(
        story.says(1, "able\nholding 0 none dirty\n") ==
        Lines{"recoverable local_rank=0", "held local_rank=0 round=0"});
    // Another library of the process cannot ask for the same.
    story.attaches(3, "aaa", 50);
    CHECK(story.says(3, "recoverable\n").back() == "close caller=3");

    CHECK(story.is(W::RoundBegan{{"ccc", "ddd"}, {0}}) == Lines{"close caller=2"});

    CHECK(story.is(W::LineWanted{0, "go 1"}) == Lines{"send line caller=1"});
    CHECK(story.is(W::LineWanted{1, "go 1"}).empty());
    CHECK(story.attaches(4, "aaa", 50).back() == "give page caller=4 local_rank=0");
    CHECK(story.attaches(5, "ddd", 60).back() == "give page caller=5 local_rank=1");
    CHECK(story.attaches(6, "ccc", 50).back() == "refuse caller=6: token");
}

TEST_CASE("one process cannot have any number of connections") {
    Story story;
    const int most = static_cast<int>(limits::max_channels_of_worker);
    for (int caller = 0; caller < most; ++caller)
        CHECK(story.attaches(caller, "aaa").size() == 1);
    CHECK(
        story.attaches(most, "aaa").back() ==
        "refuse caller=" + std::to_string(most) + ": connections");
}

TEST_CASE("a token of no worker of this round is refused") {
    Story story;
    CHECK(story.attaches(1, "ccc") == Lines{"note refused: token", "refuse caller=1: token"});
    story.attaches(2, "aaa");
    CHECK(story.is(W::RoundEnded{}) == Lines{"close caller=2"});
    CHECK(story.attaches(3, "aaa") == Lines{"note refused: token", "refuse caller=3: token"});
    story.is(W::RoundBegan{{"ddd"}});
    CHECK(story.attaches(4, "aaa").back() == "refuse caller=4: token");
    CHECK(story.attaches(5, "ddd") == Lines{"give page caller=5 local_rank=0"});
}

TEST_CASE("processes of other users are not heard, root's and those of other pid namespaces are") {
    Story story;
    CHECK(story.comes(1, 50, 1001).back() == "close caller=1");
    CHECK(story.greets(1, "aaa").empty());
    story.comes(2, 50, 0);
    CHECK(story.greets(2, "aaa") == Lines{"give page caller=2 local_rank=0"});
    // Without a pid from the system, the pid in the greeting counts.
    story.comes(3, 0);
    CHECK(story.greets(3, "bbb", 1) == Lines{"give page caller=3 local_rank=1"});
    story.comes(4, 0);
    CHECK(story.greets(4, "bbb", 1) == Lines{"give page caller=4 local_rank=1"});
    story.comes(5, 0);
    CHECK(story.greets(5, "bbb", 2).back() == "refuse caller=5: busy");
}

TEST_CASE("what is no greeting ends the connection, with one line in the log for a whole round") {
    Story story;
    story.comes(1);
    CHECK(
        story.says(1, std::string(1024 * 1024, 'x')) ==
        Lines{"note refused: no greeting of a worker", "close caller=1"});
    story.comes(2);
    CHECK(story.says(2, "GET / HTTP/1.1\r\n") == Lines{"close caller=2"});
    story.comes(3);
    CHECK(story.is(W::Received{3, "ddprun-worker/1 aaa 50 c\n", true}) == Lines{"close caller=3"});
    story.attaches(4, "aaa");
    CHECK(story.says(4, "saved 3\n") == Lines{"close caller=4"});
    CHECK(story.attaches(5, "aaa", 51) == Lines{"give page caller=5 local_rank=0 of a new owner"});
}

TEST_CASE("a caller without a greeting is closed in time, and too many are not even heard") {
    Story story;
    story.comes(1);
    story.now += 500ms;
    for (std::size_t i = 1; i < limits::max_unfinished_channels; ++i)
        CHECK(story.comes(static_cast<int>(i) + 1).empty());
    CHECK(story.comes(100).back() == "close caller=100");
    CHECK(story.machine.next_deadline() == Instant{} + limits::channel_greeting_timeout);
    CHECK(story.is(W::DeadlinePassed{}).empty());

    story.now = Instant{} + limits::channel_greeting_timeout;
    CHECK(story.is(W::DeadlinePassed{}) == Lines{"close caller=1"});
    CHECK(story.comes(101).empty());
    CHECK(story.attaches(102, "aaa").empty());  // closed at once
    story.now += 1h;
    CHECK(story.is(W::DeadlinePassed{}).size() == limits::max_unfinished_channels);
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("every event in every state of a connection has its answer") {
    const std::vector<std::pair<std::string, std::vector<W::Event>>> states{
        {"none", {}},
        {"greeting", {W::Connected{1, {50, 1000}}}},
        {"attached", {W::Connected{1, {50, 1000}}, W::Received{1, "ddprun-worker/1 aaa 50 c\n"}}},
        {"holdable",
         {W::Connected{1, {50, 1000}},
          W::Received{1, "ddprun-worker/1 aaa 50 c\n"},
          W::Received{1, "recoverable\n"}}},
        {"refused", {W::Connected{1, {50, 1000}}, W::Received{1, "ddprun-worker/1 x 50 c\n"}}},
    };
    const std::vector<std::pair<std::string, W::Event>> events{
        {"began", W::RoundBegan{{"ccc"}}},
        {"ended", W::RoundEnded{}},
        {"another", W::Connected{2, {51, 1000}}},
        {"greeting", W::Received{1, "ddprun-worker/1 aaa 50 c\n"}},
        {"half", W::Received{1, "ddprun"}},
        {"garbage", W::Received{1, "\xFF\n"}},
        {"descriptors", W::Received{1, "ddprun", true}},
        {"closed", W::Closed{1}},
        {"recoverable", W::Received{1, "recoverable\n"}},
        {"holding", W::Received{1, "holding 0 7 clean\n"}},
        {"wanted", W::LineWanted{0, "hold 0 10000"}},
        {"late", W::DeadlinePassed{}},
    };
    std::ostringstream table;
    for (const auto& [state, way] : states) {
        for (const auto& [name, event] : events) {
            Story story;
            for (const auto& step : way)
                story.is(step);
            story.now += 1h;
            table << state << ' ' << name << ':';
            for (const auto& line : story.is(event))
                if (!line.starts_with("note")) table << ' ' << line;
            table << '\n';
        }
    }
    CHECK(table.str() == R"(none began:
none ended:
none another:
none greeting:
none half:
none garbage:
none descriptors:
none closed:
none recoverable:
none holding:
none wanted:
none late:
greeting began: close caller=1
greeting ended: close caller=1
greeting another:
greeting greeting: give page caller=1 local_rank=0
greeting half:
greeting garbage: close caller=1
greeting descriptors: close caller=1
greeting closed:
greeting recoverable: close caller=1
greeting holding: close caller=1
greeting wanted:
greeting late: close caller=1
attached began: close caller=1
attached ended: close caller=1
attached another:
attached greeting: close caller=1
attached half:
attached garbage: close caller=1
attached descriptors: close caller=1
attached closed:
attached recoverable: recoverable local_rank=0
attached holding: close caller=1
attached wanted:
attached late:
holdable began: close caller=1
holdable ended: close caller=1
holdable another:
holdable greeting: no longer recoverable local_rank=0 close caller=1
holdable half:
holdable garbage: no longer recoverable local_rank=0 close caller=1
holdable descriptors: no longer recoverable local_rank=0 close caller=1
holdable closed: no longer recoverable local_rank=0
holdable recoverable: no longer recoverable local_rank=0 close caller=1
holdable holding: held local_rank=0 round=0
holdable wanted: send line caller=1
holdable late:
refused began:
refused ended:
refused another:
refused greeting:
refused half:
refused garbage:
refused descriptors:
refused closed:
refused recoverable:
refused holding:
refused wanted:
refused late:
)");
}
