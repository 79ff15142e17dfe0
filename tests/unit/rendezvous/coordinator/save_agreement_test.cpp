// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/save_agreement.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/text.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using State = SaveAgreement::State;
using std::chrono_literals::operator""s;

namespace {

using Asked = std::optional<std::uint64_t>;

/// Two nodes of two ranks.
SaveAgreement agreement(Asked asked, std::optional<control::SavePoint> known = {}) {
    return {{{0, {2, 0}}, {1, {2, 2}}}, asked, known, Instant{}};
}

control::SaveReport report(const SaveAgreement& save, Asked asked = {}) {
    control::SaveReport report;
    report.ballot = save.point().ballot;
    report.asked = asked;
    report.waiting = 0;
    return report;
}

control::SaveReport all_saved(const SaveAgreement& save, std::uint64_t step) {
    auto done = report(save);
    done.saving = done.saved = 2;
    done.least = done.most = step;
    done.waiting.reset();
    return done;
}

control::SaveReport all_ended(const SaveAgreement& save) {
    auto ended = report(save);
    ended.ended = 2;
    ended.waiting.reset();
    return ended;
}

/// Both nodes see the proposal, and no rank had reached the step: it is agreed.
void arm(SaveAgreement& save) {
    save.on_report(0, report(save), Instant{});
    save.on_report(1, report(save), Instant{});
}

std::string shown(const SaveAgreement& save) {
    return control::describe(save.point());
}

}  // namespace

TEST_CASE("a step above the highest known is agreed when every node is below it") {
    auto save = agreement(Asked{12});
    CHECK(shown(save) == "ballot=1 step=13 proposed");
    CHECK_FALSE(save.on_report(0, report(save, 12), Instant{}));
    CHECK(save.on_report(1, report(save, 11), Instant{} + 2s));
    CHECK(shown(save) == "ballot=1 step=13 agreed");
    CHECK(save.agreed_at() == Instant{} + 2s);
    CHECK_FALSE(save.on_report(0, all_saved(save, 13), Instant{}));
    CHECK(save.on_report(1, all_saved(save, 13), Instant{}));
    CHECK(save.state() == State::saved);
    CHECK(save.saved_step() == 13);
    CHECK(save.saved_count() == 4);
}

TEST_CASE("before the first step every rank saves at its first call") {
    auto save = agreement({});
    CHECK(shown(save) == "ballot=1 step=0 proposed");
    arm(save);
    CHECK(shown(save) == "ballot=1 step=0 agreed");
}

TEST_CASE("ranks that had passed a step get a higher one, further away each time") {
    auto save = agreement(Asked{12});
    std::string margins;
    while (save.point().ballot < 6) {
        const auto passed = save.point().step;
        CHECK(save.on_report(1, report(save, passed), Instant{}));
        margins += std::to_string(save.point().step - passed) + ' ';
    }
    CHECK(margins == "1 2 4 8 16 ");
    CHECK(save.state() == State::proposed);
}

TEST_CASE("the attempts end") {
    auto save = agreement(Asked{12});
    for (int i = 0; i < limits::most_save_attempts; ++i)
        save.on_report(1, report(save, save.point().step), Instant{});
    CHECK(save.state() == State::failed);
    CHECK(save.failure() == "no step was found that no rank had passed, in 14 attempts");
}

TEST_CASE("a rank that did not wait has the others save once more") {
    auto save = agreement(Asked{12});
    arm(save);
    auto declined = report(save, 20);
    declined.declined = 1;
    CHECK(save.on_report(0, declined, Instant{}));
    CHECK(shown(save) == "ballot=2 step=21 proposed");
    // Reports of the previous ballot no longer count.
    auto old = all_saved(save, 13);
    old.ballot = 1;
    CHECK_FALSE(save.on_report(1, old, Instant{}));
    arm(save);
    CHECK(shown(save) == "ballot=2 step=21 agreed");
}

TEST_CASE("after a restart of the server the ballots go on from what the members have") {
    auto proposed = agreement(Asked{5}, control::SavePoint{3, 40, control::SaveState::proposed});
    CHECK(shown(proposed) == "ballot=4 step=41 proposed");
    auto agreed = agreement(Asked{50}, control::SavePoint{3, 40, control::SaveState::agreed});
    CHECK(shown(agreed) == "ballot=3 step=40 agreed");
    auto declined = report(agreed);
    declined.declined = 1;
    CHECK(agreed.on_report(0, declined, Instant{}));
    CHECK(shown(agreed) == "ballot=4 step=51 proposed");
    auto last = agreement({}, control::SavePoint{255, 40, control::SaveState::proposed});
    CHECK(last.state() == State::failed);
}

