// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;
using SaveAnswer = RankSave::Answer;

namespace {

constexpr int with_saves = 2;

AgentConfig with_plan(PreemptionPlan plan, Duration grace = 30s) {
    auto config = a_config(2);
    config.join.settings.grace = grace;
    config.preemption = plan;
    return config;
}

/// A node of two ranks in round 3.
struct SavingNode : Story {
    explicit SavingNode(PreemptionPlan plan = {}, int version = with_saves, Duration grace = 30s)
        : Story(with_plan(plan, grace)) {
        is(A::Began{});
        is(A::StoreOpened{first_store});
        link = 1;
        is(A::LinkOpened{1, "10.0.0.2:40000", version});
        hears(a_welcome(false));
        hears(an_assignment(3));
        is(A::WorkerSpawned{0, 100});
        is(A::WorkerSpawned{1, 101});
        asked();
    }
    /// Both ranks have called should_save.
    SavingNode& asking(std::uint64_t step) {
        is(A::SavesRead{3, {{0, step}, {1, step}}});
        return *this;
    }
    void comes_back(int version = with_saves) {
        loses_server();
        for (int waited = 0; waited < 5 && asked_for<A::Connect>().empty(); ++waited)
            pass(1s);
        const auto attempts = asked_for<A::Connect>();
        REQUIRE_FALSE(attempts.empty());
        link = attempts.back().link;
        is(A::LinkOpened{link, "10.0.0.2:40001", version});
        hears(ctl::Resumed{});
    }
    bool is_stopping() const { return agent.phase() == Phase::stopping; }
};

ctl::SaveAt order(int ballot, std::uint64_t step, ctl::SaveState state) {
    return {3, {ballot, step, state}};
}

}  // namespace

TEST_CASE("a node of which no rank asks stops at once, as without saves") {
    SavingNode story;
    story.is(A::Signalled{SIGTERM});
    CHECK(story.is_stopping());
    CHECK(story.said<ctl::Notice>().empty());
    CHECK(story.said<ctl::Leave>().size() == 1);
}

TEST_CASE("a node whose ranks ask gives notice and lets them run") {
    SavingNode story;
    story.asking(7).is(A::Signalled{SIGTERM});
    CHECK_FALSE(story.is_stopping());
    const auto said = story.said<ctl::Notice>();
    REQUIRE(said.size() == 1);
    CHECK(said.front() == ctl::Notice{"SIGTERM on here", SIGTERM, 15s, 7, false, 3});
}

TEST_CASE("without a deadline a stop takes no longer than without a save") {
    SavingNode story{{}, with_saves, 10s};
    story.asking(7).is(A::Signalled{SIGTERM});
    story.pass(5s);
    CHECK(story.is_stopping());
    story.asked();
    story.pass(4s);
    CHECK(story.asked_for<G::KillSession>().empty());
    story.pass(1s);
    CHECK_FALSE(story.asked_for<G::KillSession>().empty());
}

TEST_CASE("nor when the server stops the round after the save") {
    SavingNode story{{}, with_saves, 10s};
    story.asking(7).is(A::Signalled{SIGTERM});
    story.pass(3s);
    story.hears(ctl::SaveAt{3, {1, 8, ctl::SaveState::ending}});
    auto stop = a_stop(3);
    stop.root_cause.kind = ctl::Cause::Kind::cancelled;
    story.hears(stop);
    CHECK(story.is_stopping());
    story.asked();
    story.pass(6s);
    CHECK(story.asked_for<G::KillSession>().empty());
    story.pass(1s);
    CHECK_FALSE(story.asked_for<G::KillSession>().empty());
}

