// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/server_link.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/supervise/machine_story.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;

namespace {

using L = ServerLink;
using Effects = std::vector<L::Effect>;
using ConnectError = L::ConnectError;

ctl::Welcome a_welcome(bool is_hosted = false) {
    return {"inc", 30s, is_hosted};
}

/// One connection.
struct Story : test::MachineStory<ServerLink> {
    explicit Story(bool has_lease = true)
        : MachineStory(link),
          link({has_lease, 600s, "node1:29400"}, random) {}

    Random random{7};
    ServerLink link;
    /// Like `pass`, but each attempt fails in this way.
    void is_turned_away(ConnectError error, Duration length) {
        const auto end = clock + length;
        while (clock < end) {
            if (const int tried = last_tried(); tried > last_failed_) {
                last_failed_ = tried;
                is(L::LinkClosed{tried, error, "connect to node1:29400"});
            }
            clock = link.next_deadline() ? std::min(end, *link.next_deadline()) : end;
            is(L::DeadlinePassed{});
        }
    }
    int last_tried() const {
        const auto tried = asked_for<L::Connect>();
        return tried.empty() ? 0 : tried.back().link;
    }
    void greets() { is(L::GreetingMade{ctl::Join{}}); }
    Story& admitted(ctl::Welcome welcome = a_welcome()) {
        is(L::ConnectRequested{});
        is(L::LinkOpened{1, "10.0.0.2:40000"});
        greets();
        is(std::move(welcome));
        REQUIRE(link.is_admitted());
        asked();
        return *this;
    }

private:
    int last_failed_ = 0;
};

}  // namespace

namespace ddprun::agent {
doctest::String toString(const std::vector<ServerLink::Effect>& effects) {
    return test::lines_of(effects);
}
}  // namespace ddprun::agent

TEST_CASE("a link connects at once, is greeted once, and is admitted by the welcome") {
    Story story;
    story.is(L::ConnectRequested{});
    CHECK(story.asked() == Effects{L::Connect{1, true, 0s}});
    CHECK_FALSE(story.link.wants_greeting());

    story.is(L::LinkOpened{1, "10.0.0.2:40000"});
    CHECK(story.link.wants_greeting());
    CHECK(story.link.socket_addr() == "10.0.0.2:40000");
    story.greets();
    CHECK(story.asked() == Effects{L::Send{1, ctl::Join{}}});
    CHECK_FALSE(story.link.wants_greeting());
    CHECK_FALSE(story.link.is_admitted());

    story.pass(500ms);
    story.is(a_welcome());
    CHECK(story.link.is_admitted());
    // The time of the sent message counts, once the server has acknowledged it.
    CHECK(story.link.membership()->acknowledged_at == Instant{});
    CHECK(story.link.membership()->valid_until() == Instant{} + 24s);
    CHECK_FALSE(story.link.times_out_at());
}

TEST_CASE("a join that is not answered closes the connection, and another is made") {
    Story story;
    story.is(L::ConnectRequested{});
    story.is(L::LinkOpened{1, ""});
    story.greets();
    story.asked();

    story.pass(limits::handshake_timeout);
    CHECK(story.asked_for<L::CloseLink>() == std::vector{L::CloseLink{1}});
    CHECK(story.asked_for<L::JoinUnanswered>().size() == 1);
    story.pass(1s);
    CHECK(story.asked_for<L::Connect>().size() == 1);
}

TEST_CASE("an answer to a greeting that was not made, or was answered, is stale") {
    Story story;
    story.is(L::ConnectRequested{});
    story.is(L::LinkOpened{1, ""});
    story.asked();
    story.is(a_welcome());
    story.is(ctl::Resumed{});
    CHECK(story.asked() == Effects{L::FoundStale{"welcome"}, L::FoundStale{"resumed"}});

    story.greets();
    story.asked();
    // There is no membership that could be resumed.
    story.is(ctl::Resumed{});
    CHECK(story.asked() == Effects{L::FoundStale{"resumed"}});
    story.is(a_welcome());
    story.is(a_welcome());
    CHECK(story.asked() == Effects{L::FoundStale{"welcome"}});
}

