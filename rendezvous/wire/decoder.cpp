// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/decoder.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/wire/cursor.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::wire {
namespace {

constexpr bool nothing_yet = false;
constexpr bool complete = true;

std::string take_key(Cursor& cursor) {
    return cursor.string(limits::max_key_bytes, Error::key_too_long);
}

std::string take_value(Cursor& cursor) {
    return cursor.string(limits::max_value_bytes, Error::value_too_long);
}

/// The first byte of any request, except SET, with which a client without VALIDATE can begin.
bool is_legacy_opcode(std::uint8_t byte) {
    constexpr std::uint8_t first_legacy = 0x01, last_legacy = 0x0b;
    return byte >= first_legacy && byte <= last_legacy;
}

std::uint32_t byte_swapped(std::uint32_t value) {
    return value >> 24 | (value >> 8 & 0xff00U) | (value << 8 & 0xff0000U) | value << 24;
}

}  // namespace

Result<bool> Decoder::next(Request& into) {
    if (failure_) return *failure_;
    if (input_.unread().size() < needed_) return nothing_yet;
    if (!has_greeted_) return greet(into);
    if (list_) return go_on_with_list(into);

    Cursor cursor(input_.unread());
    const auto known = query_of(cursor.u8());
    if (!known) return fail(Error::unknown_query);

    // Elements of a braced list are evaluated from left to right, which is the order on the wire.
    switch (const auto query = *known) {
        case Query::validate: cursor.fail(Error::repeated_validate); break;
        case Query::set: into = Set{take_key(cursor), take_value(cursor)}; break;
        case Query::compare_set:
            into = CompareSet{take_key(cursor), take_value(cursor), take_value(cursor)};
            break;
        case Query::get: into = Get{take_key(cursor)}; break;
        case Query::add: into = Add{take_key(cursor), cursor.i64()}; break;
        case Query::num_keys: into = NumKeys{}; break;
        case Query::delete_key: into = DeleteKey{take_key(cursor)}; break;
        case Query::append: into = Append{take_key(cursor), take_value(cursor)}; break;
        case Query::cancel_wait: into = CancelWait{}; break;
        case Query::ping: into = Ping{cursor.u32()}; break;
        case Query::queue_push: into = QueuePush{take_key(cursor), take_value(cursor)}; break;
        case Query::queue_pop: into = QueuePop{take_key(cursor)}; break;
        case Query::queue_len: into = QueueLen{take_key(cursor)}; break;
        case Query::list_keys: into = ListKeys{}; break;
        case Query::barrier: into = Barrier{take_key(cursor), cursor.i64()}; break;
        case Query::check:
        case Query::wait:
        case Query::multi_get:
        case Query::multi_set: begin_list(query, cursor); break;
    }
    if (cursor.error()) return fail(*cursor.error());
    if (!finish(cursor)) return nothing_yet;
    return list_ ? go_on_with_list(into) : complete;
}

/// Handles first bytes that are not VALIDATE (FORMAT.md, "A connection begins").
Result<bool> Decoder::greet(Request& into) {
    Cursor cursor(input_.unread());
    const auto opcode = cursor.u8();
    if (is_legacy_opcode(opcode)) return greet_legacy(into);
    if (opcode != static_cast<std::uint8_t>(Query::validate))
        return fail(Error::not_a_store_client);
    const auto magic = cursor.u32();
    // Before VALIDATE existed, opcode 0 was SET, followed by the low bytes of its key's length.
    if (cursor.is_complete() && magic <= limits::max_key_bytes) return greet_legacy(into);
    if (!finish(cursor)) return nothing_yet;
    if (magic == byte_swapped(validate_magic)) return fail(Error::big_endian_client);
    if (magic != validate_magic) return fail(Error::wrong_magic);
    has_greeted_ = true;
    into = Validate{magic};
    return complete;
}

/// There is no greeting, so these bytes are the first request.
Result<bool> Decoder::greet_legacy(Request& into) {
    if (accepted_ == Accepted::current) return fail(Error::older_client);
    has_greeted_ = true;
    is_legacy_ = true;
    needed_ = 1;
    return next(into);
}

std::optional<Query> Decoder::query_of(std::uint8_t opcode) const {
    if (opcode >= (is_legacy_ ? legacy_query_count : query_count)) return std::nullopt;
    return static_cast<Query>(is_legacy_ ? opcode + 1 : opcode);
}

void Decoder::begin_list(Query query, Cursor& cursor) {
    const auto count = cursor.u64();
    if (!cursor.is_complete()) return;
    if (count > limits::max_key_count) return cursor.fail(Error::too_many_keys);
    list_ = List{query, count};
    // The most strings that can have arrived already, since each has a length in front.
    const auto here = std::min<std::uint64_t>(count, input_.unread().size() / sizeof count);
    if (query == Query::multi_set)
        list_->pairs.reserve(here / 2);
    else
        list_->keys.reserve(here);
}

Result<bool> Decoder::go_on_with_list(Request& into) {
    auto& list = *list_;
    const bool has_values = list.query == Query::multi_set;
    while (list.missing > 0) {
        Cursor cursor(input_.unread());
        auto key = take_key(cursor);
        auto value = has_values ? take_value(cursor) : std::string{};
        if (cursor.error()) return fail(*cursor.error());
        if (!finish(cursor)) return nothing_yet;

        list.bytes += key.size() + value.size();
        if (list.bytes > limits::max_request_bytes) return fail(Error::request_too_long);
        if (has_values)
            list.pairs.push_back({std::move(key), std::move(value)});
        else
            list.keys.push_back(std::move(key));
        --list.missing;
    }

    auto done = std::move(*list_);
    list_.reset();
    if (done.query == Query::multi_set)
        into = MultiSet{std::move(done.pairs)};
    else if (done.query == Query::multi_get)
        into = MultiGet{std::move(done.keys)};
    else if (done.query == Query::wait)
        into = Wait{std::move(done.keys)};
    else
        into = Check{std::move(done.keys)};
    return complete;
}

std::size_t Decoder::held_bytes() const {
    auto bytes = input_.held_bytes();
    if (list_)
        bytes += list_->bytes + list_->keys.capacity() * sizeof(std::string) +
                 list_->pairs.capacity() * sizeof(KeyValue);
    return bytes;
}

bool Decoder::finish(const Cursor& cursor) {
    if (!cursor.is_complete()) {
        needed_ = cursor.needed();
        return false;
    }
    input_.consume(cursor.consumed());
    needed_ = 1;
    return true;
}

Failure Decoder::fail(error_code code) {
    failure_ = Failure{code, {}};
    return *failure_;
}

}  // namespace ddprun::wire
