// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <optional>
#include <string>
#include <utility>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;
using control::SavePoint;
using control::SaveState;

namespace {

control::Notice a_notice(const std::string& node, std::optional<std::uint64_t> asked = 7) {
    return {"SIGTERM on " + node, SIGTERM, 30s, asked, false, 0};
}

/// Every rank of the node can see the ballot, and had asked for this step.
void shown(Story& job, const std::string& nodes, int ballot, std::uint64_t asked, int round = 0) {
    for (const auto& node : words(nodes)) {
        control::SaveReport report;
        report.round = round;
        report.ballot = ballot;
        report.asked = asked;
        report.waiting = 0;
        job.say(node, report);
    }
}

/// The report of a node whose ranks have all saved.
control::SaveReport save_report(int ballot, std::uint64_t step, int round = 0) {
    control::SaveReport report;
    report.round = round;
    report.ballot = ballot;
    report.saving = report.saved = 2;
    report.least = report.most = step;
    return report;
}

void saved(Story& job, const std::string& nodes, int ballot, std::uint64_t step, int round = 0) {
    for (const auto& node : words(nodes))
        job.say(node, save_report(ballot, step, round));
}

/// The lines with this beginning, without the rest.
std::string receivers(const Lines& lines, const std::string& what) {
    std::string nodes;
    for (const auto& line : lines) {
        const auto at = line.find(' ' + what);
        if (at != std::string::npos && line.find(' ') == at) nodes += line.substr(0, at + 1);
    }
    return nodes;
}

bool has(const Lines& lines, const std::string& piece) {
    for (const auto& line : lines)
        if (line.find(piece) != std::string::npos) return true;
    return false;
}

}  // namespace

TEST_CASE("after one notice all ranks of all nodes save the same step, and the job ends with 86") {
    auto job = job_of("2", "a b", 0);
    job.say("b", a_notice("b"));
    CHECK(
        job.output() ==
        Lines{
            "running: preemption notice of node b (pid 100) (SIGTERM on b), 30 s left",
            "a save_at round=0 ballot=1 step=8 proposed",
            "b save_at round=0 ballot=1 step=8 proposed"});
    shown(job, "a", 1, 7);
    CHECK(job.output().empty());
    shown(job, "b", 1, 7);
    CHECK(
        job.output() ==
        Lines{
            "a save_at round=0 ballot=1 step=8 agreed",
            "b save_at round=0 ballot=1 step=8 agreed",
            "running: preemption notice (SIGTERM on b), 29 s left: 4 ranks save at step 8"});
    job.pass(3s, "a b");
    saved(job, "a b", 1, 8);
    const auto end = job.output();
    CHECK(receivers(end, "stop") == "a b ");
    CHECK(has(end, "preempted (SIGTERM on b): 4 of 4 ranks saved step 8 in 3 s, 26 s were left"));
    job.ready("a b");
    CHECK(job.result("a").find("86") != std::string::npos);
    CHECK(job.whole_result("a").exit_code == 86);
    CHECK(job.whole_result("b").exit_code == 86);
    CHECK(job.whole_result("b").outcome == control::Outcome::cancelled);
    CHECK(job.status().restarts_used == 0);
}

TEST_CASE("a rank that had passed the step gets a later one under the next ballot") {
    auto job = job_of("2", "a b");
    job.say("b", a_notice("b"));
    job.output();
    shown(job, "a", 1, 9);
    CHECK(receivers(job.output(), "save_at round=0 ballot=2 step=10 proposed") == "a b ");
    shown(job, "b", 1, 7);
    CHECK(job.output().empty());
    shown(job, "a b", 2, 9);
    CHECK(receivers(job.output(), "save_at round=0 ballot=2 step=10 agreed") == "a b ");
}

TEST_CASE("nodes that may go on without the one that gave notice do, after the save") {
    auto job = job_of("1:2", "a b");
    job.say("b", a_notice("b"));
    shown(job, "a b", 1, 7);
    saved(job, "a b", 1, 8);
    const auto lines = job.output();
    CHECK(receivers(lines, "notice_over") == "b ");
    CHECK(receivers(lines, "stop").empty());
    job.leave("b", SIGTERM);
    job.ready("a b");
    job.drop("b");
    CHECK(job.assignment("a").round == 1);
    CHECK(job.assignment("a").restart_count == 0);
}

