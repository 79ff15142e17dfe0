// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/group_error.hpp"

#include <doctest/doctest.h>

using namespace ddprun::groups;

TEST_CASE("an error sent through the store is read as it was written") {
    GroupError lost{GroupError::Kind::peer_lost, "lost ranks 1 and 20"};
    lost.ranks = {1, 20};
    GroupError late{GroupError::Kind::timeout, "rank 3 did not come within 500 ms"};
    late.ranks = {3};
    const auto mismatch = mismatch_between("rank 0 is at a", "rank 1 is at b");

    const bool all_are_the_same = error_from_text(written(lost)) == lost &&
                                  error_from_text(written(late)) == late &&
                                  error_from_text(written(mismatch)) == mismatch;
    CHECK(all_are_the_same);
}

TEST_CASE("a text that is no error is refused") {
    for (const char* text : {"", "lost", "early\na\nb", "\n\n\n"})
        CHECK_FALSE(error_from_text(text).has_value());
}