TEST_CASE("a lost server is noted and called again at once, and noted when it is back") {
    Story story;
    story.admitted();
    story.is(L::LinkClosed{1, ConnectError::lost, "reset"});
    // A server on this node would not know the job.
    CHECK(story.asked() == Effects{L::NoteServerLost{"reset"}, L::Connect{2, false, 0s}});

    story.is(L::LinkOpened{2, ""});
    story.greets();
    story.asked();
    story.is(ctl::Resumed{});
    CHECK(story.asked() == Effects{L::NoteServerBack{}});
}

TEST_CASE("an answered heartbeat counts from when it was sent") {
    Story story;
    story.admitted();
    story.pass(2s);
    CHECK(story.asked() == Effects{L::Send{1, ctl::Heartbeat{1}}, L::Send{1, ctl::Heartbeat{2}}});
    story.pass(900ms);
    // A question from the server is no acknowledgement.
    story.is(ctl::HeartbeatAck{0, 4});
    CHECK(story.link.membership()->acknowledged_at == Instant{});
    story.is(ctl::HeartbeatAck{1});
    CHECK(story.link.membership()->acknowledged_at == Instant{} + 1s);
    story.is(ctl::HeartbeatAck{2});
    CHECK(story.link.membership()->acknowledged_at == Instant{} + 2s);
}

TEST_CASE("a node alone sends no heartbeats") {
    Story story(false);
    story.admitted();
    story.pass(3600s);
    CHECK(story.asked().empty());
}

TEST_CASE("a silent connection gets a second one beside it, which replaces it") {
    Story story;
    story.admitted();
    story.pass(3s);
    REQUIRE(story.asked_for<L::Connect>() == std::vector{L::Connect{2, false, 3s}});
    CHECK(story.link.is_admitted());
    story.asked();

    SUBCASE("it speaks again") {
        story.is(ctl::HeartbeatAck{3});
        CHECK(story.asked() == Effects{L::CloseLink{2}});
        CHECK_FALSE(story.link.times_out_at());
    }
    SUBCASE("the second is there first") {
        story.is(L::LinkOpened{2, ""});
        CHECK(story.asked() == Effects{L::CloseLink{1}});
        CHECK(story.link.wants_greeting());
    }
    SUBCASE("it closes while the second is tried") {
        story.is(L::LinkClosed{1, ConnectError::lost, "reset"});
        CHECK(story.asked() == Effects{L::NoteServerLost{"reset"}});
    }
    // The wait for the server counts from the last message that it acknowledged.
    if (story.link.times_out_at()) CHECK(story.link.times_out_at() == Instant{} + 600s);
}

TEST_CASE("only a server that a ddprun hosts is gone when nothing listens for a second") {
    for (const bool is_hosted : {true, false}) {
        Story story;
        story.admitted(a_welcome(is_hosted));
        story.is(L::LinkClosed{1, ConnectError::lost, "reset"});
        story.is_turned_away(ConnectError::refused, 900ms);
        CHECK(story.asked_for<L::ServerGone>().empty());
        story.is_turned_away(ConnectError::refused, 400ms);
        CHECK(story.asked_for<L::ServerGone>().empty() == !is_hosted);
        if (is_hosted)
            CHECK(
                story.asked_for<L::ServerGone>().front() ==
                L::ServerGone{
                    "the ddprun that hosts the rendezvous is gone (connect to node1:29400)"});
    }
}

TEST_CASE("while other nodes vote no server's loss is the job's, and then it is again") {
    Story story;
    story.admitted(a_welcome(true));
    story.is(L::SuccessionChanged{true});
    story.is(L::LinkClosed{1, ConnectError::lost, "reset"});
    CHECK(story.link.times_out_at() == Instant{} + 600s);
    story.is_turned_away(ConnectError::refused, 900ms);
    story.is_turned_away(ConnectError::refused, 400ms);
    CHECK(story.asked_for<L::ServerGone>().empty());

    story.is(L::SuccessionChanged{false});
    CHECK(story.link.times_out_at() == Instant{} + 24s);
    // Before there is a server nothing is kept.
    Story fresh;
    fresh.is(L::SuccessionChanged{false});
    CHECK(fresh.asked().empty());
}

