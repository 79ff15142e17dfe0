// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/failure_report.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/supervise/machine_story.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;

namespace {

using F = FailureReport;
using Effects = std::vector<F::Effect>;

const WorkerExit success{WorkerExit::Exited{0}};
const WorkerExit error{WorkerExit::Exited{3}};
const WorkerExit crash{WorkerExit::Killed{SIGSEGV, true}};
const WorkerExit by_sigterm{WorkerExit::Killed{SIGTERM}};

const DeathNote a_note{{"10.0.0.1", 20'001}, "/deaths", {}};

/// Round 2 on a node whose first rank is 4, on a simulated clock.
struct Story : test::MachineStory<FailureReport> {
    explicit Story(std::optional<DeathNote> notice = std::nullopt)
        : MachineStory(report),
          report(F::Place{2, 4, "here", std::move(notice)}) {}

    FailureReport report;
    void exits(int local_rank, const WorkerExit& exit, bool has_killed = false) {
        is(F::WorkerExited{local_rank, 100 + local_rank, exit, has_killed});
    }
    void is_explained(int local_rank, bool is_secondary = false, std::string message = "") {
        is(F::FailureExplained{2, local_rank, std::move(message), "", is_secondary});
    }
};

F::GiveNotice notice_of(int rank) {
    auto note = a_note;
    note.ranks = {rank};
    return {2, note};
}

}  // namespace

namespace ddprun::agent {
doctest::String toString(const std::vector<FailureReport::Effect>& effects) {
    return test::lines_of(effects);
}
}  // namespace ddprun::agent

TEST_CASE("a failure stops the workers at once and is reported when it is explained") {
    Story story;
    story.exits(0, success);
    CHECK(story.asked().empty());
    story.exits(1, error);
    CHECK(story.asked() == Effects{F::ExplainFailure{2, 1}, F::StopWorkers{}});
    CHECK(story.report.is_open());
    CHECK_FALSE(story.report.is_reportable());

    story.pass(10ms);
    story.is_explained(1, false, "ValueError: x");
    CHECK(story.asked() == Effects{F::FailureFound{}});
    CHECK(story.report.is_reportable());
    CHECK_FALSE(story.report.is_open());
    CHECK(story.report.failure().rank == 5);
    CHECK(story.report.failure().pid == 101);
    CHECK(story.report.failure().message == "ValueError: x");
    CHECK(story.report.age(story.clock) == 10ms);
    CHECK_FALSE(story.report.kind());
}

TEST_CASE("a failure that nothing explains says how it ended") {
    Story story;
    story.exits(1, error);
    story.asked();
    SUBCASE("there is no error file") {
        story.is_explained(1);
    }
    SUBCASE("the disk does not answer") {
        story.pass(5s);
    }
    CHECK(story.asked() == Effects{F::FailureFound{}});
    CHECK(story.report.failure().message == "exited with code 3");
}

TEST_CASE(
    "without an error file the exception in the output is the message, unless a signal killed") {
    F::FailureExplained explained{2, 1, "", "", false};
    explained.details = "  File \"t.py\", line 3\n    f()\nValueError: bad batch\n";
    Story story;
    SUBCASE("it exited") {
        story.exits(1, error);
        story.is(explained);
        CHECK(story.report.failure().message == "ValueError: bad batch");
        CHECK(story.report.failure().details == explained.details);
    }
    SUBCASE("it exited, and other lines follow") {
        explained.details += "batch skipped\n";
        story.exits(1, error);
        story.is(explained);
        CHECK(story.report.failure().message == "exited with code 3 after ValueError: bad batch");
    }
    SUBCASE("it was killed") {
        story.exits(1, crash);
        story.is(explained);
        CHECK(story.report.failure().message == "killed by SIGSEGV (core dumped)");
    }
}

TEST_CASE("what a worker reported of itself is part of its failure") {
    F::FailureExplained explained{2, 1, "", "", false};
    explained.progress = {41, control::WorkPhase::save};
    Story story;
    story.exits(1, error);
    story.is(explained);
    CHECK(story.report.failure().progress == explained.progress);
}

TEST_CASE("an explanation that was not asked for is ignored") {
    Story story;
    story.is_explained(1);
    story.exits(1, error);
    story.asked();
    story.is_explained(0);
    story.is(F::FailureExplained{1, 1, "", "", false});
    CHECK(story.asked().empty());
    CHECK(story.report.is_open());
}

TEST_CASE("workers of other nodes read of a death before any is stopped or it is reported") {
    Story story(a_note);
    story.exits(1, error);
    CHECK(story.asked() == Effects{F::ExplainFailure{2, 1}, notice_of(5)});
    story.is_explained(1);
    CHECK(story.asked() == Effects{F::FailureFound{}});
    CHECK(story.report.has_failure());
    CHECK_FALSE(story.report.is_reportable());

    SUBCASE("the notice is given") {
        story.is(F::NoticeGiven{2});
    }
    SUBCASE("the store does not take it") {
        story.pass(limits::death_notice_timeout);
    }
    CHECK(story.asked() == Effects{F::StopWorkers{}});
    CHECK(story.report.is_reportable());
    story.is(F::NoticeGiven{2});
    CHECK(story.asked().empty());
}

TEST_CASE("a stop that comes meanwhile does not wait for the notice") {
    Story story(a_note);
    story.exits(1, error);
    story.is_explained(1);
    story.asked();
    story.is(F::NoticeGiven{1});
    CHECK_FALSE(story.report.is_reportable());
    story.is(F::StopBegan{SIGTERM});
    CHECK(story.report.is_reportable());
    CHECK_FALSE(story.report.next_deadline());
}

TEST_CASE("a death by a polite signal waits for the signal to this node") {
    Story story;
    story.exits(0, by_sigterm);
    CHECK(story.asked().empty());
    CHECK(story.report.is_open());
    SUBCASE("it comes") {
        story.is(F::LeaveBegan{});
        story.pass(10s);
        CHECK(story.asked().empty());
        CHECK_FALSE(story.report.is_open());
    }
    SUBCASE("it does not come") {
        story.pass(limits::settle_window);
        CHECK(story.asked() == Effects{F::ExplainFailure{2, 0}, F::StopWorkers{}});
        CHECK(story.report.age(story.clock) == limits::settle_window);
    }
}

TEST_CASE("a death that waits is explained without a notice when the round is being stopped") {
    Story story(a_note);
    story.exits(0, by_sigterm);
    story.is(F::StopBegan{SIGTERM});
    story.exits(1, by_sigterm);
    story.pass(limits::settle_window);
    CHECK(story.asked() == Effects{F::ExplainFailure{2, 0}, F::StopWorkers{}});
}

TEST_CASE("a program that cannot be executed is reported at once") {
    Story story;
    story.exits(0, WorkerExit{WorkerExit::NotExecuted{2, "/bin/train"}});
    CHECK(story.asked() == Effects{F::FailureFound{}, F::StopWorkers{}});
    CHECK(story.report.kind() == ctl::Cause::Kind::not_executable);
}

TEST_CASE("a store out of reach is the failure, unless a worker failed before") {
    Story story;
    story.is(F::StoreUnreachable{"timed out"});
    CHECK(story.asked() == Effects{F::FailureFound{}, F::StopWorkers{}});
    CHECK(story.report.kind() == ctl::Cause::Kind::store_unreachable);
    CHECK(story.report.failure().rank == 4);

    Story other;
    other.exits(0, error);
    other.asked();
    other.is(F::StoreUnreachable{"timed out"});
    other.is_explained(0);
    CHECK(other.asked() == Effects{F::FailureFound{}});
    CHECK_FALSE(other.report.kind());
}

TEST_CASE("a secondary failure gives way to the next failed worker of this node") {
    Story story;
    story.exits(0, error);
    story.exits(1, crash);
    story.asked();
    story.is_explained(0, true, "PeerLost: rank 5");
    CHECK(story.asked() == Effects{F::ExplainFailure{2, 1}});
    SUBCASE("which failed by itself") {
        story.is_explained(1);
        CHECK(story.asked() == Effects{F::FailureFound{}});
        CHECK(story.report.failure().rank == 5);
    }
    SUBCASE("when all say so, the first is the failure") {
        story.is_explained(1, true, "PeerLost: rank 9");
        CHECK(story.asked() == Effects{F::FailureFound{}});
        CHECK(story.report.failure().rank == 4);
        CHECK(story.report.failure().is_secondary);
    }
}

TEST_CASE("a crash that takes longer than what failed by it is reported after that") {
    Story story;
    story.exits(0, error);
    story.is_explained(0, true, "PeerLost: rank 5");
    story.asked();
    story.pass(2s);
    story.exits(1, crash);
    CHECK(story.asked() == Effects{F::ExplainFailure{2, 1}, F::StopWorkers{}});
    SUBCASE("it is the root cause") {
        story.is_explained(1);
        CHECK(story.asked() == Effects{F::FailureFound{}});
        CHECK(story.report.failure().rank == 5);
        CHECK(story.report.age(story.clock) == 0s);
    }
    SUBCASE("it is none either: what was reported holds") {
        story.is_explained(1, true, "PeerLost: rank 9");
        CHECK(story.asked().empty());
        CHECK(story.report.failure().rank == 4);
    }
}

TEST_CASE("a stop for a secondary failure leaves the question open: a crash here answers it") {
    Story story;
    story.is(F::StopReceived{true});
    story.is(F::StopBegan{SIGTERM});
    story.exits(1, crash);
    CHECK(story.asked() == Effects{F::ExplainFailure{2, 1}, F::StopWorkers{}});

    Story other;
    other.is(F::StopReceived{false});
    other.is(F::StopBegan{SIGTERM});
    other.exits(1, crash);
    CHECK(other.asked().empty());
}

TEST_CASE("workers that failed and workers that were stopped are two lists") {
    Story story;
    story.exits(1, error);
    story.exits(2, crash);
    story.exits(0, by_sigterm);
    story.exits(3, success);
    const auto ends = story.report.ends();
    REQUIRE(ends.failed.size() == 2);
    CHECK(ends.failed[0].rank == 5);
    CHECK(ends.failed[1].rank == 6);
    REQUIRE(ends.stopped.size() == 1);
    CHECK(ends.stopped[0] == ctl::EndedWorker{4, 0, 100, to_worker_end(by_sigterm), "here"});
}

TEST_CASE("every event has an answer in every state of a failure report") {
    enum class State { watching, settling, explaining, giving_notice, found, stopping, late };
    const auto in_state = [](State state) {
        auto story = std::make_unique<Story>(a_note);
        if (state == State::settling) story->exits(0, by_sigterm);
        if (state == State::giving_notice) story->exits(0, error);
        if (state == State::explaining || state == State::found || state == State::late) {
            story->is(F::StopReceived{true});
            story->exits(0, error);
            story->is(F::NoticeGiven{2});
        }
        if (state == State::found) story->is_explained(0);
        if (state == State::late) story->is_explained(0, true);
        if (state == State::stopping) story->is(F::StopBegan{SIGINT});
        return story;
    };
    const std::vector<F::Event> events{
        F::WorkerExited{1, 101, success, false},
        F::WorkerExited{1, 101, error, false},
        F::WorkerExited{1, 101, crash, false},
        F::WorkerExited{1, 101, by_sigterm, false},
        F::WorkerExited{1, 101, WorkerExit{WorkerExit::Killed{SIGKILL}}, true},
        F::WorkerExited{1, 101, WorkerExit{WorkerExit::NotExecuted{2, "/bin/train"}}, false},
        F::WorkerExited{1, 101, WorkerExit{WorkerExit::NotStarted{"no memory"}}, false},
        F::FailureExplained{2, 0, "", "", false},
        F::FailureExplained{2, 0, "", "", true},
        F::FailureExplained{1, 0, "", "", false},
        F::StoreUnreachable{"timed out"},
        F::NoticeGiven{2},
        F::NoticeGiven{1},
        F::StopBegan{SIGTERM},
        F::StopReceived{true},
        F::StopReceived{false},
        F::LeaveBegan{},
        F::DeadlinePassed{}};
    for (const auto state :
         {State::watching,
          State::settling,
          State::explaining,
          State::giving_notice,
          State::found,
          State::stopping,
          State::late})
        for (const auto& first : events)
            for (const auto& second : events) {
                CAPTURE(static_cast<int>(state));
                CAPTURE(describe(first));
                CAPTURE(describe(second));
                const auto story = in_state(state);
                story->is(first);
                story->is(second);
                for (const auto& effect : story->asked())
                    CHECK_FALSE(describe(effect).empty());
                // Whatever happened, in the end there is a decision, and the finding can be
                // reported.
                story->pass(20s);
                CHECK_FALSE(story->report.is_open());
                CHECK_FALSE(story->report.next_deadline());
                CHECK(story->report.is_reportable() == story->report.has_failure());
            }
}

TEST_CASE("the error of a GPU is in a report for a minute, and one that ends a worker goes first") {
    const auto why_after = [](Duration later) {
        Story story;
        story.is(F::XidSeen{{0, 1}, "GPU a, Xid 43", false});
        story.is(F::XidSeen{{1}, "GPU a, Xid 31", true});
        story.is(F::XidSeen{{1}, "GPU a, Xid 13", true});
        story.pass(later);
        story.exits(1, error);
        story.is_explained(1);
        return story.report.failure().why;
    };
    CHECK(why_after(60s) == "the kernel reports an error of its GPU: GPU a, Xid 31");
    CHECK(why_after(61s).empty());
}

TEST_CASE("a worker that hung on a GPU with an error has both in its report") {
    Story story;
    story.is(F::XidSeen{{1}, "GPU a, Xid 31", true});
    story.is(F::HangFound{{1}, "rank 5 hangs"});
    story.exits(1, WorkerExit{WorkerExit::Killed{SIGKILL}});
    story.is_explained(1);
    CHECK(story.report.failure().message == "rank 5 hangs");
    CHECK(story.report.failure().why.starts_with("the kernel reports an error of its GPU: GPU a"));
    CHECK(story.report.failure().why.ends_with("(--on-hang=restart)"));
}
