// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/failure_detector.hpp"

#include "rendezvous/base/machine.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::groups;
using namespace std::chrono_literals;

static_assert(Machine<FailureDetector>);

namespace {

using D = FailureDetector;
using Way = D::Way;
using Queue = D::Queue;
using Kind = GroupError::Kind;
using Lines = std::vector<std::string>;

constexpr auto calls = Queue::collectives;
const std::vector<Way> ways{Way::memory, Way::hosts, Way::gpus};

std::string describe(const GroupError& error) {
    static const char* const kinds[] = {
        "", "PeerLost", "Timeout", "Mismatch", "UsageError", "Error"};
    std::string text = std::string{kinds[static_cast<int>(error.kind)]} + ": " + error.text;
    for (const int rank : error.ranks)
        text += " #" + std::to_string(rank);
    return text;
}

std::string describe(const D::Effect& effect) {
    return std::visit(
        Overloaded{
            [](const D::ReadReports&) { return std::string{"read reports"}; },
            [](const D::CompareCalls&) { return std::string{"compare calls"}; },
            [](const D::AskWaiters& it) { return "does one wait of " + text_of(it.ranks); },
            [](const D::Publish& it) { return "publish " + describe(it.error); },
            [](const D::Found& it) { return "found " + describe(it.error); },
            [](const D::BreakConnections&) { return std::string{"break connections"}; },
            [](const D::Decided& it) { return "decided " + describe(it.error); }},
        effect);
}

/// A group's detector on a simulated clock, and its questions and reports.
struct Story {
    explicit Story(Way way, bool has_reports = true) : detector({way, has_reports}) {}

    D detector;
    Lines said;

    static Instant moment(Duration since_start) { return Instant{} + since_start; }
    void at(Duration when, D::Event event) {
        std::vector<D::Effect> effects;
        detector.handle(std::move(event), moment(when), effects);
        for (const auto& effect : effects)
            said.push_back(describe(effect));
    }
    void waits(Duration since = 0s, Queue queue = calls) {
        at(since, D::WaitSeen{queue, moment(since)});
    }
    void time(Duration when) { at(when, D::DeadlinePassed{calls}); }
    void no_report(Duration when) { at(when, D::NoReport{calls}); }
    void fails(
        Duration when, Kind kind, std::vector<int> ranks = {}, std::vector<int> suspects = {}) {
        at(when, D::CallFailed{calls, {kind, "broken", std::move(ranks)}, std::move(suspects)});
    }
    /// ... and none of the lost ranks has reported that it waits.
    void is_lost(Duration when, std::vector<int> ranks) {
        fails(when, Kind::peer_lost, ranks);
        CHECK(now_said() == Lines{"does one wait of " + text_of(ranks)});
        at(when, D::WaitersRead{calls, std::move(ranks)});
    }
    /// The output since the last call.
    Lines now_said() { return std::exchange(said, {}); }
};

}  // namespace

TEST_CASE("of a host's ranks the ones whose processes ended are lost at once") {
    Story story(Way::memory, false);

    story.at(10ms, D::ProcessesEnded{calls, {1, 3}});

    CHECK(story.now_said() == Lines{"found PeerLost: lost ranks 1 and 3 #1 #3"});
    // All ranks of the host fail with the error that one of them wrote first.
    story.at(11ms, D::CallFailed{calls, {Kind::peer_lost, "lost rank 3", {3}}});
    CHECK(story.now_said() == Lines{"decided PeerLost: lost rank 3 #3"});
    CHECK(story.detector.verdict()->ranks == std::vector{3});
}

TEST_CASE("of a host's ranks the late ones are named when the time is over") {
    Story story(Way::memory, false);

    story.at(5s, D::PeersLate{calls, {1}, 5s});

    CHECK(story.now_said() == Lines{"found Timeout: rank 1 did not come within 5000 ms #1"});
}

TEST_CASE("calls of one host's ranks that differ are a mismatch for all of them") {
    Story story(Way::hosts);

    story.at(0s, D::CallsDiffer{calls, mismatch_between("rank 0 is at a", "rank 1 is at b")});

    CHECK(story.now_said() == Lines{"found Mismatch: rank 0 is at a, but rank 1 is at b"});
    CHECK_FALSE(story.detector.verdict());
}

