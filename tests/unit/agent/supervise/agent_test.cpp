// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/supervise/story.hpp"
#include "worker_sdk/src/sanitizers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;

namespace {

ctl::WorkerFailure failure_of_rank(int rank, const WorkerExit& exit, std::string message) {
    ctl::WorkerFailure failure;
    failure.rank = rank;
    failure.local_rank = rank;
    failure.pid = 100 + rank;
    failure.end = to_worker_end(exit);
    failure.message = std::move(message);
    return failure;
}

}  // namespace

TEST_CASE("an agent opens a store, connects, and joins when it has both") {
    Story story;

    story.is(A::Began{});
    CHECK(story.asked() == Effects{A::OpenStore{}, A::Connect{1, true, 0s}});
    story.is(A::LinkOpened{1, "10.0.0.2:40000"});
    CHECK(story.asked().empty());
    story.is(A::StoreOpened{first_store});

    REQUIRE(story.said<ctl::Join>().size() == 1);
    const auto join = story.said<ctl::Join>().front();
    CHECK(join.run_id == "job");
    CHECK(join.store_port == first_store);
    CHECK(join.peer_port == 20'009);
    CHECK(join.socket_addr == "10.0.0.2:40000");
    CHECK(join.nproc == 2);
}

TEST_CASE("a server that says hello and does not answer the join is asked again") {
    Story story;
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});
    story.gets_through();
    story.asked();

    story.pass(limits::handshake_timeout);

    // Other nodes may know the store of that join.
    CHECK(story.asked_for<A::CloseLink>() == std::vector{A::CloseLink{1}});
    CHECK(story.asked_for<A::CloseStore>() == std::vector{A::CloseStore{first_store}});
    CHECK(story.asked_for<A::OpenStore>().size() == 1);
    story.is(A::StoreOpened{second_store});
    story.pass(1s);
    story.gets_through();
    REQUIRE(story.said<ctl::Join>().size() == 1);
    CHECK(story.said<ctl::Join>().front().store_port == second_store);
    story.hears(a_welcome());
    story.asked();
    story.pass(limits::handshake_timeout * 2);
    CHECK(story.asked_for<A::CloseLink>().empty());
}

TEST_CASE("a healthy job of one node: joined, started, succeeded, result, end") {
    Story story;
    story.joined();
    story.asked();

    story.hears(an_assignment());
    CHECK(
        story.asked() == Effects{
                             A::SpawnWorkers{an_assignment(), "inc", "10.0.0.2"},
                             A::CheckStore{0, {"10.0.0.1", first_store}}});
    story.is(A::WorkerSpawned{0, 100});
    CHECK(story.asked().empty());
    story.is(A::WorkerSpawned{1, 101});
    CHECK(story.asked() == Effects{A::Send{1, ctl::Started{0, 0}}});

    story.all_exit(success);
    CHECK(story.asked() == Effects{A::Send{1, ctl::Succeeded{0}}});
    CHECK(story.agent.phase() == Phase::succeeded);

    story.hears(ctl::JobResult{ctl::Outcome::succeeded, std::nullopt, 0});
    CHECK(
        story.asked() ==
        Effects{G::SignalSession{0, SIGTERM}, G::SignalSession{1, SIGTERM}, G::CountLeftovers{}});
    story.has_no_leftovers();
    CHECK(story.report().exit_code == 0);
    CHECK(story.report().outcome == ctl::Outcome::succeeded);
    const Effects end{
        A::CleanUpRound{0}, A::CloseLink{1}, A::CloseStore{first_store}, A::Finish{story.report()}};
    CHECK(story.asked() == end);
    CHECK_FALSE(story.agent.next_deadline());
}

TEST_CASE("a worker's death stops the others at once and is reported with its age and its text") {
    Story story;
    story.running();

    story.is(A::WorkerExited{1, crash});
    CHECK(
        story.asked() == Effects{
                             A::ExplainFailure{0, 1},
                             A::OpenStore{},
                             G::SignalLeader{0, SIGTERM},
                             G::SignalSession{1, SIGTERM}});

    story.is_after(10ms, A::FailureExplained{0, 1, "ValueError: x", "Traceback", false});
    auto failure = failure_of_rank(1, crash, "ValueError: x");
    failure.details = "Traceback";
    CHECK(story.asked() == Effects{A::Send{1, ctl::Failed{0, 10ms, failure, std::nullopt}}});
}

TEST_CASE("a failed round ends with ready, a fresh store, and then the next round") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, crash});
    story.is(A::FailureExplained{0, 1, "", "", false});
    story.is(A::StoreOpened{second_store});
    story.hears(a_stop());
    story.asked();

    story.is(A::WorkerExited{0, by_sigterm});
    story.has_no_leftovers();
    CHECK(
        story.asked() == Effects{
                             G::SignalSession{0, SIGTERM},
                             G::CountLeftovers{},
                             A::CleanUpRound{0},
                             A::Send{1, ctl::Ready{0, second_store, 2}}});
    CHECK(story.agent.phase() == Phase::joining);

    story.hears(an_assignment(1));
    CHECK(
        story.asked() == Effects{
                             A::CloseStore{first_store},
                             A::SpawnWorkers{an_assignment(1), "inc", "10.0.0.2"},
                             A::CheckStore{1, {"10.0.0.1", first_store}}});
}

TEST_CASE("ready waits for the store and for the failure's words") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, crash});
    story.is(A::WorkerExited{0, by_sigterm});
    story.has_no_leftovers();
    CHECK(story.said<ctl::Ready>().empty());

    story.is(A::StoreOpened{second_store});
    CHECK(story.said<ctl::Ready>().empty());
    story.asked();
    story.is(A::FailureExplained{0, 1, "", "", false});

    CHECK(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Ready>().size() == 1);
    CHECK(story.said<ctl::Failed>().front().failure.message == "exited with code 3");
}

TEST_CASE("the error files stay until the failure is explained") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, crash});
    story.is(A::WorkerExited{0, by_sigterm});
    story.has_no_leftovers();
    CHECK(story.asked_for<A::CleanUpRound>().empty());

    story.is(A::FailureExplained{0, 1, "boom", "", false});

    CHECK(story.asked_for<A::CleanUpRound>() == std::vector<A::CleanUpRound>{{0}});
}

