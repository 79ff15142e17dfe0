// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/reply_decoder.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/wire/cursor.hpp"

#include <iterator>
#include <utility>

namespace ddprun::wire {
namespace {

const std::optional<Reply> no_reply_yet;

std::string take_reply_string(Cursor& cursor) {
    return cursor.string(limits::max_reply_value_bytes, Error::reply_too_long);
}

Reply take_check_answer(Cursor& cursor) {
    const auto byte = cursor.u8();
    if (byte > 1) cursor.fail(Error::unexpected_reply);
    return Checked{byte == 0};
}

/// The byte 0 ends a wait, 1 confirms its cancellation.
Reply take_wait_answer(Cursor& cursor) {
    const auto byte = cursor.u8();
    if (byte == 0) return StopWaiting{};
    if (byte > 1) cursor.fail(Error::unexpected_reply);
    return WaitCanceled{};
}

Reply take_cancel_answer(Cursor& cursor) {
    if (cursor.u8() != 1 && cursor.is_complete()) cursor.fail(Error::unexpected_reply);
    return WaitCanceled{};
}

Reply take_popped(Cursor& cursor) {
    Popped popped{cursor.i64(), {}};
    if (popped.length_before < 0) cursor.fail(Error::unexpected_reply);
    if (popped.length_before > 0) popped.value = take_reply_string(cursor);
    return popped;
}

}  // namespace

std::optional<Awaited> awaited_reply(const Request& request) {
    const auto query = query_of(request);
    switch (query) {
        case Query::validate:
        case Query::set:
        case Query::append:
        case Query::multi_set:
        case Query::queue_push: return std::nullopt;
        case Query::multi_get: return Awaited{query, std::get<MultiGet>(request).keys.size()};
        case Query::compare_set:
        case Query::get:
        case Query::add:
        case Query::check:
        case Query::wait:
        case Query::num_keys:
        case Query::delete_key:
        case Query::cancel_wait:
        case Query::ping:
        case Query::queue_pop:
        case Query::queue_len:
        case Query::list_keys:
        case Query::barrier: return Awaited{query, 0};
    }
    return std::nullopt;
}

Result<std::optional<Reply>> ReplyDecoder::next(const Awaited& awaited) {
    if (awaited.query == Query::multi_get || awaited.query == Query::list_keys)
        return next_list(awaited);
    if (input_.unread().size() < needed_) return no_reply_yet;

    Cursor cursor(input_.unread());
    const auto read = [&]() -> Reply {
        switch (awaited.query) {
            case Query::compare_set:
            case Query::get: return Value{take_reply_string(cursor)};
            case Query::add:
            case Query::num_keys:
            case Query::delete_key:
            case Query::queue_len: return Number{cursor.i64()};
            case Query::check: return take_check_answer(cursor);
            case Query::wait:
            case Query::barrier: return take_wait_answer(cursor);
            case Query::cancel_wait: return take_cancel_answer(cursor);
            case Query::ping: return Pong{cursor.u32()};
            case Query::queue_pop: return take_popped(cursor);
            case Query::validate:
            case Query::set:
            case Query::append:
            case Query::multi_get:
            case Query::multi_set:
            case Query::queue_push:
            case Query::list_keys: break;
        }
        contradiction("a reply is awaited to a request without one", __FILE__, __LINE__);
    };
    auto reply = read();
    if (cursor.error()) return Failure{*cursor.error(), std::string{name(awaited.query)}};
    if (!cursor.is_complete()) {
        needed_ = cursor.needed();
        return no_reply_yet;
    }
    input_.consume(cursor.consumed());
    needed_ = 1;
    return std::optional<Reply>{std::move(reply)};
}

Result<std::optional<Reply>> ReplyDecoder::next_list(const Awaited& awaited) {
    const bool has_count = awaited.query == Query::list_keys;
    if (!list_ && has_count) {
        Cursor cursor(input_.unread());
        const auto count = cursor.u64();
        if (!cursor.is_complete()) return no_reply_yet;
        if (count > limits::max_reply_key_count)
            return Failure{Error::reply_too_long, std::string{name(awaited.query)}};
        input_.consume(cursor.consumed());
        list_ = List{count};
    }
    if (!list_) list_ = List{awaited.value_count};

    for (; list_->missing > 0; --list_->missing) {
        if (input_.unread().size() < needed_) return no_reply_yet;
        Cursor cursor(input_.unread());
        auto string = take_reply_string(cursor);
        if (cursor.error()) return Failure{*cursor.error(), std::string{name(awaited.query)}};
        if (!cursor.is_complete()) {
            needed_ = cursor.needed();
            return no_reply_yet;
        }
        input_.consume(cursor.consumed());
        needed_ = 1;
        list_->strings.push_back(std::move(string));
    }

    auto strings = std::move(list_->strings);
    list_.reset();
    if (has_count) return std::optional<Reply>{Keys{std::move(strings)}};
    return std::optional<Reply>{
        Values{{std::make_move_iterator(strings.begin()), std::make_move_iterator(strings.end())}}};
}

}  // namespace ddprun::wire
