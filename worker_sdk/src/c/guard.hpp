// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/error.hpp"

#include <exception>
#include <new>
#include <string>
#include <vector>

namespace ddprun::c {

/// Keeps the text for ddprun_last_error(), the ranks for ddprun_last_error_ranks(), and returns the
/// status. Allocates nothing.
int fail(int status, const char* text, const std::vector<int>* ranks = nullptr) noexcept;

/// Where C ends and C++ begins: runs it, and makes a code of what it throws.
template <class Call>
int guarded(const Call& call) noexcept {
    try {
        call();
        return DDPRUN_OK;
    } catch (const PeerLost& error) {
        return fail(DDPRUN_PEER_LOST, error.what(), &error.ranks());
    } catch (const Timeout& error) {
        return fail(DDPRUN_TIMEOUT, error.what(), &error.ranks());
    } catch (const Error& error) {
        return fail(static_cast<int>(error.code()), error.what());
    } catch (const std::bad_alloc&) {
        return fail(DDPRUN_NO_MEMORY, "out of memory");
    } catch (const std::exception& error) {
        return fail(DDPRUN_ERROR, error.what());
    }
}

static_assert(static_cast<int>(ErrorCode::peer_lost) == DDPRUN_PEER_LOST);
static_assert(static_cast<int>(ErrorCode::timeout) == DDPRUN_TIMEOUT);
static_assert(static_cast<int>(ErrorCode::mismatch) == DDPRUN_MISMATCH);
static_assert(static_cast<int>(ErrorCode::usage) == DDPRUN_USAGE);
static_assert(static_cast<int>(ErrorCode::other) == DDPRUN_ERROR);

/// Throws UsageError when a pointer that is needed is null.
inline void need(const void* pointer, const char* name) {
    if (!pointer) throw UsageError(std::string{name} + " is NULL");
}

}  // namespace ddprun::c
