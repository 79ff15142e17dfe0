// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/header.hpp"

#include <doctest/doctest.h>

#include <string.h>

#include <array>
#include <random>

using namespace ddprun;
using namespace ddprun::groups;

TEST_CASE("a header has the call that it was made of") {
    Collective call;
    call.kind = Collective::Kind::reduce;
    call.type = ElementType::float16;
    call.op = Op::max;
    call.root = 3;
    call.receiver = 5;
    call.count = std::size_t{1} << 40;
    call.sequence = 77;

    const auto header = header_of(call, 9, 100);

    CHECK(header.tag == 9);
    CHECK(header.bytes == 100);
    const auto read = call_in(header);
    REQUIRE(read);
    CHECK(is_same_call(*read, call));
    CHECK(describe(*read) == describe(call));
}

TEST_CASE("any bytes are a header of a call that can be described, or of none") {
    std::mt19937 random(5);
    for (int i = 0; i < 20'000; ++i) {
        std::array<unsigned char, sizeof(Header)> bytes{};
        for (auto& byte : bytes)
            byte = static_cast<unsigned char>(random() % 4 == 0 ? random() : random() % 16);
        Header header;
        ::memcpy(&header, bytes.data(), sizeof header);
        CHECK_FALSE(call_in(header));
        header.sign = Header::right_sign;
        header.kind %= 32;
        header.type %= 32;
        header.op %= 8;
        if (const auto call = call_in(header)) CHECK_FALSE(describe(*call).empty());
    }
}
