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
        SharedText text{big, meter};
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
    SharedText text{big, meter};
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
    SharedText text{big, meter};
    const auto observer = text.observer();
    REQUIRE(observer.get());
    CHECK(observer.get()->view().data() == text.view().data());
    text = {};
    CHECK_FALSE(observer.get());
    CHECK_FALSE(SharedText{"small"}.observer().get());
}