TEST_CASE("a death in its settle window keeps its error file when a stop ends the round") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, by_sigterm});
    story.hears(a_stop());
    story.is(A::WorkerExited{0, by_sigterm});
    story.has_no_leftovers();
    CHECK(story.asked_for<A::CleanUpRound>().empty());

    story.pass(6s);

    REQUIRE(story.asked_for<A::ExplainFailure>().size() == 1);
    CHECK(story.asked_for<A::CleanUpRound>().size() == 1);
}

TEST_CASE("a disk that does not answer cannot keep a failure secret") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, crash});

    story.pass(5s);

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Failed>().front().age == 5s);
}

TEST_CASE("a worker that died of its neighbour's death is not the root cause") {
    Story story;
    story.running();
    story.is(A::WorkerExited{0, crash});
    story.is(A::WorkerExited{1, WorkerExit{WorkerExit::Killed{SIGSEGV, true}}});
    story.asked();

    story.is(A::FailureExplained{0, 0, "PeerLost: rank 1", "", true});
    CHECK(story.asked() == Effects{A::ExplainFailure{0, 1}});
    story.is(A::FailureExplained{0, 1, "", "", false});

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Failed>().front().failure.rank == 1);
}

TEST_CASE("when all say that they died of another's death, the first one is reported") {
    Story story;
    story.running();
    story.is(A::WorkerExited{0, crash});

    story.is(A::FailureExplained{0, 0, "PeerLost: rank 9", "", true});

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Failed>().front().failure.is_secondary);
}

TEST_CASE("a crash that takes longer to end than what died of it is reported, too, before ready") {
    Story story;
    story.running();
    story.is(A::WorkerExited{0, crash});
    story.is(A::FailureExplained{0, 0, "PeerLost: rank 1", "", true});
    REQUIRE(story.said<ctl::Failed>().size() == 1);
    story.asked();

    story.is(A::WorkerExited{1, WorkerExit{WorkerExit::Killed{SIGSEGV, true}}});
    story.has_no_leftovers();
    story.is(A::StoreOpened{second_store});
    CHECK(story.said<ctl::Ready>().empty());
    story.is(A::FailureExplained{0, 1, "", "", false});

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Failed>().front().failure.rank == 1);
    CHECK_FALSE(story.said<ctl::Failed>().front().failure.is_secondary);
    CHECK(story.said<ctl::Ready>().size() == 1);
}

TEST_CASE("a crash before the stop came is reported when no root cause is known") {
    const WorkerExit killed{WorkerExit::Killed{SIGKILL, false}};
    Story story;
    story.running();
    auto stop = a_stop();
    stop.root_cause.worker.emplace();
    stop.root_cause.worker->is_secondary = true;
    SUBCASE("by SIGKILL from another process") {
        story.hears(stop);
        story.is(A::WorkerExited{1, killed});
        story.is(A::FailureExplained{0, 1, "", "", false});
        CHECK(story.said<ctl::Failed>().size() == 1);
    }
    SUBCASE("not what this agent kills when the grace is over") {
        story.hears(stop);
        story.pass(stop.grace);
        story.is(A::WorkerExited{1, killed});
        CHECK(story.said<ctl::Failed>().empty());
    }
    SUBCASE("not what the stop's own signal ends") {
        story.hears(stop);
        story.is(A::WorkerExited{1, by_sigterm});
        CHECK(story.said<ctl::Failed>().empty());
    }
    SUBCASE("not when it is known") {
        stop.root_cause.worker->is_secondary = false;
        story.hears(stop);
        story.is(A::WorkerExited{1, killed});
        CHECK(story.said<ctl::Failed>().empty());
    }
    SUBCASE("not when the round is stopped for something else") {
        story.hears(a_stop());
        story.is(A::WorkerExited{1, killed});
        CHECK(story.said<ctl::Failed>().empty());
    }
    SUBCASE("not when this node is signalled to leave") {
        story.is(A::Signalled{SIGTERM});
        story.is(A::WorkerExited{1, killed});
        CHECK(story.said<ctl::Failed>().empty());
    }
}

namespace {

/// An assignment for two nodes; this node is the second.
ctl::Assignment an_assignment_of_two() {
    auto assignment = an_assignment(2);
    assignment.group_rank = 1;
    assignment.group_world_size = 2;
    assignment.rank_base = 4;
    assignment.world_size = 6;
    return assignment;
}

A::GiveNotice notice_of_rank(int rank) {
    return {2, {{"10.0.0.1", first_store}, "/ddprun/inc/2/2/deaths", {rank}}};
}

}  // namespace

TEST_CASE("the other workers are notified of a death before any process is signalled") {
    Story story(a_config(2));
    story.gives_notices = false;
    story.running(an_assignment_of_two());

    story.is(A::WorkerExited{1, by_sigkill});
    CHECK(story.asked() == Effects{A::ExplainFailure{2, 1}, notice_of_rank(5)});
    // The server stops the other nodes, so the report to it must not come earlier either.
    story.is(A::FailureExplained{2, 1, "", "", false});
    CHECK(story.asked().empty());

    story.is_after(1ms, A::NoticeGiven{2});
    auto failure = failure_of_rank(1, by_sigkill, "killed by SIGKILL");
    failure.rank = 5;
    CHECK(
        story.asked() == Effects{
                             G::SignalLeader{0, SIGTERM},
                             G::SignalSession{1, SIGTERM},
                             A::Send{1, ctl::Failed{2, 1ms, failure, std::nullopt}}});
}

TEST_CASE("of one node alone the workers read of a death, too, unless there is one worker") {
    for (const int count : {1, 2}) {
        Story story;
        story.gives_notices = false;
        auto assignment = an_assignment(2);
        assignment.world_size = count;
        story.running(assignment);

        story.is(A::WorkerExited{1, by_sigkill});

        CHECK(story.asked_for<A::GiveNotice>().size() == static_cast<std::size_t>(count - 1));
    }
}

TEST_CASE("a store that does not take the notice holds up nothing for long") {
    Story story(a_config(2));
    story.gives_notices = false;
    story.running(an_assignment_of_two());
    story.is(A::WorkerExited{1, crash});
    story.is(A::FailureExplained{2, 1, "", "", false});

    story.pass(limits::death_notice_timeout);

    CHECK(story.asked_for<G::SignalLeader>().size() == 1);
    CHECK(story.said<ctl::Failed>().size() == 1);
    story.asked();
    story.is(A::NoticeGiven{2});
    CHECK(story.asked().empty());
}