TEST_CASE("a wait between hosts compares calls after a second, and then every two") {
    Story story(Way::hosts);
    story.waits();

    story.time(999ms);
    CHECK(story.now_said().empty());
    CHECK(story.detector.next_deadline() == Story::moment(1s));
    story.time(1s);
    story.no_report(1s);
    CHECK(story.now_said() == Lines{"compare calls"});
    story.time(2900ms);
    story.time(3s);
    story.time(3100ms);
    story.time(5s);

    CHECK(story.now_said() == Lines{"compare calls", "compare calls"});
}

TEST_CASE("a wait between GPUs reads reports after 100 ms, ever less often, and compares later") {
    Story story(Way::gpus);
    story.waits();

    Lines moments;
    for (auto now = 0ms; now < 5s; now += 5ms) {
        story.time(now);
        for (const auto& line : story.now_said())
            moments.push_back(std::to_string(now.count()) + " " + line);
    }

    CHECK(
        moments == Lines{
                       "100 read reports",
                       "300 read reports",
                       "700 read reports",
                       "1500 compare calls",
                       "2500 compare calls",
                       "3500 compare calls",
                       "4500 compare calls"});
}

TEST_CASE("what is not in a call of the program's has none to compare") {
    Story story(Way::gpus);
    story.waits(0s, Queue::group);

    story.at(10s, D::DeadlinePassed{Queue::group});

    CHECK(story.now_said() == Lines{"read reports"});
}

TEST_CASE("while a group is created its reports are read from 100 ms on") {
    Story story(Way::hosts);
    story.waits(0s, Queue::group);

    story.at(99ms, D::DeadlinePassed{Queue::group});
    CHECK(story.now_said().empty());
    story.at(100ms, D::DeadlinePassed{Queue::group});
    story.at(300ms, D::DeadlinePassed{Queue::group});

    CHECK(story.now_said() == Lines{"read reports", "read reports"});
}

TEST_CASE("a mismatch of one host is published before its ranks fail") {
    for (const auto way : {Way::hosts, Way::gpus}) {
        Story story(way);

        story.at(0s, D::CallFailed{calls, mismatch_between("rank 1 is at a", "rank 2 is at b")});

        CHECK(
            story.now_said() == Lines{
                                    "publish Mismatch: rank 1 is at a, but rank 2 is at b",
                                    "decided Mismatch: rank 1 is at a, but rank 2 is at b"});
    }
}

TEST_CASE("each wait has its own second, also where the end of the one before was not seen") {
    Story story(Way::hosts);
    story.waits(0s);
    story.waits(10s);
    story.waits(0s);  // another thread's, which is older
    story.time(10500ms);
    CHECK(story.now_said().empty());
    story.time(11s);
    CHECK(story.now_said() == Lines{"compare calls"});

    story.at(12s, D::WaitEnded{calls, Story::moment(0s)});
    CHECK(story.detector.next_deadline() == Story::moment(13s));
    story.at(12s, D::WaitEnded{calls, Story::moment(10s)});
    CHECK_FALSE(story.detector.next_deadline());
}

TEST_CASE("a report that another rank or an agent wrote is the verdict") {
    Story story(Way::hosts);
    story.waits();
    story.time(1s);
    story.now_said();

    story.at(1s, D::ReportRead{calls, {Kind::peer_lost, "lost rank 2 (its process ended)", {2}}});

    CHECK(story.now_said() == Lines{"decided PeerLost: lost rank 2 (its process ended) #2"});
}

TEST_CASE("another call of a rank is a mismatch that all learn of") {
    Story story(Way::hosts);
    story.waits();
    story.time(1s);
    story.now_said();

    story.at(1s, D::DesyncSeen{calls, mismatch_between("rank 0 is at a", "rank 1 is at b")});

    CHECK(
        story.now_said() == Lines{
                                "publish Mismatch: rank 0 is at a, but rank 1 is at b",
                                "decided Mismatch: rank 0 is at a, but rank 1 is at b"});
}

TEST_CASE("a store that is gone ends no wait") {
    Story story(Way::hosts);
    story.waits();
    story.time(1s);
    story.now_said();

    story.at(1s, D::StoreUnreachable{calls});
    story.time(3s);

    CHECK(story.now_said() == Lines{"compare calls"});
}

TEST_CASE("a lost connection is explained by a report, if there is one") {
    Story story(Way::hosts);
    story.waits();
    story.is_lost(2s, {1});
    CHECK(story.now_said() == Lines{"read reports"});

    story.at(2s, D::ReportRead{calls, {Kind::timeout, "rank 3 did not come", {3}}});

    CHECK(story.now_said() == Lines{"decided Timeout: rank 3 did not come #3"});
}

