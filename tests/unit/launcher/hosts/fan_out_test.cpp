// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/fan_out.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

static_assert(Machine<FanOut>);

namespace {

using State = FanOut::State;

FanOut::HostEnd with_report(int code, bool is_refusal = false) {
    return {agent::FramedReport{code, is_refusal, "{}\n", "screen"}, code, true, ""};
}

FanOut::HostEnd without_report(int code, std::string words = "") {
    return {std::nullopt, code, true, std::move(words)};
}

/// Hosts a, b, c ... on a simulated clock, and the orders since the last call.
struct Story {
    explicit Story(int host_count, int least = 0)
        : machine(
              {host_count, least == 0 ? host_count : least, 20s, 30s},
              [&] {
                  std::vector<std::string> names;
                  for (int host = 0; host < host_count; ++host)
                      names.emplace_back(1, static_cast<char>('a' + host % 26));
                  return names;
              }()),
          count(host_count) {}

    void at(Duration when, FanOut::Event event) {
        machine.handle(std::move(event), Instant{} + when, effects);
    }
    /// All are ready and the job runs.
    void run() {
        at(0s, FanOut::Began{});
        for (int host = 0; host < count; ++host)
            at(0s, FanOut::Readied{host});
        effects.clear();
    }
    std::vector<std::string> asked() {
        std::vector<std::string> lines;
        for (const auto& effect : std::exchange(effects, {}))
            lines.push_back(describe(effect));
        return lines;
    }