TEST_CASE("a stop that comes while a death is being announced does not wait for it") {
    Story story(a_config(2));
    story.gives_notices = false;
    story.running(an_assignment_of_two());
    story.is(A::WorkerExited{1, crash});
    story.is(A::FailureExplained{2, 1, "", "", false});

    story.hears(a_stop(2));

    CHECK(story.asked_for<G::SignalLeader>().size() == 1);
    CHECK(story.said<ctl::Failed>().size() == 1);
}

TEST_CASE("a connection that comes back while a death is being announced says nothing of it yet") {
    Story story(a_config(2));
    story.gives_notices = false;
    story.running(an_assignment_of_two());
    story.is(A::WorkerExited{1, crash});
    story.is(A::FailureExplained{2, 1, "", "", false});
    story.loses_server();
    story.gets_through();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK_FALSE(story.said<ctl::Resume>().front().failure);
    story.hears(ctl::Resumed{});

    story.is(A::NoticeGiven{2});

    CHECK(story.said<ctl::Failed>().size() == 1);
}

TEST_CASE("a death in its settle window is explained also when a stop has ended the round") {
    Story story(a_config(2));
    story.gives_notices = false;
    story.running(an_assignment_of_two());
    story.is(A::WorkerExited{1, by_sigterm});
    story.hears(a_stop(2));
    story.is(A::WorkerExited{0, by_sigterm});
    story.has_no_leftovers();
    story.asked();

    story.pass(limits::settle_window);

    CHECK(story.asked_for<A::ExplainFailure>().size() == 1);
    CHECK(story.asked_for<A::GiveNotice>().empty());
    story.is(A::FailureExplained{2, 1, "", "", false});
    CHECK(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Ready>().size() == 1);
}

TEST_CASE("all workers may die while the death of the first is being announced") {
    Story story(a_config(2));
    story.gives_notices = false;
    story.running(an_assignment_of_two());
    story.is(A::WorkerExited{1, by_sigkill});
    story.is(A::WorkerExited{0, by_sigkill});
    story.is(A::FailureExplained{2, 1, "", "", false});

    story.is(A::NoticeGiven{2});
    story.has_no_leftovers();

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Failed>().front().failure.rank == 5);
    CHECK(story.said<ctl::Ready>().size() == 1);
}

TEST_CASE("where workers serve their own store no death is announced through it") {
    auto config = a_config(2);
    config.shares_store = false;
    Story story(config);
    story.gives_notices = false;
    story.running(an_assignment_of_two());

    story.is(A::WorkerExited{1, crash});

    CHECK(story.asked_for<A::GiveNotice>().empty());
    CHECK(story.asked_for<G::SignalLeader>().size() == 1);
}

TEST_CASE("a program that cannot be executed is reported as such, with no file to read") {
    Story story;
    story.joined();
    story.hears(an_assignment());
    story.asked();

    story.is(A::WorkerExited{0, WorkerExit{WorkerExit::NotExecuted{2, "/bin/train"}}});

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Failed>().front().kind == ctl::Cause::Kind::not_executable);
    CHECK(story.asked_for<A::ExplainFailure>().empty());
    CHECK(story.asked_for<G::CancelSpawns>().size() == 1);
}

TEST_CASE("a worker that the system could not start is an ordinary failure with its reason") {
    Story story;
    story.joined();
    story.hears(an_assignment());
    story.asked();

    story.is(A::WorkerExited{0, WorkerExit{WorkerExit::NotStarted{"start /bin/train: no memory"}}});
    story.is(A::FailureExplained{0, 0, "", "", false});

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    const auto failed = story.said<ctl::Failed>().front();
    CHECK(failed.kind == std::nullopt);
    CHECK(failed.failure.end == ctl::WorkerEnd{ctl::WorkerEnd::Kind::exited, 1});
    CHECK(failed.failure.message == "could not be started: start /bin/train: no memory");
}

TEST_CASE("a round's store that is out of reach fails the round with that reason") {
    Story story;
    story.running();

    story.is(A::StoreChecked{0, "connect to 10.0.0.1:20001: timed out"});

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    const auto failed = story.said<ctl::Failed>().front();
    CHECK(failed.kind == ctl::Cause::Kind::store_unreachable);
    CHECK(failed.failure.message == "connect to 10.0.0.1:20001: timed out");
    CHECK(story.agent.phase() == Phase::stopping);
}

TEST_CASE("a store that answers, and an answer about an old round, change nothing") {
    Story story;
    story.running(an_assignment(4));

    story.is(A::StoreChecked{4, ""});
    story.is(A::StoreChecked{3, "refused"});

    CHECK(story.asked().empty());
}

TEST_CASE("without a shared store the port is left to worker rank 0 and is not checked") {
    auto config = a_config();
    config.shares_store = false;
    Story story(config);
    story.joined();
    story.asked();

    story.hears(an_assignment());

    CHECK(
        story.asked() ==
        Effects{A::CloseStore{first_store}, A::SpawnWorkers{an_assignment(), "inc", "10.0.0.2"}});
}

TEST_CASE("a node that outlived a round says what it waits for, and for how long") {
    Story story(a_config(2));
    story.running();
    story.hears(a_stop());
    story.is(A::StoreOpened{second_store});
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.asked();

    story.pass(1s);
    CHECK(story.asked_for<A::NoteStandby>().empty());
    story.pass(1s);
    REQUIRE(story.asked_for<A::NoteStandby>().size() == 1);
    const auto reason = story.asked_for<A::NoteStandby>().front().reason;
    CHECK(
        reason == "round 0 is over (" + a_stop().reason +
                      "); waiting for the other nodes, or a replacement, at most 600 s");
}

TEST_CASE("a node that outlived a round names the shorter or longer wait for a replacement too") {
    auto config = a_config(2);
    config.join.settings.replacement_timeout = 60s;
    Story story(config);
    story.running();
    story.hears(a_stop());
    story.is(A::StoreOpened{second_store});
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.pass(2s);

    REQUIRE(story.asked_for<A::NoteStandby>().size() == 1);
    const auto reason = story.asked_for<A::NoteStandby>().front().reason;
    CHECK(reason.ends_with("or a replacement, at most 600 s, for a replacement 60 s"));
}

