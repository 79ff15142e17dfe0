// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/c/guard.hpp"

#include "rendezvous/base/version.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ddprun::c {

// A field that fits into the room at the end would not change the size: there is none.
static_assert(offsetof(ddprun_world, reserved) + sizeof(int) == sizeof(ddprun_world));
static_assert(
    offsetof(ddprun_group_options, timeout_ms) + sizeof(std::int64_t) ==
    sizeof(ddprun_group_options));
static_assert(sizeof(ddprun_world) >= first_size<ddprun_world>);
static_assert(sizeof(ddprun_group_options) >= first_size<ddprun_group_options>);

namespace {

/// A text that is cut to fit.
template <std::size_t Room>
class Kept {
public:
    const char* text() const { return text_.data(); }
    void keep(std::string_view text) {
        const auto size = text.copy(text_.data(), Room - 1);
        text_[size] = '\0';
    }

private:
    std::array<char, Room> text_{};
};

constexpr std::size_t most_ranks = 1024;

struct LastError {
    Kept<4096> text;
    Kept<512> operation;
    Kept<512> one_side;
    Kept<512> other_side;
    std::array<int, most_ranks> ranks{};
    std::size_t rank_count = 0;
    int round = -1;

    void begin(std::string_view what) {
        text.keep(what);
        operation.keep("");
        one_side.keep("");
        other_side.keep("");
        rank_count = 0;
        round = -1;
    }

    void keep_ranks(const std::vector<int>& from) {
        rank_count = std::min(from.size(), most_ranks);
        std::copy_n(from.begin(), rank_count, ranks.begin());
    }
};

thread_local LastError last_error;

}  // namespace

int fail(int status, const char* text) noexcept {
    last_error.begin(text);
    return status;
}

int fail(const PeerLost& error) noexcept {
    last_error.begin(error.what());
    last_error.keep_ranks(error.ranks());
    last_error.round = error.round();
    return DDPRUN_PEER_LOST;
}

int fail(const Timeout& error) noexcept {
    last_error.begin(error.what());
    last_error.keep_ranks(error.ranks());
    last_error.operation.keep(error.operation());
    return DDPRUN_TIMEOUT;
}

int fail(const Mismatch& error) noexcept {
    last_error.begin(error.what());
    last_error.one_side.keep(error.one_side());
    last_error.other_side.keep(error.other_side());
    return DDPRUN_MISMATCH;
}

}  // namespace ddprun::c

extern "C" const char* ddprun_last_error(void) {
    return ddprun::c::last_error.text.text();
}

extern "C" size_t ddprun_last_error_ranks(int* ranks, size_t room) {
    const auto& error = ddprun::c::last_error;
    if (ranks) std::copy_n(error.ranks.begin(), std::min(room, error.rank_count), ranks);
    return error.rank_count;
}

extern "C" int ddprun_last_error_round(void) {
    return ddprun::c::last_error.round;
}

extern "C" const char* ddprun_last_error_operation(void) {
    return ddprun::c::last_error.operation.text();
}

extern "C" const char* ddprun_last_error_one_side(void) {
    return ddprun::c::last_error.one_side.text();
}

extern "C" const char* ddprun_last_error_other_side(void) {
    return ddprun::c::last_error.other_side.text();
}

extern "C" const char* ddprun_version(void) {
    return ddprun::build::version.data();  // a literal, so it ends with a null character
}