TEST_CASE("a loss without a report is published with its ranks, and is the verdict") {
    Story story(Way::hosts);
    story.waits();
    story.is_lost(2s, {1});
    story.now_said();

    story.no_report(2s);

    CHECK(story.now_said() == Lines{"publish PeerLost: broken #1", "decided PeerLost: broken #1"});
}

TEST_CASE("a loss without a name is not published, a timeout always is") {
    for (const auto kind : {Kind::peer_lost, Kind::timeout}) {
        Story story(Way::hosts);
        story.fails(2s, kind);
        story.now_said();

        story.no_report(2s);

        CHECK(story.now_said().size() == (kind == Kind::timeout ? 2 : 1));
    }
}

TEST_CASE("with the store gone as well a lost connection is what it is") {
    Story story(Way::hosts);
    story.is_lost(2s, {1});
    story.now_said();

    story.at(2s, D::StoreUnreachable{calls});

    CHECK(story.now_said() == Lines{"decided PeerLost: broken #1"});
}

TEST_CASE("a rank that was waiting too may have run out of time, and has a second to report it") {
    Story story(Way::hosts);
    story.waits();
    story.fails(2s, Kind::peer_lost, {1, 2});
    CHECK(story.now_said() == Lines{"does one wait of ranks 1 and 2"});
    story.at(2s, D::WaitersRead{calls, {2}});
    CHECK(story.now_said() == Lines{"read reports"});

    Lines moments;
    for (auto now = 2000ms; now < 4s; now += 10ms) {
        if (story.detector.next_deadline() && *story.detector.next_deadline() > Story::moment(now))
            continue;
        story.time(now);
        for (const auto& line : story.now_said())
            moments.push_back(std::to_string(now.count()) + " " + line);
    }

    // The last one is final.
    CHECK(
        moments == Lines{
                       "2020 read reports",
                       "2060 read reports",
                       "2140 read reports",
                       "2300 read reports",
                       "2500 read reports",
                       "2700 read reports",
                       "2900 read reports",
                       "3000 read reports"});
    story.no_report(3s);
    CHECK(
        story.now_said() ==
        Lines{"publish PeerLost: broken #1 #2", "decided PeerLost: broken #1 #2"});
}

TEST_CASE("ranks of which none was waiting are lost without more ado") {
    Story story(Way::hosts);
    story.fails(2s, Kind::peer_lost, {1, 2});
    story.now_said();

    story.at(2s, D::WaitersRead{calls, {1, 2}});

    CHECK(story.now_said() == Lines{"read reports"});
    story.no_report(2s);
    CHECK(story.detector.verdict()->ranks == std::vector{1, 2});
}

TEST_CASE("a timeout without names gets those of the suspects that do not wait in the same call") {
    for (const auto way : {Way::hosts, Way::gpus}) {
        Story story(way);
        story.fails(9s, Kind::timeout, {}, {0, 1, 3});
        CHECK(story.now_said() == Lines{"does one wait of ranks 0, 1 and 3"});

        story.at(9s, D::WaitersRead{calls, {3}});
        story.no_report(9s);

        CHECK(
            story.now_said() == Lines{
                                    "read reports",
                                    "publish Timeout: broken; nothing was heard of rank 3 #3",
                                    "decided Timeout: broken; nothing was heard of rank 3 #3"});
    }
}

TEST_CASE("a process that ended on a GPU's host is lost when what it gave had its time to arrive") {
    Story story(Way::gpus);
    story.waits();

    story.at(10ms, D::ProcessesEnded{calls, {1, 2}});
    story.at(259ms, D::ProcessesEnded{calls, {1, 2}});
    CHECK(story.now_said().empty());
    story.at(260ms, D::ProcessesEnded{calls, {1, 2}});
    CHECK(story.now_said() == Lines{"read reports"});

    story.no_report(261ms);
    CHECK(
        story.now_said() == Lines{
                                "publish PeerLost: lost rank 1 (its process ended) #1",
                                "decided PeerLost: lost rank 1 (its process ended) #1"});
}

TEST_CASE("a loss that NCCL notices while an ended process is confirmed adds nothing") {
    Story story(Way::gpus);
    story.waits();
    story.at(0s, D::ProcessesEnded{calls, {1}});
    story.at(1s, D::ProcessesEnded{calls, {1}});
    CHECK(story.now_said() == Lines{"read reports"});

    story.fails(1s, Kind::peer_lost);
    CHECK(story.now_said().empty());
    story.no_report(1s);

    CHECK(story.detector.verdict()->ranks == std::vector{1});
}