TEST_CASE("once every rank has saved, repeated signals and a lost server change nothing") {
    SavingNode story{{SIGUSR1}};
    story.is(A::Signalled{SIGUSR1});
    story.hears(ctl::SaveAt{3, {1, 8, ctl::SaveState::ending}});
    auto stop = a_stop(3);
    stop.root_cause.kind = ctl::Cause::Kind::cancelled;
    story.hears(stop);
    story.is(A::Signalled{SIGUSR1});
    story.is(A::Signalled{SIGTERM});
    CHECK(story.said<ctl::Leave>().empty());
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.is(A::StoreOpened{second_store});
    story.is(A::Signalled{SIGTERM});
    story.pass(1s);
    story.asked();
    story.comes_back();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().front().save == ctl::SavePoint{1, 8, ctl::SaveState::ending});
    CHECK(story.said<ctl::Notice>().empty());
    CHECK(story.said<ctl::Leave>().empty());
    story.hears(ctl::JobResult{ctl::Outcome::cancelled, stop.root_cause, 86});
    CHECK(story.report().exit_code == 86);
}

TEST_CASE("ranks that wait at a proposed step are released when they are stopped") {
    SavingNode story{{SIGUSR1}};
    story.is(A::Signalled{SIGUSR1});
    story.hears(order(1, 8, ctl::SaveState::proposed));
    story.is(A::SaveShown{3, 1, {{0, 8}, {1, 8}}});
    story.asked();
    story.hears(a_stop(3));
    const auto shown = story.asked_for<A::ShowSave>();
    REQUIRE(shown.size() == 1);
    CHECK(shown.front().save == ctl::SavePoint{1, 8, ctl::SaveState::cancelled});
    // The proposal, which still holds for the other nodes, is kept.
    story.comes_back();
    CHECK(story.said<ctl::Resume>().front().save == ctl::SavePoint{1, 8});
}

TEST_CASE("a rank waits until the end that comes with the save point") {
    SavingNode story{{SIGUSR1}};
    auto point = order(1, 8, ctl::SaveState::proposed);
    point.left = 12s;
    story.hears(point);
    REQUIRE(story.asked_for<A::ShowSave>().size() == 1);
    CHECK(story.asked_for<A::ShowSave>().front().wait_ends_at == story.clock + 12s);
}

TEST_CASE("a resume has what ranks that have ended had saved") {
    SavingNode story{{SIGUSR1}};
    story.hears(order(1, 8, ctl::SaveState::agreed));
    story.is(A::SaveShown{3, 1, {{0, 7}, {1, 7}}});
    story.is(A::SavesRead{3, {{0, 8, SaveAnswer::saved, 1, 8}, {1, 8, SaveAnswer::saved, 1, 8}}});
    story.is(A::WorkerExited{0, success});
    story.is(A::WorkerExited{1, success});
    story.asked();
    story.comes_back();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    const auto resume = story.said<ctl::Resume>().front();
    CHECK(resume.state == ctl::NodeState::succeeded);
    REQUIRE(resume.save_report);
    CHECK(resume.save_report->saved == 2);
}

TEST_CASE("a later notice counts where its time ends earlier") {
    SavingNode story{{SIGUSR1, std::nullopt, 160s}};
    story.pass(10s);
    REQUIRE(story.said<ctl::Notice>().size() == 1);
    CHECK(story.said<ctl::Notice>().front().left == 120s);
    story.asked();
    story.is(A::Signalled{SIGUSR1});
    REQUIRE(story.said<ctl::Notice>().size() == 1);
    CHECK(story.said<ctl::Notice>().front().left == 15s);
    story.asked();
    story.pass(1s);
    story.is(A::Signalled{SIGUSR1});
    CHECK(story.said<ctl::Notice>().empty());
}

TEST_CASE("the notice for an allocation ends with it, however late it begins") {
    struct Row {
        Duration allocation;
        std::vector<Duration> left;
    };
    for (const auto& row : {Row{100s, {70s}}, Row{30s, {}}, Row{10s, {}}, Row{-5s, {}}}) {
        SavingNode story{{0, std::nullopt, row.allocation}};
        story.pass(0s);
        std::vector<Duration> left;
        for (const auto& notice : story.said<ctl::Notice>())
            left.push_back(notice.left);
        CHECK(left == row.left);
        CHECK_FALSE(story.is_stopping());
    }
}