    FanOut machine;
    int count;
    std::vector<FanOut::Effect> effects;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a job begins when every host is ready, in the order of the list") {
    Story story(2);
    story.at(0s, FanOut::Began{});
    CHECK(story.asked() == Lines{"connect host 0", "connect host 1"});
    story.at(1s, FanOut::Readied{1});
    story.at(1s, FanOut::Lacked{0});
    CHECK(story.asked() == Lines{"send program to host 0"});
    story.at(2s, FanOut::Readied{0});
    CHECK(story.effects == std::vector<FanOut::Effect>{FanOut::Start{{0, 1}}});
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("thirty-two connections are made at once, and the next when one is ready") {
    Story story(40);
    story.at(0s, FanOut::Began{});
    CHECK(story.asked().size() == 32);
    story.at(1s, FanOut::Readied{3});
    CHECK(story.asked() == Lines{"connect host 32"});
    story.at(1s, FanOut::Refused{4, "no"});
    CHECK(story.asked() == Lines{"note host 4: no", "connect host 33", "kill host 4"});
}

TEST_CASE("all hosts that cannot be used are named, and no worker is started") {
    Story story(4);
    story.at(0s, FanOut::Began{});
    story.at(1s, FanOut::Readied{0});
    story.at(1s, FanOut::Ended{1, without_report(255, "Permission denied (publickey).")});
    story.at(2s, FanOut::Refused{2, "there is no folder /x"});
    story.asked();
    CHECK(story.machine.next_deadline() == Instant{} + 20s);
    story.at(19s, FanOut::DeadlinePassed{});
    CHECK(story.asked().empty());
    story.at(20s, FanOut::DeadlinePassed{});
    CHECK(
        story.asked() ==
        Lines{
            "note host 3: no answer within 20 s",
            "kill host 3",
            "finish with 80, 3 of 4 hosts cannot be used: b, c, d; no worker was started"});
}

TEST_CASE("a host whose copy takes too long is named") {
    Story story(1);
    story.at(0s, FanOut::Began{});
    story.at(1s, FanOut::Lacked{0});
    story.asked();
    story.at(1s + limits::program_copy_timeout, FanOut::DeadlinePassed{});
    CHECK(
        story.asked() == Lines{
                             "note host 0: the program was not copied within 120 s",
                             "kill host 0",
                             "finish with 80, 1 of 1 host cannot be used: a"});
}

TEST_CASE("a range of nodes begins with those that are ready, once the others have failed") {
    Story story(3, 2);
    story.at(0s, FanOut::Began{});
    story.at(1s, FanOut::Readied{1});
    story.at(1s, FanOut::Readied{2});
    story.asked();
    story.at(2s, FanOut::Ended{0, without_report(255, "No route to host")});
    CHECK(story.asked() == Lines{"note host 0: No route to host", "start 2 nodes"});

    story.at(3s, FanOut::Ended{1, without_report(255)});
    CHECK(story.asked().empty());
    story.at(9s, FanOut::Ended{2, with_report(0)});
    CHECK(story.asked() == Lines{"finish with 0, report of host 2"});
}

TEST_CASE("the report of the first node that failed is the job's") {
    Story story(3);
    story.run();
    story.at(5s, FanOut::Ended{2, with_report(7)});
    CHECK(story.machine.next_deadline() == Instant{} + 5s + 30s + limits::host_end_margin);
    story.at(5s, FanOut::Ended{1, with_report(7)});
    story.at(5s, FanOut::Ended{0, with_report(7)});
    CHECK(story.asked() == Lines{"finish with 7, report of host 0"});
}

TEST_CASE("a node that was refused ends the others, and its report is shown") {
    Story story(3);
    story.run();
    story.at(5s, FanOut::Ended{1, with_report(127, true)});
    CHECK(story.asked() == Lines{"send SIGTERM to host 0", "send SIGTERM to host 2"});
    story.at(6s, FanOut::Ended{0, with_report(143)});
    story.at(6s, FanOut::Ended{2, with_report(143)});
    CHECK(story.asked() == Lines{"finish with 127, report of host 1"});
}

TEST_CASE("a lost connection ends the others, which are cut off when they do not end") {
    Story story(2);
    story.run();
    story.at(5s, FanOut::Ended{1, without_report(255)});
    CHECK(story.asked() == Lines{"send SIGTERM to host 0"});
    const auto last = 5s + 30s + limits::host_end_margin;
    CHECK(story.machine.next_deadline() == Instant{} + last);
    story.at(last, FanOut::DeadlinePassed{});
    CHECK(story.asked() == Lines{"kill host 0"});
    story.at(last, FanOut::Ended{0, without_report(-SIGKILL)});
    CHECK(
        story.asked() ==
        Lines{"finish with 82, the connection to b was lost, or ddprun was killed there"});
}

TEST_CASE("a node that a command has drained stops no other, in a job of a fixed size neither") {
    Story story(2);
    story.run();
    story.at(5s, FanOut::Ended{1, with_report(exit_codes::drained)});
    CHECK(story.asked().empty());
    CHECK(story.machine.next_deadline() == std::nullopt);
    story.at(3600s, FanOut::Ended{0, with_report(0)});
    CHECK(story.asked() == Lines{"finish with 85, report of host 1"});
}

TEST_CASE("nodes that outlive a failed one by more than their grace are stopped") {
    Story story(2);
    story.run();
    story.at(5s, FanOut::Ended{0, without_report(1)});
    CHECK(story.asked().empty());
    story.at(5s + 30s + limits::host_end_margin, FanOut::DeadlinePassed{});
    CHECK(story.asked() == Lines{"send SIGTERM to host 1"});
    story.at(60s, FanOut::Ended{1, with_report(143)});
    CHECK(story.asked() == Lines{"finish with 143, report of host 1"});
}

TEST_CASE("a node that ends without a report, and no other has one, is named") {
    Story story(1);
    story.run();
    story.at(5s, FanOut::Ended{0, without_report(1)});
    CHECK(
        story.asked() ==
        Lines{"finish with 1, ddprun on a ended without a report, with exit code 1"});
}

TEST_CASE(
    "a lost connection is the reason, also when the others have ended by its SIGTERM before") {
    constexpr int by_sigterm = 128 + SIGTERM;
    const auto end_of_job = [](bool is_signalled, int code) {
        Story story(3);
        story.run();
        if (is_signalled) story.at(1s, FanOut::Signalled{SIGTERM});
        story.at(1s, FanOut::Ended{0, with_report(code)});
        story.at(1s, FanOut::Ended{1, without_report(-1)});
        story.at(1s, FanOut::Ended{2, with_report(code)});
        return story.asked().back();
    };
    CHECK(
        end_of_job(false, by_sigterm) ==
        "finish with 82, the connection to b was lost, or ddprun was killed there");
    CHECK(end_of_job(true, by_sigterm) == "finish with 143, report of host 0");
    CHECK(end_of_job(false, 1) == "finish with 1, report of host 0");
}

TEST_CASE("a node that ends without a report is lost, whatever the exit code of its shell") {
    Story story(2);
    story.run();
    story.at(5s, FanOut::Ended{1, without_report(0)});
    CHECK(story.asked() == Lines{"send SIGTERM to host 0"});
    story.at(6s, FanOut::Ended{0, with_report(143)});
    CHECK(story.asked() == Lines{"finish with 82, ddprun on b ended without a report"});

    Story both(2);
    both.run();
    both.at(5s, FanOut::Ended{0, with_report(0)});
    both.at(5s, FanOut::Ended{1, without_report(0)});
    CHECK(both.asked() == Lines{"finish with 82, ddprun on b ended without a report"});
}

TEST_CASE("each signal goes to every node that runs") {
    Story story(2);
    story.run();
    story.at(1s, FanOut::Signalled{SIGINT});
    story.at(2s, FanOut::Signalled{SIGINT});
    CHECK(
        story.asked() == Lines{
                             "send SIGINT to host 0",
                             "send SIGINT to host 1",
                             "send SIGINT to host 0",
                             "send SIGINT to host 1"});
    story.at(3s, FanOut::Ended{0, with_report(130)});
    story.at(3s, FanOut::Ended{1, with_report(130)});
    CHECK(story.asked() == Lines{"finish with 130, report of host 0"});
}

TEST_CASE("a forwarded signal stops no job: nothing is cut off after it") {
    Story story(1);
    story.run();
    story.at(1s, FanOut::Forwarded{SIGUSR1});
    CHECK(story.asked() == Lines{"send SIGUSR1 to host 0"});
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("a signal before the job has begun ends everything at once") {
    Story story(2);
    story.at(0s, FanOut::Began{});
    story.at(1s, FanOut::Readied{0});
    story.asked();
    story.at(2s, FanOut::Signalled{SIGTERM});
    CHECK(
        story.asked() == Lines{"finish with 143, stopped by SIGTERM before every host was ready"});
    CHECK_FALSE(story.machine.next_deadline());
}

TEST_CASE("every event in every state of a host is decided, and none of them twice") {
    const std::vector<std::function<void(Story&)>> ways{
        [](Story&) {},
        [](Story& story) { story.at(0s, FanOut::Began{}); },
        [](Story& story) {
            story.at(0s, FanOut::Began{});
            story.at(0s, FanOut::Lacked{0});
        },
        [](Story& story) {
            story.at(0s, FanOut::Began{});
            story.at(0s, FanOut::Readied{0});
        },
        [](Story& story) { story.run(); },
        [](Story& story) {
            story.run();
            story.at(0s, FanOut::Ended{0, with_report(0)});
        },
        [](Story& story) {
            story.at(0s, FanOut::Began{});
            story.at(0s, FanOut::Refused{0, "no"});
        },
    };
    const std::vector<State> states{
        State::waiting,
        State::connecting,
        State::copying,
        State::ready,
        State::running,
        State::ended,
        State::failed};
    const std::vector<FanOut::Event> events{
        FanOut::Lacked{0},
        FanOut::Readied{0},
        FanOut::Refused{0, "no"},
        FanOut::Ended{0, with_report(0)},
        FanOut::Ended{0, without_report(255)},
        FanOut::Forwarded{SIGUSR1},
        FanOut::Signalled{SIGTERM},
        FanOut::DeadlinePassed{}};
    for (std::size_t i = 0; i < ways.size(); ++i) {
        for (const auto& event : events) {
            CAPTURE(i);
            CAPTURE(describe(event));
            Story story(2);
            ways[i](story);
            REQUIRE(story.machine.state_of(0) == states[i]);
            story.asked();
            story.at(1s, event);
            int finishes = 0;
            const auto count = [&] {
                for (const auto& line : story.asked())
                    finishes += line.starts_with("finish") ? 1 : 0;
            };
            count();
            // Whatever happened, the end of all connections ends the job, once.
            story.at(2s, FanOut::Ended{0, without_report(255)});
            story.at(2s, FanOut::Ended{1, without_report(255)});
            story.at(500s, FanOut::DeadlinePassed{});
            count();
            const bool is_begun = i > 0 || std::holds_alternative<FanOut::Signalled>(event);
            CHECK(finishes == (is_begun ? 1 : 0));
            CHECK((finishes == 0 || !story.machine.next_deadline()));
        }
    }
}
