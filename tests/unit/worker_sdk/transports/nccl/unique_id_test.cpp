// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/unique_id.hpp"

#include <doctest/doctest.h>

#include <string.h>

#include <string>
#include <variant>

using namespace ddprun::nccl;
using ddprun::groups::GroupError;

namespace {

Announcement announcement(int version, int world_size) {
    Announcement made{{}, version, world_size};
    for (int i = 0; i < 128; ++i)
        made.id.bytes[i] = static_cast<char>(255 - i);
    return made;
}

}  // namespace

TEST_CASE("an announcement is 128 bytes of NCCL's, a version and a world size") {
    const auto bytes = written(announcement(22809, 258));

    CHECK(bytes.size() == 136);
    CHECK(bytes.substr(128) == std::string("\0\0\x59\x19\0\0\x01\x02", 8));
}

TEST_CASE("an announcement is read as it was written") {
    const auto read = read_announcement(written(announcement(22809, 1024)));

    REQUIRE(std::holds_alternative<Announcement>(read));
    const auto& same = std::get<Announcement>(read);
    CHECK(::memcmp(same.id.bytes, announcement(0, 0).id.bytes, 128) == 0);
    CHECK(same.version == 22809);
    CHECK(same.world_size == 1024);
}

TEST_CASE("an announcement of any other length is refused with its length") {
    for (const auto size : std::initializer_list<std::size_t>{0, 128, 135, 137}) {
        const auto read = read_announcement(std::string(size, 'x'));

        REQUIRE(std::holds_alternative<GroupError>(read));
        const auto& text = std::get<GroupError>(read).text;
        CHECK(text.find("in " + std::to_string(size) + " bytes, 136") != std::string::npos);
    }
}

TEST_CASE("different versions of NCCL are an error with both, before the ranks connect") {
    const auto differs = compare(announcement(22809, 4), 0, 23002, 4, 3);

    REQUIRE(differs);
    CHECK(differs->kind == GroupError::Kind::mismatch);
    CHECK(differs->text == "rank 3 has NCCL 2.30.2, but rank 0 has NCCL 2.28.9");
}

TEST_CASE("different world sizes are an error with both, before the ranks connect") {
    const auto differs = compare(announcement(22809, 4), 0, 22809, 8, 3);

    REQUIRE(differs);
    CHECK(differs->text == "rank 3 has a world of 8, but rank 0 has a world of 4");
}

TEST_CASE("ranks that agree have no error") {
    CHECK_FALSE(compare(announcement(22809, 4), 0, 22809, 4, 3));
}

TEST_CASE("each 128 ranks have a root, where NCCL can have several") {
    CHECK(root_count(1, 22809) == 1);
    CHECK(root_count(128, 22809) == 1);
    CHECK(root_count(129, 22809) == 2);
    CHECK(root_count(1024, 22809) == 8);
    CHECK(root_count(1024, 22205) == 1);
}

TEST_CASE("roots are different ranks, the first of them 0") {
    int previous = -1;
    for (int i = 0; i < 8; ++i) {
        const int root = root_rank(i, 8, 1021);
        CHECK(root > previous);
        CHECK(root < 1021);
        previous = root;
    }
    CHECK(root_rank(0, 8, 1021) == 0);
}