TEST_CASE("ranks that all end after such a save have not finished the job") {
    auto job = job_of("1:2", "a b");
    job.say("b", a_notice("b"));
    shown(job, "a b", 1, 7);
    saved(job, "a b", 1, 8);
    job.succeeded("a b");
    job.ready("a b");
    CHECK(job.whole_result("a").exit_code == 86);
}

TEST_CASE("ranks that all end without having saved have finished the job") {
    auto job = job_of("2", "a b");
    job.say("b", a_notice("b"));
    shown(job, "a b", 1, 7);
    for (const auto* node : {"a", "b"}) {
        control::SaveReport report;
        report.ended = 2;
        job.say(node, report);
    }
    job.succeeded("a b");
    CHECK(job.whole_result("a").exit_code == 0);
}

TEST_CASE("what ranks had saved comes with a node that is back, before their success") {
    auto job = job_of("2", "a b");
    job.say("b", a_notice("b"));
    shown(job, "a b", 1, 7);
    saved(job, "a", 1, 8);
    job.succeeded("a");
    job.drop("b");
    job.resume("b", NodeState::succeeded, [](auto& resume) {
        resume.save = SavePoint{1, 8, SaveState::agreed};
        resume.save_report = save_report(1, 8);
    });
    job.ready("a b");
    CHECK(job.whole_result("a").exit_code == 86);
}

TEST_CASE("it comes with all nodes when the server was started again") {
    for (const bool is_whole : {true, false}) {
        CAPTURE(is_whole);
        auto job = job_of("2", "a b");
        job.restart_server();
        for (const auto* node : {"a", "b"})
            job.resume(node, NodeState::succeeded, [&](auto& resume) {
                resume.save = SavePoint{1, 8, SaveState::agreed};
                if (is_whole || node[0] == 'a') resume.save_report = save_report(1, 8);
            });
        job.ready("a b");
        CHECK(job.whole_result("a").exit_code == (is_whole ? 86 : 0));
    }
}

TEST_CASE("a job that is ending because all have saved ends so under the next server, too") {
    struct Row {
        const char* name;
        NodeState first;
        NodeState second;
    };
    for (const auto& row :
         {Row{"both stop", NodeState::stopping, NodeState::stopping},
          Row{"one has stopped", NodeState::ready, NodeState::stopping},
          Row{"the stop has not come", NodeState::running, NodeState::running},
          Row{"their ranks have ended", NodeState::succeeded, NodeState::succeeded}}) {
        CAPTURE(row.name);
        auto job = job_of("2", "a b");
        job.restart_server();
        job.resume("a", row.first, [](auto& resume) {
            resume.save = SavePoint{1, 8, SaveState::ending};
        });
        job.resume("b", row.second, [](auto& resume) {
            resume.save = SavePoint{1, 8, SaveState::agreed};
        });
        job.ready("a b");
        CHECK(job.whole_result("b").exit_code == 86);
        CHECK(job.whole_result("b").outcome == control::Outcome::cancelled);
    }
}

TEST_CASE("a member that comes back learns that the others wait for no agreement any more") {
    auto job = job_of("2", "a b");
    auto short_notice = a_notice("b");
    short_notice.left = 2s;
    job.say("b", short_notice);
    job.output();
    job.pass(2s, "a b");
    const auto lines = job.output();
    CHECK(receivers(lines, "save_at round=0 ballot=1 step=8 cancelled") == "a b ");
    CHECK(receivers(lines, "notice_over") == "b ");
    job.drop("a");
    job.output();
    job.resume("a", NodeState::running);
    CHECK(receivers(job.output(), "save_at round=0 ballot=1 step=8 cancelled") == "a ");
}

TEST_CASE("a proposal of the server before is withdrawn where no notice holds any more") {
    struct Row {
        SaveState before;
        const char* after;
    };
    for (const auto& row :
         {Row{SaveState::proposed, "save_at round=0 ballot=3 step=40 cancelled"},
          Row{SaveState::agreed, "save_at round=0 ballot=3 step=40 agreed"}}) {
        CAPTURE(row.after);
        auto job = job_of("2", "a b");
        job.restart_server();
        job.resume("a", NodeState::running, [&](auto& resume) {
            resume.save = SavePoint{3, 40, row.before};
        });
        job.resume("b", NodeState::running);
        CHECK(receivers(job.output(), row.after) == "a b ");
    }
}

