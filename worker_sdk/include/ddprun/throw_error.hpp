// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/error.hpp"

#include <new>
#include <string>
#include <utility>
#include <vector>

/// Converts the C functions' codes to exceptions: for the SDK's own headers.
namespace ddprun {

/// Throws the exception of `status`, with the text of ddprun_last_error().
[[noreturn]] inline void throw_last_error(int status) {
    const std::string text = ddprun_last_error();
    std::vector<int> ranks(ddprun_last_error_ranks(nullptr, 0));
    ddprun_last_error_ranks(ranks.data(), ranks.size());
    switch (status) {
        case DDPRUN_PEER_LOST: throw PeerLost(text, std::move(ranks), ddprun_last_error_round());
        case DDPRUN_TIMEOUT: throw Timeout(text, std::move(ranks), ddprun_last_error_operation());
        case DDPRUN_MISMATCH:
            throw Mismatch(text, ddprun_last_error_one_side(), ddprun_last_error_other_side());
        case DDPRUN_USAGE: throw UsageError(text);
        case DDPRUN_NO_MEMORY: throw std::bad_alloc();
    }
    throw Error(text);
}

inline void throw_if(int status) {
    if (status != DDPRUN_OK) throw_last_error(status);
}

}  // namespace ddprun