TEST_CASE("a node that is not the first keeps its unused store for the next round") {
    Story story(a_config(2));
    auto assignment = an_assignment();
    assignment.group_rank = 1;
    story.running(assignment);

    story.hears(a_stop());
    CHECK(story.asked_for<A::OpenStore>().empty());
    story.all_exit(by_sigterm);
    story.has_no_leftovers();

    REQUIRE(story.said<ctl::Ready>().size() == 1);
    CHECK(story.said<ctl::Ready>().front().store_port == first_store);
}

TEST_CASE("a stop ends the round with its signal and its grace") {
    Story story;
    story.running();
    auto stop = a_stop();
    stop.how = SIGINT;
    stop.grace = 5s;

    story.hears(stop);
    CHECK(
        story.asked() == Effects{
                             A::NoteStopping{0, stop.reason},
                             A::OpenStore{},
                             G::SignalLeader{0, SIGINT},
                             G::SignalLeader{1, SIGINT}});
    story.pass(5s);
    CHECK(story.asked() == Effects{G::KillSession{0}, G::KillSession{1}});
}

TEST_CASE("a stop because of this node's own failed worker is not noted again") {
    for (const int root_cause : {1, 7}) {
        CAPTURE(root_cause);
        Story story(a_config(2));
        story.running();
        story.is(A::WorkerExited{1, crash});
        story.is(A::FailureExplained{0, 1, "", "", false});
        story.asked();
        auto stop = a_stop();
        stop.root_cause.worker.emplace().rank = root_cause;

        story.hears(stop);

        CHECK(story.asked_for<A::NoteStopping>().empty() == (root_cause == 1));
    }
}

TEST_CASE("a stop because of this node's own Ctrl-C is not noted again, one of another's is") {
    for (const bool is_own : {true, false}) {
        CAPTURE(is_own);
        Story story(a_config(2));
        story.running();
        if (is_own) story.is(A::Signalled{SIGINT});
        story.asked();
        auto stop = a_stop();
        stop.root_cause.kind = ctl::Cause::Kind::cancelled;
        stop.root_cause.signal = SIGINT;

        story.hears(stop);

        CHECK(story.asked_for<A::NoteStopping>().empty() == is_own);
    }
}

TEST_CASE("nodes that are missing are noted with what each of them is started with") {
    Story story(a_config(2));
    story.joined();
    story.asked();

    story.hears(ctl::Standby{"1 of 2 nodes is here (here)", 1});
    CHECK(
        story.asked() ==
        Effects{A::NoteMissing{
            "1 of 2 nodes is here (here)",
            "on each missing node: ddprun --nnodes=1:2 --rdzv-endpoint=node1:29400 --rdzv-id=job "
            "..."}});
    story.hears(ctl::Standby{"the job is full", 0});
    CHECK(story.asked() == Effects{A::NoteStandby{"the job is full"}});
}

TEST_CASE("a stop with SIGKILL gives no grace") {
    Story story;
    story.running();
    auto stop = a_stop();
    stop.how = SIGKILL;

    story.hears(stop);

    CHECK(story.asked_for<G::KillSession>().size() == 2);
    CHECK(story.asked_for<G::SignalLeader>().empty());
}

TEST_CASE("messages about another round are dropped and counted") {
    Story story;
    story.running(an_assignment(4));

    story.hears(a_stop(3));
    story.hears(an_assignment(3));
    story.hears(an_assignment(5));
    story.hears(an_assignment(4));  // after a resume the server repeats itself: not counted

    CHECK(story.agent.stale_count() == 3);
    CHECK(story.asked_for<G::SignalLeader>().empty());
    CHECK(story.asked_for<A::SpawnWorkers>().empty());
    CHECK(story.agent.phase() == Phase::running);
}

TEST_CASE("what an earlier connection still delivers means nothing") {
    Story story;
    story.running();

    story.is(A::Received{story.link + 7, a_stop()});

    CHECK(story.asked().empty());
}

// ---- signals ------------------------------------------------------------------------------------

TEST_CASE("SIGINT: the workers get it, the server learns that a person ended the job") {
    Story story;
    story.running();

    story.is(A::Signalled{SIGINT});
    CHECK(
        story.asked() == Effects{
                             A::Send{1, ctl::Leave{"interrupted by SIGINT on here", SIGINT}},
                             A::NoteInterrupt{30s},
                             G::SignalLeader{0, SIGINT},
                             G::SignalLeader{1, SIGINT}});
    story.all_exit(WorkerExit{WorkerExit::Killed{SIGINT}});
    story.has_no_leftovers();
    CHECK(story.said<ctl::Ready>().size() == 1);

    story.hears(ctl::JobResult{ctl::Outcome::cancelled, std::nullopt, 130});
    CHECK(story.report().exit_code == 130);
}

TEST_CASE("a second SIGINT kills now, a repeated SIGTERM changes nothing") {
    Story story;
    story.running();
    story.is(A::Signalled{SIGTERM});
    story.asked();

    story.is(A::Signalled{SIGTERM});
    story.is(A::Signalled{SIGHUP});
    CHECK(story.asked().empty());

    story.is(A::Signalled{SIGINT});
    CHECK(story.asked() == Effects{G::KillSession{0}, G::KillSession{1}});
}

TEST_CASE(
    "a node that is signalled to leave goes when its workers are gone, with 128 + the signal") {
    Story story(a_config(2));
    story.running();
    story.is(A::Signalled{SIGTERM});
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    CHECK(story.agent.phase() == Phase::joining);

    story.pass(2s);

    CHECK(story.report().exit_code == 143);
    CHECK(story.report().outcome == ctl::Outcome::cancelled);
}

TEST_CASE("a server that closes on a node that has left is not waited for") {
    Story story(a_config(2));
    story.running();
    story.is(A::Signalled{SIGTERM});
    story.all_exit(by_sigterm);
    story.has_no_leftovers();

    story.loses_server();

    CHECK(story.report().exit_code == 143);
}

TEST_CASE("a hosting node that is signalled to stop ends the job for all nodes") {
    Story story(a_config(2));
    story.is(A::HostingChanged{true});
    story.running();

    story.is(A::Signalled{SIGTERM});

    CHECK(story.asked_for<A::InterruptServer>().size() == 1);
    CHECK(story.said<ctl::Leave>().empty());
    CHECK(story.asked_for<G::SignalLeader>().size() == 2);
}