TEST_CASE("a rank that never asked is named when the step is agreed") {
    auto job = job_of("2", "a b");
    job.say("b", a_notice("b"));
    shown(job, "a", 1, 7);
    control::SaveReport silent;
    silent.waiting = 1;
    silent.is_silent = true;
    job.output();
    job.say("b", silent);
    CHECK(has(job.output(), "save at step 8; rank 3 on b has not called should_save so far"));
}

TEST_CASE("a standby of an older release keeps no ranks from saving") {
    auto job = job_of_two_with_room();
    job.say("b", a_notice("b"));
    shown(job, "a b", 1, 7);
    job.join("c", [](control::Join& join) { join.versions = {1}; });
    job.output();
    job.say("a", a_notice("a"));
    CHECK(receivers(job.output(), "notice_over").empty());
    saved(job, "a b", 1, 8);
    CHECK(receivers(job.output(), "notice_over") == "a b ");
}

TEST_CASE("two notices are one agreement, with the earlier end") {
    auto job = job_of("2", "a b");
    job.say("b", a_notice("b"));
    auto sooner = a_notice("a");
    sooner.left = 8s;
    job.output();
    job.say("a", sooner);
    CHECK(receivers(job.output(), "save_at").empty());
    job.pass(8s, "a b");
    const auto lines = job.output();
    CHECK(receivers(lines, "notice_over") == "a b ");
    CHECK(has(lines, "preemption without a common save: node a did not answer"));
}

TEST_CASE("a rank that never asks is named with what it does, before its node stops it") {
    auto job = job_of("2", "a b");
    job.show_progress("a", 0, {{1, {310, control::WorkPhase::eval}}});
    job.say("b", a_notice("b"));
    shown(job, "a b", 1, 7);
    saved(job, "b", 1, 8);
    control::SaveReport half;
    half.saving = half.saved = 1;
    half.least = half.most = 8;
    half.waiting = 1;
    half.is_silent = true;
    job.say("a", half);
    job.output();
    job.pass(28s, "a b");
    CHECK(job.output().empty());
    job.pass(1s, "a b");
    const auto lines = job.output();
    CHECK(receivers(lines, "notice_over") == "b ");
    CHECK(has(lines, "rank 1 on a has not called should_save (step 310, in phase eval)"));
    job.leave("b", SIGTERM);
    job.ready("a b");
}

TEST_CASE("a notice that comes while the job recovers is kept, and acted on when all are back") {
    auto job = job_of("2", "a b");
    job.restart_server();
    job.resume("b", NodeState::running);
    job.say("b", a_notice("b"));
    CHECK(receivers(job.output(), "save_at").empty());
    job.resume("a", NodeState::running);
    CHECK(receivers(job.output(), "save_at round=0 ballot=1 step=8 proposed") == "a b ");
}

TEST_CASE("a server that is started again goes on from the newest ballot that a member has") {
    auto job = job_of("2", "a b");
    job.restart_server();
    job.resume("b", NodeState::running, [](auto& resume) {
        resume.save = SavePoint{3, 40, SaveState::proposed};
    });
    job.say("b", a_notice("b"));
    job.resume("a", NodeState::running, [](auto& resume) {
        resume.save = SavePoint{2, 30, SaveState::agreed};
    });
    CHECK(receivers(job.output(), "save_at round=0 ballot=4 step=41 proposed") == "a b ");
}

TEST_CASE("a step that was agreed before the server was started again is completed") {
    auto job = job_of("2", "a b");
    job.restart_server();
    job.resume("a", NodeState::running, [](auto& resume) {
        resume.save = SavePoint{3, 40, SaveState::agreed};
    });
    job.resume("b", NodeState::running, [](auto& resume) {
        resume.save = SavePoint{3, 40, SaveState::proposed};
    });
    job.output();
    job.say("b", a_notice("b"));
    CHECK(receivers(job.output(), "save_at round=0 ballot=3 step=40 agreed") == "a b ");
    saved(job, "a b", 3, 40);
    job.ready("a b");
    CHECK(job.whole_result("a").exit_code == 86);
}

