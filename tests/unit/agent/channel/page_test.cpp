// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/page.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <optional>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::channel;

namespace {

struct Memory {
    std::array<std::uint64_t, page_words> words{};
    Page page{words.data()};

    std::uint64_t& at(Word word) { return words.at(static_cast<std::size_t>(word)); }
};

}  // namespace

TEST_CASE("the agent's words of a page are its magic number, version and size") {
    Memory memory;
    memory.page.write_own(std::nullopt);
    CHECK(std::memcmp(memory.words.data(), "DDPCHAN1", 8) == 0);
    CHECK(memory.words[1] == ((std::uint64_t{4096} << 32) | 1));
    CHECK_FALSE(memory.page.progress().is_known());
}

TEST_CASE("a step counts once its time is there, also step 0") {
    Memory memory;
    memory.at(Word::step) = 5;
    CHECK_FALSE(memory.page.progress().step);
    memory.at(Word::reported_at) = 1;
    CHECK(memory.page.progress().step == 5);
    memory.at(Word::step) = 0;
    CHECK(memory.page.progress().step == 0);
    memory.at(Word::step) = std::uint64_t{1} << 63;
    CHECK(memory.page.progress().step == std::uint64_t{1} << 63);
}

TEST_CASE("a phase without a name counts as none, and garbage is never more than numbers") {
    Memory memory;
    memory.at(Word::phase) = 6;
    CHECK(memory.page.progress().phase == control::WorkPhase::data);
    for (const std::uint64_t number :
         {std::uint64_t{7}, std::uint64_t{255}, std::uint64_t{259}, ~std::uint64_t{}}) {
        memory.at(Word::phase) = number;
        CHECK(memory.page.progress().phase == control::WorkPhase::none);
    }
    memory.words.fill(0xA5A5A5A5A5A5A5A5);
    CHECK(
        memory.page.progress() ==
        control::WorkProgress{0xA5A5A5A5A5A5A5A5, control::WorkPhase::none});
    memory.page.write_own(std::nullopt);
    CHECK(memory.words[0] == page_magic);
}

TEST_CASE("what a rank shows of saves is read from two words, each whole") {
    Memory memory;
    CHECK(memory.page.save_of(3) == RankSave{3});
    memory.at(Word::asked) = 1;
    CHECK(memory.page.save_of(0).asked == 0);
    memory.at(Word::answer) = (std::uint64_t{7} << 56) | (std::uint64_t{2} << 54) | 12;
    CHECK(memory.page.save_of(0) == RankSave{0, 0, RankSave::Answer::saved, 7, 12});
    memory.words.fill(~std::uint64_t{});
    const auto garbage = memory.page.save_of(0);
    CHECK_FALSE(garbage.asked);
    CHECK(garbage.answer == RankSave::Answer::declined);
    CHECK(garbage.ballot == 255);
}

TEST_CASE("a save point is one word") {
    Memory memory;
    memory.page.write_own(control::SavePoint{255, 12, control::SaveState::agreed});
    CHECK(memory.at(Word::save) == ((std::uint64_t{255} << 56) | (std::uint64_t{2} << 54) | 12));
    memory.page.write_own(control::SavePoint{1, 12, control::SaveState::cancelled});
    CHECK(memory.at(Word::save) == ((std::uint64_t{1} << 56) | (std::uint64_t{3} << 54) | 12));
    CHECK(memory.at(Word::wait_ends_at) == 0);
    memory.page.write_own(control::SavePoint{1, 12, control::SaveState::proposed}, 99);
    CHECK(memory.at(Word::wait_ends_at) == 99);
    CHECK(memory.at(Word::save) == ((std::uint64_t{1} << 56) | (std::uint64_t{1} << 54) | 12));
    memory.page.write_own(std::nullopt);
    CHECK(memory.at(Word::save) == 0);
}

TEST_CASE("a worker that is kept has neither done a step nor asked to save in its next round") {
    Memory memory;
    memory.at(Word::step) = 5;
    memory.at(Word::reported_at) = 1;
    memory.at(Word::asked) = 6;
    memory.at(Word::answer) = std::uint64_t{1} << state_shift;
    memory.page.forget_round();
    CHECK_FALSE(memory.page.progress().step);
    CHECK_FALSE(memory.page.save_of(0).asked);
    CHECK(memory.page.save_of(0).answer == RankSave::Answer::none);
}
