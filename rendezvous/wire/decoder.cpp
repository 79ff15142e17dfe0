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

void read_key(Cursor& cursor, std::string& into) {
    cursor.string(into, limits::max_key_bytes, Error::key_too_long);
}

void read_value(Cursor& cursor, std::string& into) {
    cursor.string(into, limits::max_value_bytes, Error::value_too_long);
}

/// A request like the one before is written over it: to make one and to move it into its place
/// costs as much as decoding a small one.
template <class Content>
Content& reused(Request& request) {
    if (auto* before = std::get_if<Content>(&request)) return *before;
    return request.emplace<Content>();
}

template <class Content>
void read_key_only(Cursor& cursor, Request& into) {
    read_key(cursor, reused<Content>(into).key);
}

template <class Content>
void read_key_and_value(Cursor& cursor, Request& into) {
    auto& content = reused<Content>(into);
    read_key(cursor, content.key);
    read_value(cursor, content.value);
}

void read_compare_set(Cursor& cursor, CompareSet& into) {
    read_key(cursor, into.key);
    read_value(cursor, into.expected);
    read_value(cursor, into.desired);
}

template <class Content>
void read_key_and_number(Cursor& cursor, Request& into, std::int64_t Content::*number) {
    auto& content = reused<Content>(into);
    read_key(cursor, content.key);
    content.*number = cursor.i64();
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

    switch (const auto query = *known) {
        case Query::validate: cursor.fail(Error::repeated_validate); break;
        case Query::set: read_key_and_value<Set>(cursor, into); break;
        case Query::compare_set: read_compare_set(cursor, reused<CompareSet>(into)); break;
        case Query::get: read_key_only<Get>(cursor, into); break;
        case Query::add: read_key_and_number(cursor, into, &Add::delta); break;
        case Query::num_keys: into = NumKeys{}; break;
        case Query::delete_key: read_key_only<DeleteKey>(cursor, into); break;
        case Query::append: read_key_and_value<Append>(cursor, into); break;
        case Query::cancel_wait: into = CancelWait{}; break;
        case Query::ping: into = Ping{cursor.u32()}; break;
        case Query::queue_push: read_key_and_value<QueuePush>(cursor, into); break;
        case Query::queue_pop: read_key_only<QueuePop>(cursor, into); break;
        case Query::queue_len: read_key_only<QueueLen>(cursor, into); break;
        case Query::list_keys: into = ListKeys{}; break;
        case Query::barrier: read_key_and_number(cursor, into, &Barrier::world_size); break;
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
        std::string key;
        std::string value;
        read_key(cursor, key);
        if (has_values) read_value(cursor, value);
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
