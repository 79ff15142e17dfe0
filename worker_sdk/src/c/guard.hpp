// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/error.hpp"

#include <exception>
#include <new>
#include <string>

namespace ddprun::c {

/// Stores what ddprun_last_error() and its companions return, and returns the status. They allocate
/// nothing.
int fail(int status, const char* text) noexcept;
int fail(const PeerLost& error) noexcept;
int fail(const Timeout& error) noexcept;
int fail(const Mismatch& error) noexcept;

/// The C ABI's exception guard: runs the call and converts what it throws to a code.
template <class Call>
int guarded(const Call& call) noexcept {
    try {
        call();
        return DDPRUN_OK;
    } catch (const PeerLost& error) {
        return fail(error);
    } catch (const Timeout& error) {
        return fail(error);
    } catch (const Mismatch& error) {
        return fail(error);
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

/// Throws UsageError when a required pointer is null.
inline void need(const void* pointer, const char* name) {
    if (!pointer) throw UsageError(std::string{name} + " is NULL");
}

/// C passes enumerators as numbers, which may have any value.
template <class To>
To checked(int number, To last, const char* name) {
    if (number < 0 || number > static_cast<int>(last))
        throw UsageError(
            std::string{name} + " " + std::to_string(number) + ": expected 0 to " +
            std::to_string(static_cast<int>(last)));
    return static_cast<To>(number);
}

}  // namespace ddprun::c