TEST_CASE("a loss that NCCL noticed waits for its name") {
    Story story(Way::gpus);
    story.waits();
    story.at(900ms, D::ProcessesEnded{calls, {2}});
    story.fails(1s, Kind::peer_lost);
    CHECK(story.now_said() == Lines{"read reports"});
    story.no_report(1s);

    story.at(1150ms, D::ProcessesEnded{calls, {2}});
    story.no_report(1150ms);

    // The quarter of a second began before NCCL noticed.
    CHECK(
        story.now_said() == Lines{
                                "read reports",
                                "publish PeerLost: lost rank 2 (its process ended) #2",
                                "decided PeerLost: lost rank 2 (its process ended) #2"});
}

TEST_CASE("a loss whose name no source knows is without one after a second and a half") {
    Story story(Way::gpus);
    story.fails(1s, Kind::peer_lost);
    for (auto now = 1000ms; now < 2500ms; now += 10ms) {
        story.time(now);
        story.no_report(now);
    }
    CHECK_FALSE(story.detector.verdict());

    story.time(2500ms);
    story.no_report(2500ms);

    CHECK(describe(*story.detector.verdict()) == "PeerLost: broken");
}

TEST_CASE("a store that takes seconds to answer does not keep a death from being looked for") {
    Story story(Way::gpus);
    story.fails(0s, Kind::peer_lost);
    story.no_report(2s);  // that late
    story.now_said();

    for (auto now = 2000ms; now < 2250ms; now += 10ms) {
        story.at(now, D::ProcessesEnded{calls, {1}});
        story.time(now);
        CHECK(story.now_said().empty());  // nor is the store asked any more
    }
    story.at(2250ms, D::ProcessesEnded{calls, {1}});
    story.no_report(2250ms);

    CHECK(story.detector.verdict()->ranks == std::vector{1});
}

TEST_CASE("a connection that is broken for five seconds of one call has lost a message") {
    Story story(Way::hosts);
    story.waits();
    story.at(1s, D::ConnectionBroke{calls, 7});
    story.at(4s, D::ConnectionBroke{calls, 8});
    story.at(8900ms, D::ConnectionBroke{calls, 8});
    story.waits(8900ms);  // another thread, in the same call
    CHECK(story.now_said().empty());

    story.at(9s, D::ConnectionBroke{calls, 8});

    CHECK(story.now_said() == Lines{"break connections"});
    story.at(10s, D::ConnectionBroke{calls, 8});
    CHECK(story.now_said().empty());
}

TEST_CASE("of what this rank has broken itself no other rank is asked") {
    for (const auto way : {Way::hosts, Way::gpus}) {
        Story story(way);
        story.waits();
        story.at(1s, D::Aborted{});

        story.fails(1s, Kind::peer_lost, way == Way::hosts ? std::vector{1} : std::vector<int>{});

        CHECK(story.now_said() == Lines{"read reports"});
    }
}

TEST_CASE("a deadline of the program's is a timeout that names the late") {
    Story story(Way::memory, false);

    story.at(1s, D::WaiterTimedOut{calls, "call 2: barrier", {1}});

    CHECK(
        story.now_said() ==
        Lines{"decided Timeout: call 2: barrier: not done when its deadline passed; rank 1 did not "
              "come #1"});
    CHECK(story.detector.verdict()->operation == "call 2: barrier");
}

TEST_CASE("a group that cannot be made without the store has lost it") {
    Story story(Way::gpus);
    story.at(1s, D::StoreLost{Queue::group, "store: refused"});
    CHECK(story.now_said() == Lines{"decided PeerLost: store: refused"});

    Story other(Way::gpus);
    other.at(1s, D::KeyMissing{Queue::group, "a peer did not come"});
    CHECK(other.now_said() == Lines{"decided Timeout: a peer did not come"});
}

TEST_CASE("the first verdict is final") {
    Story story(Way::hosts);
    story.at(1s, D::WaiterTimedOut{calls, "barrier", {}});
    story.now_said();

    story.at(2s, D::CallFailed{Queue::sends, {Kind::peer_lost, "lost rank 1", {1}}});

    CHECK(story.now_said() == Lines{"decided Timeout: barrier: not done when its deadline passed"});
}