TEST_CASE("with an option for it a save is waited for before the first call, too") {
    for (const auto& plan : {PreemptionPlan{SIGUSR1}, PreemptionPlan{0, 40s}}) {
        SavingNode story{plan};
        story.is(A::Signalled{SIGTERM});
        CHECK_FALSE(story.is_stopping());
        CHECK(story.said<ctl::Notice>().size() == 1);
    }
}

TEST_CASE("the time for the save leaves the workers their grace") {
    SavingNode story{{0, 40s}};
    story.is(A::Signalled{SIGTERM});
    REQUIRE(story.said<ctl::Notice>().size() == 1);
    CHECK(story.said<ctl::Notice>().front().left == 10s);
    story.pass(9s);
    CHECK_FALSE(story.is_stopping());
    story.pass(1s);
    CHECK(story.is_stopping());
    CHECK(story.said<ctl::Leave>().size() == 1);
    CHECK(story.said<ctl::Leave>().front() == ctl::Leave{"stopped by SIGTERM on here", SIGTERM});
}

TEST_CASE("a save point is shown to the ranks once, and answered whenever it is sent") {
    SavingNode story{{SIGUSR1}};
    story.hears(order(1, 8, ctl::SaveState::proposed));
    CHECK(story.asked() == Effects{A::ShowSave{3, {1, 8, ctl::SaveState::proposed}, story.clock}});
    story.is(A::SaveShown{3, 1, {{0, 7}, {1, 6}}});
    REQUIRE(story.said<ctl::SaveReport>().size() == 1);
    CHECK(story.said<ctl::SaveReport>().front().asked == 7);
    CHECK(story.said<ctl::SaveReport>().front().waiting == 0);
    story.asked();
    // Growing steps need no report.
    story.is(A::SavesRead{3, {{0, 8}, {1, 7}}});
    CHECK(story.said<ctl::SaveReport>().empty());
    story.hears(order(1, 8, ctl::SaveState::proposed));
    CHECK(story.asked_for<A::ShowSave>().empty());
    CHECK(story.said<ctl::SaveReport>().size() == 1);
    story.asked();
    // An older order that arrives late.
    story.hears(order(2, 9, ctl::SaveState::proposed));
    story.asked();
    story.hears(order(1, 8, ctl::SaveState::agreed));
    CHECK(story.asked_for<A::ShowSave>().empty());
}

TEST_CASE("what the ranks do about a save point is reported") {
    SavingNode story{{SIGUSR1}};
    story.hears(order(1, 8, ctl::SaveState::agreed));
    story.is(A::SaveShown{3, 1, {{0, 7}, {1, 7}}});
    story.asked();
    story.is(A::SavesRead{3, {{0, 8, SaveAnswer::saving, 1, 8}, {1, 8, SaveAnswer::saved, 1, 8}}});
    REQUIRE(story.said<ctl::SaveReport>().size() == 1);
    ctl::SaveReport report{3, 1, 7, 2, 1, 0, 0, 8, 8, 0, false};
    CHECK(story.said<ctl::SaveReport>().front() == report);
    story.asked();
    // The worker ended because it had saved.
    story.is(A::WorkerExited{0, success});
    REQUIRE(story.said<ctl::SaveReport>().size() == 1);
    report.saved = 2;
    report.waiting.reset();
    CHECK(story.said<ctl::SaveReport>().front() == report);
}

TEST_CASE("the report of a save precedes the success of ranks that end after it") {
    SavingNode story{{SIGUSR1}};
    story.hears(order(1, 8, ctl::SaveState::agreed));
    story.is(A::SaveShown{3, 1, {}});
    story.is(A::SavesRead{3, {{0, 8, SaveAnswer::saving, 1, 8}, {1, 8, SaveAnswer::saving, 1, 8}}});
    story.is(A::WorkerExited{0, success});
    story.asked();
    story.is(A::WorkerExited{1, success});
    const auto sent = story.asked_for<A::Send>();
    REQUIRE(sent.size() == 2);
    CHECK(std::holds_alternative<ctl::SaveReport>(sent[0].message));
    CHECK(std::holds_alternative<ctl::Succeeded>(sent[1].message));
}

