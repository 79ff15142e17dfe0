// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/query.hpp"
#include "rendezvous/wire/shared_text.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// The c10d store protocol as values: one struct per request, one per kind of reply. Keys and
/// values are bytes, any byte allowed. FORMAT.md defines their meaning.
namespace ddprun::wire {

struct Validate {
    std::uint32_t magic = validate_magic;
    bool operator==(const Validate&) const = default;
};
struct Set {
    std::string key;
    std::string value;
    bool operator==(const Set&) const = default;
};
struct CompareSet {
    std::string key;
    std::string expected;
    std::string desired;
    bool operator==(const CompareSet&) const = default;
};
struct Get {
    std::string key;
    bool operator==(const Get&) const = default;
};
struct Add {
    std::string key;
    std::int64_t delta = 0;
    bool operator==(const Add&) const = default;
};
struct Check {
    std::vector<std::string> keys;
    bool operator==(const Check&) const = default;
};
struct Wait {
    std::vector<std::string> keys;
    bool operator==(const Wait&) const = default;
};
struct NumKeys {
    bool operator==(const NumKeys&) const = default;
};
struct DeleteKey {
    std::string key;
    bool operator==(const DeleteKey&) const = default;
};
struct Append {
    std::string key;
    std::string value;
    bool operator==(const Append&) const = default;
};
struct MultiGet {
    std::vector<std::string> keys;
    bool operator==(const MultiGet&) const = default;
};
struct KeyValue {
    std::string key;
    std::string value;
    bool operator==(const KeyValue&) const = default;
};
struct MultiSet {
    std::vector<KeyValue> pairs;
    bool operator==(const MultiSet&) const = default;
};
struct CancelWait {
    bool operator==(const CancelWait&) const = default;
};
struct Ping {
    std::uint32_t nonce = 0;
    bool operator==(const Ping&) const = default;
};
struct QueuePush {
    std::string key;
    std::string value;
    bool operator==(const QueuePush&) const = default;
};
struct QueuePop {
    std::string key;
    bool operator==(const QueuePop&) const = default;
};
struct QueueLen {
    std::string key;
    bool operator==(const QueueLen&) const = default;
};
struct ListKeys {
    bool operator==(const ListKeys&) const = default;
};
struct Barrier {
    std::string key;
    std::int64_t world_size = 0;
    bool operator==(const Barrier&) const = default;
};

/// In the order of the opcodes: the index of the alternative is the opcode.
using Request = std::variant<
    Validate,
    Set,
    CompareSet,
    Get,
    Add,
    Check,
    Wait,
    NumKeys,
    DeleteKey,
    Append,
    MultiGet,
    MultiSet,
    CancelWait,
    Ping,
    QueuePush,
    QueuePop,
    QueueLen,
    ListKeys,
    Barrier>;

static_assert(std::variant_size_v<Request> == query_count);

template <Query query>
using RequestOf = std::variant_alternative_t<static_cast<std::size_t>(query), Request>;

static_assert(std::is_same_v<RequestOf<Query::check>, Check>);
static_assert(std::is_same_v<RequestOf<Query::ping>, Ping>);
static_assert(std::is_same_v<RequestOf<Query::barrier>, Barrier>);

inline Query query_of(const Request& request) {
    return static_cast<Query>(request.index());
}

/// The reply to GET and COMPARE_SET.
struct Value {
    SharedText value;
    bool operator==(const Value&) const = default;
};
/// The reply to MULTI_GET, in the order of the keys; their number is not on the wire.
struct Values {
    std::vector<SharedText> values;
    bool operator==(const Values&) const = default;
};
/// The reply to ADD, GETNUMKEYS, DELETE_KEY and QUEUE_LEN.
struct Number {
    std::int64_t number = 0;
    bool operator==(const Number&) const = default;
};
/// The reply to CHECK: 0 is ready, 1 is not.
struct Checked {
    bool is_ready = false;
    bool operator==(const Checked&) const = default;
};
/// The reply to WAIT and BARRIER.
struct StopWaiting {
    bool operator==(const StopWaiting&) const = default;
};
/// The reply to CANCEL_WAIT.
struct WaitCanceled {
    bool operator==(const WaitCanceled&) const = default;
};
/// The reply to PING.
struct Pong {
    std::uint32_t nonce = 0;
    bool operator==(const Pong&) const = default;
};
/// The reply to QUEUE_POP: the length of the queue before, and its first element.
struct Popped {
    std::int64_t length_before = 0;
    std::optional<SharedText> value;
    bool operator==(const Popped&) const = default;
};
/// The reply to LIST_KEYS.
struct Keys {
    std::vector<std::string> keys;
    bool operator==(const Keys&) const = default;
};
/// The server's form of this reply: the encoded keys, shared by the replies to several clients.
struct EncodedKeys {
    std::uint64_t count = 0;
    SharedText bytes;
    bool operator==(const EncodedKeys&) const = default;
};

using Reply = std::variant<
    Value,
    Values,
    Number,
    Checked,
    StopWaiting,
    WaitCanceled,
    Pong,
    Popped,
    Keys,
    EncodedKeys>;

}  // namespace ddprun::wire