TEST_CASE("another problem in between begins the second of a refusing host again") {
    Story story;
    story.admitted(a_welcome(true));
    story.is(L::LinkClosed{1, ConnectError::lost, "reset"});
    story.is_turned_away(ConnectError::refused, 800ms);
    story.is_turned_away(ConnectError::no_answer, 300ms);
    story.is_turned_away(ConnectError::refused, 800ms);
    CHECK(story.asked_for<L::ServerGone>().empty());
}

TEST_CASE("a node that is refused for now comes back when the server says, and says why at last") {
    Story story;
    story.is(L::ConnectRequested{});
    story.is(L::LinkOpened{1, ""});
    story.greets();
    story.pass(2s);
    story.asked();
    story.is(ctl::Refused{"the earlier run is ending", 1s});
    CHECK(story.asked() == Effects{L::CloseLink{1}, L::NoteStandby{"the earlier run is ending"}});

    story.pass(1s);
    // The server answers; a wait for an answer that does not come begins again.
    CHECK(story.asked_for<L::Connect>() == std::vector{L::Connect{2, true, 1s}});
    story.asked();
    story.is(L::TimedOut{});
    CHECK(story.asked() == Effects{L::Rejected{"the earlier run is ending"}});
}

TEST_CASE("a refusal for good, from the server or from this system, rejects the node") {
    Story story;
    story.is(L::ConnectRequested{});
    story.asked();
    SUBCASE("the server") {
        story.is(L::LinkOpened{1, ""});
        story.greets();
        story.asked();
        story.is(ctl::Refused{"nnodes differ", std::nullopt});
        CHECK(story.asked() == Effects{L::Rejected{"nnodes differ"}});
    }
    SUBCASE("the system") {
        story.is(L::ConnectRefused{"port 29400 is in use"});
        CHECK(story.asked() == Effects{L::Rejected{"port 29400 is in use"}});
        CHECK(story.link.next_deadline() == Instant{} + 3s);  // the note; no attempt follows
    }
}

TEST_CASE("the wait for a server ends after join_timeout, for a hosted one with its lease") {
    Story story;
    story.is(L::ConnectRequested{});
    CHECK(story.link.times_out_at() == Instant{} + 600s);
    story.is_turned_away(ConnectError::unresolved, 600s);
    story.asked();
    story.is(L::TimedOut{});
    CHECK(
        story.asked() ==
        Effects{L::ServerGone{
            "name does not resolve at node1:29400 for 600 s (connect to node1:29400)"}});

    Story hosted;
    hosted.admitted(a_welcome(true));
    hosted.is(L::LinkClosed{1, ConnectError::lost, "reset"});
    CHECK(hosted.link.times_out_at() == Instant{} + 24s);
}

TEST_CASE("a wait that another server answered is not said to have had no answer") {
    Story story;
    story.is(L::ConnectRequested{});
    story.is_turned_away(ConnectError::wrong_protocol, 600s);
    story.asked();
    story.is(L::TimedOut{});
    CHECK(
        story.asked() ==
        Effects{
            L::ServerGone{"no ddprun answers at node1:29400 for 600 s (connect to node1:29400)"}});
}

TEST_CASE("a wait is noted after three seconds, ten later, and then ever less often") {
    Story story;
    story.is(L::ConnectRequested{});
    story.is_turned_away(ConnectError::no_answer, 60s);
    const auto notes = story.asked_for<L::NoteWaiting>();
    REQUIRE(notes.size() == 4);
    CHECK(notes[0] == L::NoteWaiting{ConnectError::no_answer, "connect to node1:29400", 3s});
    CHECK(notes[1].waited == 13s);
    CHECK(notes[2].waited == 26s);
    CHECK(notes[3].waited == 52s);
}

