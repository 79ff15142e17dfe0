// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
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

/// The size of a structure in the first release that had it.
template <class Struct>
inline constexpr std::size_t first_size = 0;
template <>
inline constexpr std::size_t first_size<ddprun_world> = 4912;
template <>
inline constexpr std::size_t first_size<ddprun_group_options> = 24;

/// Far above any size that is meant: such a size was never set.
inline constexpr std::size_t longest_struct = 65536;

template <class Struct>
std::size_t known_size(const Struct* given, const char* name) {
    need(given, name);
    if (given->size < first_size<Struct> || given->size > longest_struct)
        throw UsageError(
            std::string{name} + "->size is " + std::to_string(given->size) +
            ": set it to the structure's sizeof, here " + std::to_string(sizeof(Struct)));
    return std::min(given->size, sizeof(Struct));
}

/// The fields that the program and this library have; the others are 0. Throws UsageError for a
/// value in a field that only the program has.
template <class Struct>
Struct known_part(const Struct* given, const char* name) {
    Struct known{};
    const auto size = known_size(given, name);
    std::memcpy(&known, given, size);
    const auto* const bytes = reinterpret_cast<const char*>(given);
    const bool has_more =
        std::any_of(bytes + size, bytes + given->size, [](char byte) { return byte != 0; });
    if (known.reserved != 0 || has_more)
        throw UsageError(
            std::string{name} + " has a value in a field that ddprun " + ddprun_version() +
            " does not have");
    return known;
}

/// Fills the fields that the program and this library have.
template <class Struct>
void fill(Struct* place, const char* name, Struct value) {
    const auto size = known_size(place, name);
    value.size = place->size;
    std::memcpy(place, &value, size);
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