TEST_CASE("a round that its server began before it heard of the signal has no workers here") {
    Story story(a_config(2));
    story.is(A::HostingChanged{true});
    story.running();
    story.is(A::Signalled{SIGTERM});
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.asked();

    story.hears(an_assignment(1));

    CHECK(story.said<ctl::Ready>() == std::vector{ctl::Ready{1, first_store, 2}});
    CHECK(story.asked_for<A::SpawnWorkers>().empty());
}

TEST_CASE("a signal before any server answered ends the node at once") {
    Story story;
    story.is(A::Began{});

    story.is(A::Signalled{SIGTERM});

    CHECK(story.report().exit_code == 143);
}

TEST_CASE("workers that a scheduler has signalled get no second signal") {
    Story story;
    story.running();

    story.is(A::Signalled{SIGTERM, true});

    CHECK(story.asked_for<G::SignalLeader>().empty());
    CHECK(story.agent.phase() == Phase::stopping);
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    CHECK(story.said<ctl::Failed>().empty());
}

TEST_CASE("where every process of a step is signalled, another node's signal comes here too") {
    const auto config = [](bool is_signalled_as_a_whole) {
        auto whole = a_config(2);
        whole.is_signalled_as_a_whole = is_signalled_as_a_whole;
        return whole;
    };
    ctl::Stop stop;
    stop.grace = 30s;
    stop.root_cause.kind = ctl::Cause::Kind::cancelled;
    stop.root_cause.signal = SIGTERM;

    SUBCASE("it comes: the workers have it") {
        Story story(config(true));
        story.running();
        story.hears(stop);
        story.is_after(10ms, A::Signalled{SIGTERM, true});
        story.pass(2s);
        CHECK(story.asked_for<G::SignalLeader>().empty());
    }
    SUBCASE("it does not come") {
        Story story(config(true));
        story.running();
        story.hears(stop);
        CHECK(story.asked_for<G::SignalLeader>().empty());
        story.pass(limits::scheduler_signal_window);
        CHECK(story.asked_for<G::SignalLeader>().size() == 2);
    }
    SUBCASE("a failure elsewhere is no signal") {
        Story story(config(true));
        story.running();
        stop.root_cause.signal = 0;
        story.hears(stop);
        CHECK(story.asked_for<G::SignalLeader>().size() == 2);
    }
    SUBCASE("a scheduler that signals ddprun alone") {
        Story story(config(false));
        story.running();
        story.hears(stop);
        CHECK(story.asked_for<G::SignalLeader>().size() == 2);
    }
}

TEST_CASE("a scheduler that signals all processes, workers first, makes no failure") {
    Story story;
    story.running();

    story.is(A::WorkerExited{0, by_sigterm});
    CHECK(story.asked().empty());
    story.is_after(200ms, A::Signalled{SIGTERM});
    story.is(A::WorkerExited{1, by_sigterm});
    story.has_no_leftovers();

    CHECK(story.said<ctl::Failed>().empty());
    CHECK(story.said<ctl::Leave>().size() == 1);
}

TEST_CASE("a worker that ended by a SIGTERM from elsewhere has failed, a moment later") {
    Story story;
    story.running();
    story.is(A::WorkerExited{0, by_sigterm});

    story.pass(limits::settle_window);
    CHECK(story.asked_for<A::ExplainFailure>().size() == 1);
    CHECK(story.asked_for<G::SignalLeader>().size() == 1);
    story.is(A::FailureExplained{0, 0, "", "", false});

    REQUIRE(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Failed>().front().age == limits::settle_window);
}

// ---- server lost --------------------------------------------------------------------------------

TEST_CASE("a lost server: the workers go on and the agent resumes with its whole truth") {
    Story story(a_config(2));
    story.running();

    story.loses_server();
    CHECK(story.agent.phase() == Phase::running);
    REQUIRE(story.asked_for<A::Connect>().size() == 1);
    CHECK_FALSE(story.asked_for<A::Connect>().front().may_host);
    story.gets_through();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    const auto resume = story.said<ctl::Resume>().front();
    CHECK(resume.incarnation == "inc");
    CHECK(resume.assignment == an_assignment());
    CHECK(resume.state == ctl::NodeState::running);
    story.asked();

    story.hears(ctl::Resumed{});
    story.hears(an_assignment());
    CHECK(story.asked_for<A::Send>().empty());
    CHECK(story.agent.phase() == Phase::running);
}

TEST_CASE("what happened while the server was away is reported after the resume") {
    Story story(a_config(2));
    story.running();
    story.loses_server();
    story.gets_through();
    story.asked();

    story.all_exit(success);
    CHECK(story.asked_for<A::Send>().empty());
    story.hears(ctl::Resumed{});

    CHECK(story.said<ctl::Succeeded>().size() == 1);
}

TEST_CASE("a resume that already says it is not followed by the same again") {
    Story story(a_config(2));
    story.running();
    story.loses_server();
    story.all_exit(success);
    story.gets_through();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().front().state == ctl::NodeState::succeeded);

    story.hears(ctl::Resumed{});

    CHECK(story.said<ctl::Succeeded>().empty());
}

TEST_CASE("a resume does not say ready while a failure is still being explained") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, crash});
    story.is(A::StoreOpened{second_store});
    story.is(A::WorkerExited{0, by_sigterm});
    story.has_no_leftovers();
    story.loses_server();
    story.gets_through();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().front().state == ctl::NodeState::stopping);
    story.hears(ctl::Resumed{});
    story.asked();

    story.is(A::FailureExplained{0, 1, "boom", "", false});

    REQUIRE(story.asked_for<A::Send>().size() == 2);
    CHECK(story.said<ctl::Failed>().size() == 1);
    CHECK(story.asked_for<A::Send>().back() == A::Send{story.link, ctl::Ready{0, second_store, 2}});
}

TEST_CASE("a hosted server that refuses for a second is gone: exit 81") {
    Story story(a_config(2));
    story.running();
    story.loses_server();

    story.is_turned_away(A::ConnectError::refused, 2s);
    CHECK(story.asked_for<G::SignalLeader>().size() == 2);
    story.all_exit(by_sigterm);
    story.has_no_leftovers();

    CHECK(story.report().exit_code == 81);
    CHECK(story.clock <= Instant{} + 3s);
}

