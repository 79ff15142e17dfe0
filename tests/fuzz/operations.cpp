// SPDX-License-Identifier: Apache-2.0
// Any sequence of store operations by several clients: a store answers what its model answers.
#include "tests/support/store_beside_model.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto difference = ddprun::test::StoreBesideModel::first_difference({data, size});
    if (difference.empty()) return 0;
    std::fputs(difference.c_str(), stderr);
    std::abort();
}