TEST_CASE("answers of an earlier ballot count only of ranks that have ended") {
    SavingNode story{{SIGUSR1}};
    story.hears(order(2, 9, ctl::SaveState::proposed));
    story.is(
        A::SaveShown{3, 2, {{0, 8, SaveAnswer::saved, 1, 8}, {1, 8, SaveAnswer::declined, 1, 8}}});
    REQUIRE(story.said<ctl::SaveReport>().size() == 1);
    CHECK(
        story.said<ctl::SaveReport>().front() ==
        ctl::SaveReport{3, 2, 8, 0, 0, 0, 0, std::nullopt, std::nullopt, 0, false});
}

TEST_CASE("a rank that has ended without a save, and one that never asked") {
    SavingNode story{{SIGUSR1}};
    story.hears(order(1, 8, ctl::SaveState::agreed));
    story.is(A::WorkerExited{0, success});
    story.is(A::SaveShown{3, 1, {{0, 5}}});
    REQUIRE(story.said<ctl::SaveReport>().size() == 1);
    CHECK(
        story.said<ctl::SaveReport>().front() ==
        ctl::SaveReport{3, 1, 5, 0, 0, 0, 1, std::nullopt, std::nullopt, 1, true});
    SavingNode other{{SIGUSR1}};
    other.hears(order(1, 8, ctl::SaveState::proposed));
    other.is(A::SaveShown{3, 1, {{0, 5}}});
    REQUIRE(other.said<ctl::SaveReport>().size() == 1);
    CHECK(other.said<ctl::SaveReport>().front().waiting == 1);
    CHECK(other.said<ctl::SaveReport>().front().is_silent);
}

TEST_CASE("the server ends the notice, and the node leaves as it would have without") {
    SavingNode story;
    story.asking(7).is(A::Signalled{SIGTERM});
    story.asked();
    story.hears(ctl::NoticeOver{"saved"});
    CHECK(story.is_stopping());
    CHECK(story.said<ctl::Leave>().size() == 1);
    CHECK(story.asked_for<G::SignalLeader>().size() == 2);
}

TEST_CASE("a result that every rank has saved is this node's result") {
    SavingNode story;
    story.asking(7).is(A::Signalled{SIGTERM});
    auto stop = a_stop(3);
    stop.root_cause.kind = ctl::Cause::Kind::cancelled;
    story.hears(stop);
    CHECK(story.is_stopping());
    // The time for the save ends meanwhile.
    story.pass(16s);
    CHECK(story.said<ctl::Leave>().empty());
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.is(A::StoreOpened{second_store});
    ctl::JobResult result{ctl::Outcome::cancelled, stop.root_cause, 86};
    story.hears(result);
    CHECK(story.report().exit_code == 86);
}

TEST_CASE("a scheduler that repeats its signal is not heard twice, another signal stops at once") {
    SavingNode story{{SIGUSR1}};
    story.is(A::Signalled{SIGUSR1});
    story.is(A::Signalled{SIGUSR1});
    CHECK_FALSE(story.is_stopping());
    CHECK(story.said<ctl::Notice>().size() == 1);
    story.is(A::Signalled{SIGTERM});
    CHECK(story.is_stopping());

    SavingNode other;
    other.asking(7).is(A::Signalled{SIGTERM});
    other.is(A::Signalled{SIGTERM});
    CHECK_FALSE(other.is_stopping());
    other.is(A::Signalled{SIGINT});
    CHECK(other.is_stopping());
}

