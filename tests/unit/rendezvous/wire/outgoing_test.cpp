// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/outgoing.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

using namespace ddprun;
using namespace ddprun::wire;

namespace {

/// Takes everything out, in calls that send at most `most` bytes from at most `parts` parts.
std::string drained(Outgoing& out, std::size_t most, std::size_t parts) {
    std::string sent;
    while (out.size() > 0) {
        std::array<std::string_view, 8> views;
        const auto count = out.gather(std::span{views}.first(parts));
        REQUIRE(count > 0);
        CHECK(views[0] == out.front());
        std::size_t taken = 0;
        for (std::size_t i = 0; i < count && taken < most; ++i) {
            const auto size = std::min(views[i].size(), most - taken);
            sent.append(views[i].substr(0, size));
            taken += size;
        }
        out.consume(taken);
    }
    return sent;
}

}  // namespace

TEST_CASE("own bytes and shared texts leave in their order, however they are cut") {
    const auto meter = std::make_shared<std::size_t>(0);
    for (const std::size_t most : {1U, 7U, 1000U, 5000U, 1U << 20}) {
        for (const std::size_t parts : {2U, 3U, 8U}) {
            Outgoing out;
            std::string expected;
            for (int i = 0; i < 6; ++i) {
                // Two shared texts behind one another, and one at each end.
                const SharedText shared{
                    std::string(limits::least_shared_bytes + static_cast<std::size_t>(i), 's'),
                    meter};
                out.append_shared(shared);
                expected += shared.view();
                if (i % 2 == 0 || i == 5) continue;
                const std::string own(static_cast<std::size_t>(i), 'o');
                out.append(own);
                expected += own;
            }
            CHECK(out.size() == expected.size());
            CHECK(drained(out, most, parts) == expected);
            CHECK(*meter == 0);
            out.append("more");
            CHECK(drained(out, most, parts) == "more");
        }
    }
}

TEST_CASE("bytes that are sent are not kept while others wait") {
    const auto meter = std::make_shared<std::size_t>(0);
    const std::string block(64 * 1024, 'o');
    Outgoing out;
    for (int i = 0; i < 200; ++i) {
        out.append(block);
        out.append_shared(SharedText{std::string{block}, meter});
        if (i < 4) continue;
        for (std::size_t bytes = 2 * block.size(); bytes > 0;) {
            const auto size = std::min(bytes, out.front().size());
            REQUIRE(size > 0);
            out.consume(size);
            bytes -= size;
        }
    }
    CHECK(out.size() == 8 * block.size());
    CHECK(out.held_bytes() < 32 * block.size());
    CHECK(*meter < 8 * block.size());
}