TEST_CASE("a daemon that refuses may come back: the workers go on until the fence") {
    Story story(a_config(2));
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});
    story.gets_through();
    story.hears(a_welcome(false));
    story.hears(an_assignment());
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.loses_server();

    story.is_turned_away(A::ConnectError::refused, 23s);
    CHECK(story.agent.phase() == Phase::running);
    CHECK(story.asked_for<G::KillSession>().empty());
    story.is_turned_away(A::ConnectError::refused, 2s);

    CHECK(story.agent.phase() == Phase::stopping);
    CHECK(story.asked_for<G::KillSession>().size() == 2);
    CHECK(story.asked_for<G::SignalLeader>().empty());
}

TEST_CASE("after the fence a daemon is waited for, and resumed as ready") {
    Story story(a_config(2));
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});
    story.gets_through();
    story.hears(a_welcome(false));
    story.hears(an_assignment());
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.loses_server();
    story.is_turned_away(A::ConnectError::refused, 25s);
    story.all_exit(WorkerExit{WorkerExit::Killed{SIGKILL}});
    story.has_no_leftovers();
    story.is(A::StoreOpened{second_store});
    CHECK(story.agent.phase() == Phase::joining);
    story.asked();

    story.pass(5s);
    story.gets_through();

    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().front().state == ctl::NodeState::ready);
    CHECK(story.said<ctl::Resume>().front().join.store_port == second_store);
}

TEST_CASE("the fence follows the last acknowledged heartbeat, and is passed to the keeper") {
    Story story(a_config(2));
    story.running();

    story.pass(1s);
    REQUIRE(story.said<ctl::Heartbeat>().size() == 1);
    story.asked();
    story.is_after(100ms, A::Received{story.link, ctl::HeartbeatAck{1}});

    // Counted from when the heartbeat was sent, not from when it was answered.
    CHECK(story.asked() == Effects{A::SetFence{Instant{} + 1s + 24s}});
}

TEST_CASE(
    "an assignment that was delayed beyond the lease starts nothing: the node connects again") {
    Story story(a_config(2));
    story.joined();
    story.asked();

    story.clock += 24s;
    story.hears(an_assignment());

    CHECK(story.asked_for<A::SpawnWorkers>().empty());
    CHECK(story.asked_for<A::CloseLink>() == std::vector<A::CloseLink>{{1}});
    CHECK(story.agent.phase() == Phase::joining);

    story.pass(1s);
    story.gets_through();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    story.hears(ctl::Resumed{});
    story.hears(an_assignment());
    CHECK(story.asked_for<A::SpawnWorkers>().size() == 1);
}

TEST_CASE("a job of one node has no heartbeats and no fence") {
    Story story;
    story.running();

    story.pass(600s);

    CHECK(story.asked().empty());
}

TEST_CASE("a job of one node has both where another node may come to lead") {
    auto config = a_config();
    config.rendezvous.election = ElectionPlan{EtcdPlan{{{"etcd", 2379}}, "/ddprun"}};
    Story story(config);
    story.running();

    story.pass(24s);

    CHECK(!story.said<ctl::Heartbeat>().empty());
    CHECK(story.asked_for<G::KillSession>().size() == 2);
}

TEST_CASE("a silent connection gets a second one beside it, which replaces it") {
    Story story(a_config(2));
    story.running();

    story.pass(4s);
    REQUIRE(story.asked_for<A::Connect>().size() == 1);
    CHECK(story.asked_for<A::CloseLink>().empty());
    story.gets_through();

    CHECK(story.asked_for<A::CloseLink>() == std::vector<A::CloseLink>{{1}});
    CHECK(story.said<ctl::Resume>().size() == 1);
    CHECK(story.agent.phase() == Phase::running);
}

TEST_CASE("a server that falls silent while nothing runs is waited for only so long") {
    for (const bool has_succeeded : {false, true}) {
        Story story(a_config(2));
        if (has_succeeded)
            story.running().all_exit(success);
        else
            story.joined();

        // The second connection gets no answer either, but is neither closed nor refused.
        story.pass(25s);
        if (has_succeeded) story.has_no_leftovers();

        CHECK(story.report().exit_code == 81);
    }
}

TEST_CASE("a resume that is never answered is waited for only so long") {
    Story story;
    story.running();
    story.loses_server();
    story.gets_through();
    story.all_exit(success);

    story.pass(25s);
    story.has_no_leftovers();

    CHECK(story.report().exit_code == 81);
}

TEST_CASE("a silence that ends in time is forgotten") {
    Story story(a_config(2));
    story.joined();
    story.pass(20s);
    story.hears(ctl::HeartbeatAck{20});
    story.pass(20s);

    CHECK(story.agent.phase() == Phase::joining);
}

TEST_CASE("a connection that speaks again needs no second one") {
    Story story(a_config(2));
    story.running();
    story.pass(4s);
    REQUIRE(story.asked_for<A::Connect>().size() == 1);
    story.asked();

    story.hears(ctl::HeartbeatAck{4});

    CHECK(story.asked_for<A::CloseLink>() == std::vector<A::CloseLink>{{2}});
}

TEST_CASE("a node that was given up kills its workers and joins under a new name") {
    Story story(a_config(2));
    story.running();
    const auto old_nonce = story.agent.node().nonce;

    story.hears(ctl::Lost{"silent for 30 s"});
    CHECK(story.asked_for<G::KillSession>().size() == 2);
    story.all_exit(WorkerExit{WorkerExit::Killed{SIGKILL}});
    story.has_no_leftovers();
    story.is(A::StoreOpened{second_store});
    story.gets_through();

    CHECK(story.agent.node().nonce != old_nonce);
    REQUIRE(story.said<ctl::Join>().size() == 1);
    CHECK(story.said<ctl::Join>().front().node.nonce == story.agent.node().nonce);
    CHECK(story.said<ctl::Join>().front().store_port == second_store);
}

TEST_CASE("a node that is refused ends with 83 and the reason") {
    Story story;
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});
    story.gets_through();

    story.hears(ctl::Refused{"nnodes differ", std::nullopt});

    CHECK(story.report().exit_code == 83);
    CHECK(story.report().reason == "nnodes differ");
}