TEST_CASE("attempts come close together at first, later only while workers depend on it") {
    for (const bool has_workers : {false, true}) {
        Story story;
        story.is(L::ConnectRequested{});
        if (has_workers) story.is(L::WorkersStarted{});
        story.is_turned_away(ConnectError::refused, 100s);
        story.asked();
        story.is_turned_away(ConnectError::refused, 100s);
        const auto count = story.asked_for<L::Connect>().size();
        CHECK(count >= (has_workers ? 500u : 15u));
        CHECK(count <= (has_workers ? 1'000u : 60u));
        if (!has_workers) continue;
        story.is(L::WorkersEnded{});
        story.asked();
        story.is_turned_away(ConnectError::refused, 100s);
        CHECK(story.asked_for<L::Connect>().size() < 100);
    }
}

TEST_CASE("after the fence the old connections are closed and the next one waits a moment") {
    Story story;
    story.admitted();
    story.pass(3s);
    story.asked();
    story.is(L::ReconnectRequested{});
    CHECK(story.asked() == Effects{L::CloseLink{1}, L::CloseLink{2}});
    story.pass(200ms);
    CHECK(story.asked_for<L::Connect>().size() == 1);
}

TEST_CASE("a connection that was kept for a result is the last one") {
    Story story;
    story.admitted();
    story.is(L::ResultAwaited{});
    story.is(L::LinkClosed{1, ConnectError::lost, "closed"});
    CHECK(story.asked() == Effects{L::Ended{}});
    CHECK_FALSE(story.link.next_deadline());
}

TEST_CASE("a new membership may not host, and is greeted by a join") {
    Story story;
    story.admitted();
    story.is(L::DisconnectRequested{});
    CHECK(story.asked() == Effects{L::CloseLink{1}});
    story.is(L::ConnectRequested{});
    CHECK(story.asked() == Effects{L::Connect{2, false, 0s}});
    CHECK_FALSE(story.link.membership());
}

TEST_CASE("events about links that are neither current nor tried change nothing") {
    Story story;
    story.admitted();
    story.is(L::LinkOpened{9, ""});
    story.is(L::LinkClosed{9, ConnectError::lost, "reset"});
    CHECK(story.asked().empty());
    CHECK(story.link.is_admitted());
}

TEST_CASE("every event has an answer in every state of a link") {
    enum class State { idle, trying, pausing, open, greeted, admitted, silent, refused };
    const auto in_state = [](State state) {
        auto story = std::make_unique<Story>();
        if (state == State::idle) return story;
        story->is(L::ConnectRequested{});
        if (state == State::trying) return story;
        if (state == State::pausing) {
            story->is(L::LinkClosed{1, ConnectError::refused, "refused"});
            return story;
        }
        story->is(L::LinkOpened{1, "10.0.0.2:1"});
        if (state == State::open) return story;
        story->greets();
        if (state == State::greeted) return story;
        if (state == State::refused) {
            story->is(ctl::Refused{"later", 1s});
            return story;
        }
        story->is(a_welcome());
        if (state == State::silent) story->pass(3s);
        return story;
    };
    // GreetingMade answers `wants_greeting`, so it is only tried when that is true.
    const std::vector<L::Event> events{
        L::ConnectRequested{},
        L::LinkOpened{1, ""},
        L::LinkOpened{2, ""},
        L::LinkClosed{1, ConnectError::lost, "reset"},
        L::LinkClosed{2, ConnectError::refused, "refused"},
        L::ConnectRefused{"port in use"},
        L::GreetingMade{ctl::Join{}},
        a_welcome(),
        ctl::Resumed{},
        ctl::Refused{"later", 1s},
        ctl::Refused{"no", std::nullopt},
        ctl::HeartbeatAck{1},
        L::WorkersStarted{},
        L::WorkersEnded{},
        L::ReconnectRequested{},
        L::DisconnectRequested{},
        L::ResultAwaited{},
        L::TimedOut{},
        L::DeadlinePassed{}};
    const auto happens = [](Story& story, const L::Event& event) {
        const bool is_greeting = std::holds_alternative<L::GreetingMade>(event);
        if (!is_greeting || story.link.wants_greeting()) story.is(event);
        CHECK_FALSE(describe(event).empty());
    };
    for (const auto state :
         {State::idle,
          State::trying,
          State::pausing,
          State::open,
          State::greeted,
          State::admitted,
          State::silent,
          State::refused})
        for (const auto& first : events)
            for (const auto& second : events) {
                CAPTURE(static_cast<int>(state));
                CAPTURE(describe(first));
                CAPTURE(describe(second));
                const auto story = in_state(state);
                happens(*story, first);
                happens(*story, second);
                for (const auto& effect : story->asked())
                    CHECK_FALSE(describe(effect).empty());
                story->pass(40s);
                const auto next = story->link.next_deadline();
                CHECK((!next || *next > story->clock));
            }
}
