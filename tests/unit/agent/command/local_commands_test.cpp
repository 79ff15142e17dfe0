// SPDX-License-Identifier: Apache-2.0
#include "agent/command/local_commands.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/supervise/machine_story.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::command;
using namespace std::chrono_literals;

namespace {

using M = LocalCommands;
using Lines = std::vector<std::string>;

const std::string show = control::encode(control::Command{control::ShowNode{}});
const std::string stop = control::encode(control::Command{control::StopJob{5s}});

std::string framed(const std::string& body) {
    return std::string("\0\0\0", 3) + static_cast<char>(body.size()) + body;
}

/// The agent of a job of user 1000.
struct Story : test::LineStory<M> {
    Story() : LineStory{M{1000}} {}

    Lines comes(int caller, unsigned user = 1000) { return is(M::Connected{caller, {50, user}}); }
    Lines says(int caller, const std::string& bytes) { return is(M::Received{caller, bytes}); }
    Lines asks(int caller, const std::string& bytes) {
        comes(caller);
        return says(caller, bytes);
    }
};

}  // namespace

TEST_CASE("a command is performed once it is whole, and its answer ends the connection") {
    Story story;
    CHECK(story.comes(1).empty());
    CHECK(story.says(1, stop.substr(0, 3)).empty());
    CHECK(
        story.says(1, stop.substr(3)) ==
        Lines{"perform caller=1 user=1000 pid=50: stop_job grace=5 s"});
    CHECK(story.says(1, "more").empty());
    CHECK(
        story.is(M::Answered{1, control::CommandDone{"yes"}}) ==
        Lines{"reply caller=1: command_done \"yes\""});
    CHECK(story.is(M::Answered{1, control::CommandDone{"yes"}}).empty());
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("commands of other users are refused and not performed, root's are performed") {
    Story story;
    CHECK(
        story.comes(1, 1001) ==
        Lines{"reply caller=1: command_refused not_allowed \"this job belongs to user 1000; only "
              "that user and root may control it, not user 1001\""});
    CHECK(story.says(1, stop).empty());
    story.comes(2, 0);
    CHECK(story.says(2, show) == Lines{"perform caller=2 user=0 pid=50: show_node"});
}

TEST_CASE("other users keep no connection of the agent's own user out") {
    Story story;
    for (std::size_t i = 0; i < 2 * limits::max_command_callers; ++i)
        CHECK(story.comes(static_cast<int>(i), 1001).size() == 1);
    CHECK_FALSE(story.machine.next_deadline());
    CHECK(story.asks(1000, show).size() == 1);
}

TEST_CASE("what is no command is refused with the reason, and only that connection ends") {
    const std::vector<std::pair<std::string, std::string>> cases{
        {std::string(8, '\xFF'), "a control frame is too long"},
        {framed("{}"), "without a type"},
        {framed("[1]"), "not a JSON object"},
        {framed("{\"type\":\"reboot\"}"), "reboot"},
        {framed("{\"type\":\"signal_workers\",\"signal\":65}"), "signal_workers.signal"},
        {framed("{\"type\":\"signal_workers\"}"), "signal_workers.signal"},
        {framed("{\"type\":\"stop_job\",\"grace\":-1}"), "stop_job.grace"},
        {framed("{\"type\":\"stop_job\",\"grace\":1,\"grace\":2}"), "comes twice"},
        {"GET / HTTP/1.1\r\n\r\n", "too long"},
    };
    for (const auto& [bytes, why] : cases) {
        const auto& reason = why;  // CAPTURE takes no structured binding under clang
        CAPTURE(reason);
        Story story;
        story.comes(7);
        const auto lines = story.asks(1, bytes);
        REQUIRE(lines.size() == 1);
        CHECK(lines[0].starts_with("reply caller=1: command_refused not_understood"));
        CHECK(story.says(1, show).empty());
        CHECK(story.says(7, show).size() == 1);
    }
}

TEST_CASE("a command that never ends is cut off at its limit") {
    Story story;
    story.comes(1);
    // Frames of other connections may be longer.
    CHECK(story.says(1, std::string("\0\0\x7F\0", 4)).empty());
    CHECK(story.says(1, std::string(limits::max_command_bytes - 4, 'x')).empty());
    CHECK(
        story.says(1, "x") ==
        Lines{"reply caller=1: command_refused not_understood \"longer than 4096 bytes\""});
}

TEST_CASE("a caller without a command is closed in time, and too many are not heard") {
    Story story;
    story.comes(1);
    story.now += 1s;
    for (std::size_t i = 1; i < limits::max_command_callers; ++i)
        CHECK(story.comes(static_cast<int>(i) + 1).empty());
    CHECK(story.comes(100) == Lines{"close caller=100"});
    CHECK(story.says(100, show).empty());
    CHECK(story.machine.next_deadline() == Instant{} + limits::command_timeout);
    CHECK(story.is(M::DeadlinePassed{}).empty());

    story.now = Instant{} + limits::command_timeout;
    CHECK(story.is(M::DeadlinePassed{}) == Lines{"close caller=1"});
    CHECK(story.asks(101, show).size() == 1);
}

TEST_CASE("a command whose answer is the server's waits for that, and is refused without one") {
    Story story;
    const auto drain = control::encode(control::Command{control::DrainNodes{{"node5"}, true}});
    CHECK(
        story.asks(1, drain) == Lines{"perform caller=1 user=1000 pid=50: drain_nodes node5 "
                                      "forced"});
    CHECK(story.machine.next_deadline() == Instant{} + limits::command_relay_timeout);
    story.now += limits::command_relay_timeout - 1ms;
    CHECK(story.is(M::DeadlinePassed{}).empty());
    story.now += 1ms;
    CHECK(
        story.is(M::DeadlinePassed{}) ==
        Lines{"reply caller=1: command_refused not_possible \"the rendezvous server has not "
              "answered within 5 s; 'ddprunctl status' shows whether it has done it\""});
    CHECK(story.is(M::Answered{1, control::CommandDone{"yes"}}).empty());
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("a worker that cannot be looked at in time is no fault of the server") {
    Story story;
    CHECK(
        story.asks(1, control::encode(control::Command{control::ShowStack{3}})) ==
        Lines{"perform caller=1 user=1000 pid=50: show_stack rank=3"});
    story.now += limits::command_relay_timeout;
    CHECK(
        story.is(M::DeadlinePassed{}) ==
        Lines{"reply caller=1: command_refused not_possible \"the worker could not be looked at "
              "within 5 s\""});
}

TEST_CASE("every event in every state of a command's connection has its answer") {
    const std::vector<std::pair<std::string, std::vector<M::Event>>> states{
        {"none", {}},
        {"reading", {M::Connected{1, {50, 1000}}}},
        {"waiting", {M::Connected{1, {50, 1000}}, M::Received{1, show}}},
        {"refused", {M::Connected{1, {50, 1000}}, M::Received{1, framed("{}")}}},
    };
    const std::vector<std::pair<std::string, M::Event>> events{
        {"another", M::Connected{2, {51, 1000}}},
        {"command", M::Received{1, show}},
        {"half", M::Received{1, show.substr(0, 5)}},
        {"garbage", M::Received{1, std::string(4, '\xFF')}},
        {"answer", M::Answered{1, control::CommandDone{}}},
        {"closed", M::Closed{1}},
        {"late", M::DeadlinePassed{}},
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
                table << ' ' << line.substr(0, line.find(':'));
            table << '\n';
            CHECK_FALSE(describe(event).empty());
        }
    }
    CHECK(table.str() == R"(none another:
none command:
none half:
none garbage:
none answer:
none closed:
none late:
reading another:
reading command: perform caller=1 user=1000 pid=50
reading half:
reading garbage: reply caller=1
reading answer: reply caller=1
reading closed:
reading late: close caller=1
waiting another:
waiting command:
waiting half:
waiting garbage:
waiting answer: reply caller=1
waiting closed:
waiting late: reply caller=1
refused another:
refused command:
refused half:
refused garbage:
refused answer:
refused closed:
refused late:
)");
}