TEST_CASE("a member that comes back gets the newest save point") {
    auto job = job_of("2", "a b");
    job.say("b", a_notice("b"));
    job.drop("a");
    job.output();
    job.resume("a", NodeState::running);
    CHECK(receivers(job.output(), "save_at round=0 ballot=1 step=8 proposed") == "a ");
}

TEST_CASE("a late node is not let in while all ranks are to save") {
    auto job = job_of_two_with_room();
    job.join("c");
    job.say("b", a_notice("b"));
    job.output();
    job.join("d");
    job.pass(10s, "a b c d");
    const auto lines = job.output();
    CHECK(receivers(lines, "stop").empty());
    shown(job, "a b", 1, 7);
    CHECK(receivers(job.output(), "save_at round=0 ballot=1 step=8 agreed") == "a b ");
}

TEST_CASE("with a member of an older release the node stops as it always did") {
    Story job{"2", 3};
    job.join("a");
    job.join("b", speaks_version_2);
    job.started("a b");
    job.output();
    job.say("b", a_notice("b"));
    const auto lines = job.output();
    CHECK(receivers(lines, "notice_over") == "b ");
    CHECK(receivers(lines, "save_at").empty());
    CHECK(has(lines, "node a (pid 100) runs an older release of ddprun"));
}

TEST_CASE("a worker that fails meanwhile is a failure, and the next round is to save too") {
    auto job = job_of("2", "a b");
    job.say("b", a_notice("b"));
    shown(job, "a b", 1, 7);
    job.failed("a");
    job.output();
    job.ready("a b");
    const auto lines = job.output();
    CHECK(job.assignment("a").round == 1);
    CHECK(job.assignment("a").restart_count == 1);
    // Each round has new pages, ballots and steps, so it may begin at a much lower step.
    CHECK(receivers(lines, "save_at round=1 ballot=1 step=0 proposed") == "a b ");
    job.started("a b", 1);
    shown(job, "a b", 1, 3, 1);
    CHECK(receivers(job.output(), "save_at round=1 ballot=2 step=4 proposed") == "a b ");
    shown(job, "a b", 2, 3, 1);
    saved(job, "a b", 2, 4, 1);
    job.ready("a b", 1);
    CHECK(job.whole_result("b").exit_code == 86);
}

TEST_CASE("without a restart left a failure during the save is the end") {
    auto job = job_of("2", "a b", 0);
    job.say("b", a_notice("b"));
    job.failed("a");
    job.ready("a b");
    CHECK(job.whole_result("a").outcome == control::Outcome::failed);
}

TEST_CASE("a node that leaves before the save is done ends the agreement") {
    auto job = job_of("2", "a b");
    job.say("b", a_notice("b"));
    job.leave("b", SIGTERM);
    job.output();
    shown(job, "a b", 1, 7);
    CHECK(receivers(job.output(), "save_at").empty());
}

TEST_CASE("where a replacement is waited for by request, the others wait for one after the save") {
    Story job{"2", 3, [](control::Join& join) {
                  speaks_version_2(join);
                  join.settings.replacement_timeout = 60s;
              }};
    job.run("a b");
    job.say("b", a_notice("b"));
    shown(job, "a b", 1, 7);
    saved(job, "a b", 1, 8);
    CHECK(receivers(job.output(), "notice_over") == "b ");
}

TEST_CASE("a node that has the server ends the whole job, however few others are needed") {
    auto job = job_of("1:2", "a b");
    auto notice = a_notice("b");
    notice.ends_job = true;
    job.say("b", notice);
    shown(job, "a b", 1, 7);
    saved(job, "a b", 1, 8);
    CHECK(receivers(job.output(), "stop") == "a b ");
    job.ready("a b");
    CHECK(job.whole_result("a").exit_code == 86);
}

TEST_CASE("a notice after a save has all ranks save once more, under another ballot") {
    auto job = job_of("1:3", "a b c");
    job.say("b", a_notice("b"));
    shown(job, "a b c", 1, 7);
    saved(job, "a b c", 1, 8);
    job.output();
    job.say("c", a_notice("c", 12));
    CHECK(receivers(job.output(), "save_at round=0 ballot=2 step=13 proposed") == "a b c ");
}