TEST_CASE("a rank that has ended is not waited for, and alone it is no save") {
    auto save = agreement(Asked{12});
    CHECK_FALSE(save.on_report(0, all_ended(save), Instant{}));
    CHECK(save.on_report(1, report(save), Instant{}));
    CHECK_FALSE(save.on_report(0, all_ended(save), Instant{}));
    CHECK_FALSE(save.on_report(1, all_ended(save), Instant{}));
    CHECK(save.state() == State::agreed);
    CHECK(save.on_report(1, all_saved(save, 13), Instant{}));
    CHECK(save.state() == State::saved);
    CHECK(save.saved_count() == 2);
}

TEST_CASE("a rank that ends without a save after the agreement is missing in it") {
    auto save = agreement(Asked{12});
    arm(save);
    save.on_report(0, all_saved(save, 13), Instant{});
    CHECK(save.on_report(1, all_ended(save), Instant{}));
    CHECK(save.state() == State::failed);
    CHECK(save.failure() == "2 of the ranks ended without a save of step 13");
}

TEST_CASE("a node that is gone has ended ranks: before the agreement, after it, after its save") {
    auto before = agreement(Asked{12});
    before.on_report(1, report(before), Instant{});
    CHECK(before.on_gone(0, Instant{}));
    CHECK(shown(before) == "ballot=1 step=13 agreed");
    CHECK(before.on_report(1, all_saved(before, 13), Instant{}));
    CHECK(before.state() == State::saved);

    auto after = agreement(Asked{12});
    arm(after);
    after.on_report(1, all_saved(after, 13), Instant{});
    CHECK(after.on_gone(0, Instant{}));
    CHECK(after.state() == State::failed);

    auto saved = agreement(Asked{12});
    arm(saved);
    saved.on_report(0, all_saved(saved, 13), Instant{});
    CHECK_FALSE(saved.on_gone(0, Instant{}));
    CHECK_FALSE(saved.on_gone(7, Instant{}));
    CHECK(saved.on_report(1, all_saved(saved, 13), Instant{}));
    CHECK(saved.state() == State::saved);
}

TEST_CASE("reports that do not fit together, or the node, have no effect") {
    using Report = control::SaveReport;
    const std::vector<void (*)(Report&)> changes{
        [](Report& it) { it.most.reset(); },
        [](Report& it) { it.least.reset(); },
        [](Report& it) { it.least = 14; },
        [](Report& it) { it.saving = it.saved = 0; },
        [](Report& it) { it.saving = it.saved = 3; },
        [](Report& it) { it.saving = 1; },
        [](Report& it) { it.ended = 1; },
        [](Report& it) { it.declined = 3; },
    };
    for (const auto& change : changes) {
        auto save = agreement(Asked{12});
        arm(save);
        save.on_report(0, all_saved(save, 13), Instant{});
        auto wrong = all_saved(save, 13);
        change(wrong);
        CHECK_FALSE(save.on_report(1, wrong, Instant{}));
        CHECK(save.state() == State::agreed);
        CHECK(save.on_report(1, all_saved(save, 13), Instant{}));
    }
}

TEST_CASE("ranks that call with different steps have no common save") {
    auto save = agreement(Asked{12});
    arm(save);
    save.on_report(0, all_saved(save, 13), Instant{});
    CHECK(save.on_report(1, all_saved(save, 14), Instant{}));
    CHECK(save.state() == State::failed);
    CHECK(save.failure().starts_with("ranks save different steps, 13 to 14"));
}

TEST_CASE("the first rank that is missing is known by name") {
    auto save = agreement(Asked{12});
    REQUIRE(save.missing());
    CHECK(save.missing()->is_unheard);
    arm(save);
    CHECK(save.missing()->rank == 0);
    save.on_report(0, all_saved(save, 13), Instant{});
    auto half = report(save);
    half.saving = half.saved = 1;
    half.least = half.most = 13;
    half.waiting = 1;
    half.is_silent = true;
    save.on_report(1, half, Instant{});
    CHECK(save.missing()->rank == 3);
    CHECK_FALSE(save.missing()->has_asked);
    CHECK_FALSE(save.missing()->is_unheard);
}

TEST_CASE("steps that no page can hold fail") {
    auto save = agreement(Asked{~std::uint64_t{0} - 1});
    CHECK(save.state() == State::failed);
}

TEST_CASE("reports of nodes that are not in the round have no effect") {
    auto save = agreement(Asked{12});
    CHECK_FALSE(save.on_report(7, report(save, 99), Instant{}));
    CHECK(shown(save) == "ballot=1 step=13 proposed");
}