TEST_CASE("what makes no sense on this rank ends its call and not the group") {
    Story story(Way::gpus);

    story.fails(1s, Kind::usage);

    CHECK(story.now_said() == Lines{"decided UsageError: broken"});
    CHECK_FALSE(story.detector.verdict());
}

TEST_CASE("without reports in the store nothing is asked of it") {
    Story story(Way::gpus, false);
    story.waits();
    story.time(10s);
    CHECK_FALSE(story.detector.next_deadline());
    story.fails(10s, Kind::timeout, {}, {1});

    CHECK(story.now_said() == Lines{"decided Timeout: broken"});
}

TEST_CASE("every event has an answer in every state of a failure detector") {
    using State = std::function<void(Story&)>;
    const std::vector<std::pair<std::string, State>> states{
        {"idle", [](Story&) {}},
        {"waiting", [](Story& it) { it.waits(); }},
        {"asking",
         [](Story& it) {
             it.fails(1s, Kind::timeout, {}, {1, 2});
         }},
        {"naming",
         [](Story& it) {
             it.fails(
                 1s, Kind::peer_lost, it.detector.verdict() ? std::vector{1} : std::vector<int>{});
             it.at(1s, D::WaitersRead{calls, {}});
         }},
        {"confirming", [](Story& it) { it.fails(1s, Kind::peer_lost, {1}); }},
        {"decided", [](Story& it) {
             it.at(1s, D::KeyMissing{calls, "key"});
         }}};
    const GroupError loss{Kind::peer_lost, "lost rank 1", {1}};
    const GroupError late{Kind::timeout, "late"};
    const std::vector<D::Event> events{
        D::WaitSeen{calls, Story::moment(2s)},
        D::WaitEnded{calls, Story::moment(0s)},
        D::ProcessesEnded{calls, {1}},
        D::PeersLate{calls, {1}, 5s},
        D::CallsDiffer{calls, mismatch_between("a", "b")},
        D::ConnectionBroke{calls, 1},
        D::CallFailed{calls, loss},
        D::CallFailed{calls, late, {1, 2}},
        D::CallFailed{calls, mismatch_between("a", "b")},
        D::CallFailed{calls, {Kind::other, "other"}},
        D::CallFailed{calls, {Kind::usage, "usage"}},
        D::WaiterTimedOut{calls, "barrier", {1}},
        D::KeyMissing{calls, "key"},
        D::StoreLost{calls, "store"},
        D::Aborted{},
        D::DeadlinePassed{calls},
        D::ReportRead{calls, loss},
        D::NoReport{calls},
        D::DesyncSeen{calls, mismatch_between("a", "b")},
        D::WaitersRead{calls, {1}},
        D::StoreUnreachable{calls}};
    std::vector<bool> is_walked(std::variant_size_v<D::Event>);
    for (const auto way : ways)
        for (const bool has_reports : {false, true})
            for (const auto& state : states)
                for (const auto& event : events) {
                    is_walked[event.index()] = true;
                    CAPTURE(static_cast<int>(way));
                    CAPTURE(has_reports);
                    CAPTURE(state.first);
                    CAPTURE(event.index());
                    Story story(way, has_reports);
                    state.second(story);
                    const auto before = story.detector.verdict();
                    story.now_said();
                    story.at(3s, event);
                    story.at(3s, event);
                    // One event causes few questions, a verdict is final, and without a store none
                    // is queried.
                    CHECK(story.said.size() <= 4);
                    if (before) CHECK(story.detector.verdict() == before);
                    for (const auto& line : story.now_said())
                        if (!has_reports)
                            CHECK(
                                (line.rfind("read", 0) && line.rfind("compare", 0) &&
                                 line.rfind("does", 0)));
                    // A wait for an answer ends, whatever the answer is.
                    for (auto now = 4s; now < 10s; now += 1s) {
                        for (int i = 0; i < 40; ++i)
                            story.time(now);
                        story.at(now, D::StoreUnreachable{calls});
                    }
                    story.fails(20s, Kind::peer_lost, {1});
                    for (auto now = 20s; now < 23s; now += 1s) {
                        for (int i = 0; i < 40; ++i)
                            story.time(now);
                        story.at(now, D::StoreUnreachable{calls});
                    }
                    CHECK(story.detector.verdict());
                }
    for (std::size_t event = 0; event < is_walked.size(); ++event)
        CHECK_MESSAGE(is_walked[event], event);
}