TEST_CASE("workers that have the signal themselves are not waited for") {
    SavingNode story{{SIGUSR1}};
    story.is(A::Signalled{SIGTERM, true});
    CHECK(story.is_stopping());
    SavingNode noticed{{SIGUSR1}};
    noticed.is(A::Signalled{SIGUSR1, true});
    CHECK_FALSE(noticed.is_stopping());
}

TEST_CASE("the workers of a notice that is over are stopped by SIGTERM, whatever it came by") {
    SavingNode story{{SIGUSR1}};
    story.is(A::Signalled{SIGUSR1});
    story.hears(ctl::NoticeOver{"no"});
    const auto signals = story.asked_for<G::SignalLeader>();
    REQUIRE(signals.size() == 2);
    CHECK(signals.front().signal == SIGTERM);
    CHECK(story.said<ctl::Leave>().front() == ctl::Leave{"stopped by SIGUSR1 on here", SIGTERM});
}

TEST_CASE("a server that is there again hears of the notice and of the save again") {
    SavingNode story{{SIGUSR1}};
    story.is(A::Signalled{SIGUSR1});
    story.hears(order(1, 8, ctl::SaveState::proposed));
    story.is(A::SaveShown{3, 1, {}});
    story.pass(2s);
    story.asked();
    story.comes_back();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().front().save == ctl::SavePoint{1, 8});
    REQUIRE(story.said<ctl::Notice>().size() == 1);
    CHECK(story.said<ctl::Notice>().front().left < 15s);
    CHECK(story.said<ctl::SaveReport>().size() == 1);
}

TEST_CASE("without a server the node stops when the time for the save is over") {
    SavingNode story{{SIGUSR1}};
    story.loses_server();
    story.is(A::Signalled{SIGUSR1});
    CHECK_FALSE(story.is_stopping());
    story.pass(16s);
    CHECK(story.is_stopping());
}

TEST_CASE("a server of an older release knows no notice: the node stops at once") {
    SavingNode story{{SIGUSR1}, 1};
    story.is(A::Signalled{SIGUSR1});
    CHECK(story.is_stopping());
    CHECK(story.said<ctl::Notice>().empty());
    CHECK(story.asked_for<A::NoteNoticeOver>().size() == 1);
}

TEST_CASE("before the end of an allocation a notice is given, in any round of the job") {
    // 30 s of grace, and two minutes before that.
    SavingNode story{{0, std::nullopt, 152s}};
    story.pass(1s);
    CHECK(story.said<ctl::Notice>().empty());
    story.pass(1s);
    REQUIRE(story.said<ctl::Notice>().size() == 1);
    CHECK(story.said<ctl::Notice>().front().reason == "the end of the allocation on here");
    CHECK(story.said<ctl::Notice>().front().left == 120s);
    story.asked();
    // A worker fails, and there is another round: the server knows that, even one that has
    // forgotten the save.
    story.is(A::WorkerExited{0, crash});
    story.is(A::FailureExplained{3, 0, "", "", false});
    story.is(A::WorkerExited{1, by_sigterm});
    story.has_no_leftovers();
    story.is(A::StoreOpened{second_store});
    story.hears(an_assignment(4));
    story.is(A::WorkerSpawned{0, 102});
    story.is(A::WorkerSpawned{1, 103});
    story.asked();
    story.comes_back();
    CHECK(story.said<ctl::Notice>().size() == 1);
}

TEST_CASE("without workers there is nothing to save") {
    Story story{with_plan({SIGUSR1})};
    story.joined().is(A::Signalled{SIGUSR1});
    CHECK(story.said<ctl::Leave>().size() == 1);
}

TEST_CASE("save points of other rounds, and steps that no page can hold, are stale") {
    SavingNode story{{SIGUSR1}};
    story.hears(ctl::SaveAt{2, {1, 8}});
    story.hears(order(1, ~std::uint64_t{}, ctl::SaveState::proposed));
    story.hears(ctl::NoticeOver{"none was given"});
    CHECK(story.agent.stale_count() == 3);
}
