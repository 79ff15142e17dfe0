// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/c/guard.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace ddprun::c {
namespace {

constexpr std::size_t longest_text = 4096;
/// More are counted, not kept.
constexpr std::size_t most_ranks = 1024;

struct LastError {
    std::array<char, longest_text> text{};
    std::array<int, most_ranks> ranks{};
    std::size_t rank_count = 0;
};

thread_local LastError last_error;

}  // namespace

int fail(int status, const char* text, const std::vector<int>* ranks) noexcept {
    auto& error = last_error;
    const auto size = std::min(std::strlen(text), longest_text - 1);
    std::memcpy(error.text.data(), text, size);
    error.text[size] = '\0';
    error.rank_count = ranks ? std::min(ranks->size(), most_ranks) : 0;
    if (ranks) std::copy_n(ranks->begin(), error.rank_count, error.ranks.begin());
    return status;
}

}  // namespace ddprun::c

extern "C" const char* ddprun_last_error(void) {
    return ddprun::c::last_error.text.data();
}

extern "C" size_t ddprun_last_error_ranks(int* ranks, size_t room) {
    const auto& error = ddprun::c::last_error;
    if (ranks) std::copy_n(error.ranks.begin(), std::min(room, error.rank_count), ranks);
    return error.rank_count;
}

extern "C" const char* ddprun_version(void) {
    return DDPRUN_VERSION;
}