TEST_CASE("a node that is refused for now tries again at the time that the server named") {
    Story story;
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});
    story.gets_through();
    story.asked();

    story.pass(5s);
    story.asked();
    story.hears(ctl::Refused{"the earlier run is ending", 1s});
    story.pass(999ms);
    CHECK(story.asked_for<A::Connect>().empty());
    story.pass(1ms);

    const auto connects = story.asked_for<A::Connect>();
    REQUIRE(connects.size() == 1);
    // The server answers; a wait for an answer that does not come begins again.
    CHECK(connects[0].unanswered_for == 1s);
}

TEST_CASE("a node that is refused until its timeout ends reports why: exit 83") {
    Story story;
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});

    for (int tries = 0; tries < 400 && story.agent.phase() != Phase::done; ++tries) {
        story.gets_through();
        story.hears(ctl::Refused{"the earlier run is ending", 2s});
        story.pass(2s);
    }

    CHECK(story.report().exit_code == 83);
    CHECK(story.report().reason == "the earlier run is ending");
}

TEST_CASE("what is noted of a wait while workers run ends at their fence") {
    Story story(a_config(2));
    story.running();
    story.loses_server();

    story.is_turned_away(A::ConnectError::no_answer, 10s);

    const auto notes = story.asked_for<A::NoteWaiting>();
    REQUIRE_FALSE(notes.empty());
    REQUIRE(notes.front().timeout);
    CHECK(*notes.front().timeout > notes.front().waited);
    CHECK(*notes.front().timeout <= 24s);
}

TEST_CASE("a node whose secret the server does not accept is refused with what to do") {
    Story story(a_config(2));
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});

    story.is_turned_away(A::ConnectError::wrong_secret, 10s);

    CHECK(story.report().exit_code == 83);
    CHECK(story.report().next_step == "give every node the same secret (docs/secrets.md)");
}

TEST_CASE("no server answers: it is noted ever less often, and the end names what was tried") {
    Story story(a_config(2));
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});

    story.is_turned_away(A::ConnectError::unresolved, 601s);

    CHECK(story.asked_for<A::NoteWaiting>().size() == 7);
    CHECK(story.asked_for<A::NoteWaiting>().back().timeout == 600s);
    CHECK(story.report().exit_code == 81);
    CHECK(story.report().next_step == "check the name node1 in the endpoint");
    CHECK(
        story.report().reason ==
        "name does not resolve at node1:29400 for 600 s (connect to node1:29400)");
}

TEST_CASE("attempts come close together at first and at most five seconds apart later") {
    Story story(a_config(2));
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});

    story.is_turned_away(A::ConnectError::refused, 10s);
    const auto early = story.asked_for<A::Connect>().size();
    story.asked();
    story.is_turned_away(A::ConnectError::refused, 500s);
    const auto late = story.asked_for<A::Connect>().size();

    CHECK(early >= 50);
    CHECK(late >= 100);
    CHECK(late <= 500);
}

TEST_CASE("a port that cannot be served ends the node with the reason") {
    Story story;
    story.is(A::Began{});

    story.is(A::ConnectRefused{"port 29400 is in use by nginx (pid 7)"});

    CHECK(story.report().exit_code == 83);
    CHECK(story.report().reason == "port 29400 is in use by nginx (pid 7)");
}

TEST_CASE("a result in the middle of a round stops what still runs before the end") {
    Story story;
    story.running();

    story.hears(ctl::JobResult{ctl::Outcome::failed, std::nullopt, 84});
    CHECK(story.asked_for<A::Finish>().empty());
    story.all_exit(by_sigterm);
    story.has_no_leftovers();

    CHECK(story.report().exit_code == 84);
    const auto stopped = story.report().stopped;
    REQUIRE(stopped.size() == 2);
    CHECK(stopped.back().local_rank == 1);
    CHECK(stopped.back().end == ctl::WorkerEnd{ctl::WorkerEnd::Kind::killed, SIGTERM});
}

TEST_CASE("workers stuck in the kernel are named and not waited for when the job is over") {
    Story story;
    story.running();
    story.is(A::Signalled{SIGINT});
    story.is(A::Signalled{SIGINT});

    story.pass(6s);

    CHECK(story.asked_for<A::NoteStuck>().size() == 1);
    CHECK(story.report().exit_code == 130);
}

TEST_CASE("nothing follows the end, also when something else was due at that moment") {
    Story story(a_config(2));
    story.running();
    story.is(A::Signalled{SIGINT});
    story.all_exit(by_sigterm);
    // A grandchild does not end; it is counted again at the end of the timeout.
    story.is(A::LeftoversCounted{1});
    story.is(A::Signalled{SIGINT});
    story.asked();

    story.clock += 60s;
    story.is(A::DeadlinePassed{});
    story.is(A::DeadlinePassed{});

    const auto effects = story.asked();
    REQUIRE_FALSE(effects.empty());
    CHECK(std::holds_alternative<A::Finish>(effects.back()));
    const auto is_end = [](const Agent::Effect& effect) {
        return std::holds_alternative<A::Finish>(effect);
    };
    CHECK(std::count_if(effects.begin(), effects.end(), is_end) == 1);
}

TEST_CASE("the report folds the failures after the root cause") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, crash});
    story.is(A::WorkerExited{0, WorkerExit{WorkerExit::Exited{1}}});
    story.has_no_leftovers();
    story.is(A::FailureExplained{0, 1, "boom", "", false});

    ctl::Cause cause;
    cause.worker = failure_of_rank(1, crash, "boom");
    story.hears(ctl::JobResult{ctl::Outcome::failed, cause, 3});

    REQUIRE(story.report().secondary_failures.size() == 1);
    CHECK(story.report().secondary_failures.front().rank == 0);
    CHECK(story.report().root_cause == cause);
}

TEST_CASE("the report names this node's failures and those of others, each rank once") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, crash});
    story.is(A::WorkerExited{0, WorkerExit{WorkerExit::Exited{1}}});
    story.has_no_leftovers();
    story.is(A::FailureExplained{0, 1, "boom", "", false});

    ctl::JobResult result{ctl::Outcome::failed, std::nullopt, 3};
    const ctl::WorkerEnd aborted{ctl::WorkerEnd::Kind::killed, SIGABRT, true};
    result.secondary_failures = {{0, 0, 100, {}, "here"}, {9, 1, 5, aborted, "elsewhere"}};
    story.hears(result);

    std::vector<int> ranks;
    for (const auto& one : story.report().secondary_failures)
        ranks.push_back(one.rank);
    CHECK(ranks == std::vector<int>{1, 0, 9});
    CHECK(story.report().secondary_failures.back().host == "elsewhere");
}

