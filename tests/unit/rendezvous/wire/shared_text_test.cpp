// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/shared_text.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::wire;

namespace {

const std::string big(limits::least_shared_bytes, 'b');

Meter new_meter() {
    return std::make_shared<std::size_t>(0);
}

}  // namespace

TEST_CASE("a shared text is counted once, until its last copy is gone") {
    const auto meter = new_meter();
    {
        SharedText text{std::string{big}, meter};
        CHECK(*meter >= big.size());
        const auto counted = *meter;
        {
            const auto copy = text;
            text = SharedText{"small", meter};
            CHECK(copy == big);
            CHECK(*meter == counted);
        }
        CHECK(*meter == 0);
        text.append(big, meter);
        CHECK(*meter >= big.size());
    }
    CHECK(*meter == 0);
}

TEST_CASE("adding to a text leaves its copies as they are, and copies no byte") {
    const auto meter = new_meter();
    SharedText text{std::string{big}, meter};
    const auto before = text;
    text.append("1", meter);
    CHECK(before == big);
    CHECK(text == big + "1");
    CHECK(before.view().data() == text.view().data());

    auto other = before;
    other.append("2", meter);
    CHECK(other == big + "2");
    CHECK(text == big + "1");
    CHECK(before == big);
}

TEST_CASE("an observer gives the text while a copy is alive") {
    const auto meter = new_meter();
    SharedText text{std::string{big}, meter};
    const auto observer = text.observer();
    REQUIRE(observer.get());
    CHECK(observer.get()->view().data() == text.view().data());
    text = {};
    CHECK_FALSE(observer.get());
    CHECK_FALSE(SharedText{"small"}.observer().get());
}

TEST_CASE("a borrowed text shows bytes that are not copied, and its copies have their own") {
    const auto meter = new_meter();
    SharedText small{"small"};
    const auto borrowed = small.borrowed();
    CHECK(borrowed == small);
    CHECK(borrowed.view().data() == small.view().data());
    const auto copy = borrowed;
    small = SharedText{"other"};
    CHECK(copy == SharedText{"small"});
    CHECK(copy.own_bytes() == 0);
    CHECK(small.borrowed().own_bytes() == 0);

    SharedText shared{std::string{big}, meter};
    const auto kept = shared.borrowed();
    CHECK(kept.view().data() == shared.view().data());
    shared = {};
    CHECK(kept == big);
    CHECK(kept.is_shared());
}

TEST_CASE("what a text needs to grow is known before, and what is free when it is gone") {
    const auto meter = new_meter();
    SharedText text{std::string{big}, meter};
    CHECK(text.sole_bytes() == *meter);
    {
        const auto copy = text;
        CHECK(text.sole_bytes() == 0);
    }
    // The old bytes still exist until they are copied.
    const auto needed = text.growth_by_append(1);
    const auto before = *meter;
    text.append("1", meter);
    CHECK(*meter <= needed);
    CHECK(*meter > before);
    CHECK(text.growth_by_append(1) == 0);

    SharedText small{std::string(100, 's')};
    CHECK(small.growth_by_append(100) >= 200);
    CHECK(small.growth_by_append(big.size()) >= 100 + big.size());
    CHECK(small.sole_bytes() == small.own_bytes());
}