TEST_CASE("what the machine knows of a death goes to all nodes") {
    Story story;
    story.running();
    story.is(A::WorkerExited{1, by_sigkill});

    A::FailureExplained explained{0, 1, "", "last lines", false};
    explained.cause = {"out of memory", "the kernel killed it for lack of memory"};
    explained.error_file = "/logs/error.json";
    explained.log_file = "/logs/stderr.log";
    explained.unix_time = 17;
    story.is(explained);

    const auto failure = story.said<ctl::Failed>().front().failure;
    CHECK(failure.message == "killed by SIGKILL (out of memory)");
    CHECK(failure.why == "the kernel killed it for lack of memory");
    CHECK(failure.details == "last lines");
    CHECK(failure.error_file == "/logs/error.json");
    CHECK(failure.log_file == "/logs/stderr.log");
    CHECK(failure.unix_time == 17);
}

TEST_CASE("every event has an answer in every phase of an agent") {
    const auto in_phase = [](Phase phase) {
        auto story = std::make_unique<Story>(a_config(2));
        if (phase == Phase::joining) story->joined();
        if (phase == Phase::starting) story->joined().hears(an_assignment());
        if (phase == Phase::running) story->running();
        if (phase == Phase::succeeded) story->running().all_exit(success);
        if (phase == Phase::stopping) story->running().hears(a_stop());
        if (phase == Phase::done) {
            story->joined();
            story->is(A::Signalled{SIGINT});
            story->is(A::Signalled{SIGINT});
        }
        REQUIRE(story->agent.phase() == phase);
        story->asked();
        return story;
    };
    // StoreOpened, WorkerSpawned and WorkerExited answer an order, so they are only tried after it.
    const auto events = [](const Story& story) {
        const int link = story.link;
        return std::vector<Agent::Event>{
            A::HostingChanged{true},
            A::SuccessionChanged{true},
            A::LinkOpened{link + 1, "10.0.0.2:1"},
            A::LinkClosed{link, A::ConnectError::lost, "reset"},
            A::LinkClosed{link + 1, A::ConnectError::refused, "refused"},
            A::ConnectRefused{"port in use"},
            A::StoreFailed{"no port"},
            A::Received{link, ctl::Hello{}},
            A::Received{link, a_welcome()},
            A::Received{link, ctl::Resumed{}},
            A::Received{link, ctl::Voters{}},
            A::Received{link, ctl::Refused{"no", std::nullopt}},
            A::Received{link, ctl::Refused{"later", 1s}},
            A::Received{link, ctl::Lost{"silent"}},
            A::Received{link, an_assignment(0)},
            A::Received{link, an_assignment(1)},
            A::Received{link, a_stop(0)},
            A::Received{link, a_stop(9)},
            A::Received{link, ctl::Standby{"full"}},
            A::Received{link, ctl::HeartbeatAck{1}},
            A::Received{link, ctl::HeartbeatAck{0, 0}},
            A::Received{link, ctl::HeartbeatAck{0, 9}},
            A::Received{link, ctl::Ask{}},
            A::Received{link, ctl::SaveAt{0, {1, 8, ctl::SaveState::agreed}}},
            A::Received{link, ctl::NoticeOver{"saved"}},
            A::Received{link, ctl::DrainOrder{"drained"}},
            A::Received{link, ctl::HangFound{0, "hangs", {}, {1}}},
            A::WorkersSeen{0, {{0, {}}, {1, {}}}},
            A::Received{link, ctl::DrainAnswer{1, true, "done"}},
            A::Received{link, ctl::JobResult{}},
            A::Received{link, ctl::ProtocolError{"what?"}},
            A::FailureExplained{0, 0, "", "", false},
            A::LeftoversCounted{0},
            A::LeftoversCounted{2},
            A::StoreChecked{0, ""},
            A::StoreChecked{0, "refused"},
            A::NoticeGiven{0},
            A::NoticeGiven{9},
            A::StoreWaited{first_store, {}},
            A::StoreClientsFound{{0, {}, {0, 1}, {}}},
            A::StoreClientsFound{{9, {}, {}, {}}},
            A::PeerAsked{1, {story.agent.node().nonce, Nonce{}, 0}},
            A::PeerAnswered{1, std::nullopt},
            A::PeerAnswered{1, PeerAnswer{PeerAnswer::Kind::refused, 9}},
            A::SavesRead{0, {{0, 7}}},
            A::SaveShown{0, 1, {}},
            A::Signalled{SIGINT},
            A::Signalled{SIGTERM},
            A::StopCommanded{"stopped by ddprunctl"},
            A::DrainCommanded{1, {"b"}, false, "ddprunctl"},
            A::UndrainCommanded{2, {"b"}, "ddprunctl"},
            A::ResizeCommanded{3, {1, 3}, "ddprunctl"},
            A::HealthChecked{A::HealthChecked::Answer::unfit, "ECC errors"},
            A::XidSeen{0, {"0000:3b:00", 31, std::nullopt, "MMU Fault"}, {1}},
            A::XidSeen{0, {"0000:3b:00", 79, std::nullopt, "GPU lost"}, {1}},
            A::XidSeen{std::nullopt, {"0000:3b:00", 79, std::nullopt, "GPU lost"}, {}},
            A::DeadlinePassed{}};
    };
    // With a sanitizer each event is tried as the first and as the second one, in other builds
    // every pair.
    constexpr std::size_t step = is_sanitized ? 31 : 1;
    for (const auto phase :
         {Phase::joining,
          Phase::starting,
          Phase::running,
          Phase::succeeded,
          Phase::stopping,
          Phase::done}) {
        // The same set for every story that led to this phase, with one connection and one node.
        const auto possible = events(*in_phase(phase));
        for (std::size_t first = 0; first < possible.size(); ++first)
            for (std::size_t second = first % step; second < possible.size(); second += step) {
                const auto story = in_phase(phase);
                CAPTURE(name_of(phase));
                CAPTURE(describe(possible[first]));
                CAPTURE(describe(possible[second]));
                story->is(possible[first]);
                story->is(possible[second]);
                for (const auto& effect : story->asked())
                    CHECK_FALSE(describe(effect).empty());
                story->pass(40s);
            }
    }
}
