// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/encoder.hpp"

#include "rendezvous/base/machine.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

namespace ddprun::wire {
namespace {

// `Out` is any type with append(std::string_view): a string, or Outgoing.

template <class Out, class Unsigned>
void put_little_endian(Out& out, Unsigned value) {
    std::array<char, sizeof(Unsigned)> bytes{};
    if constexpr (std::endian::native == std::endian::little) {
        std::memcpy(bytes.data(), &value, sizeof value);
    } else {
        for (auto& byte : bytes) {
            byte = static_cast<char>(value & 0xff);
            value = static_cast<Unsigned>(value >> 8);
        }
    }
    out.append(std::string_view{bytes.data(), bytes.size()});
}

template <class Out>
void put(Out& out, std::uint32_t value) {
    put_little_endian(out, value);
}
template <class Out>
void put(Out& out, std::uint64_t value) {
    put_little_endian(out, value);
}
template <class Out>
void put(Out& out, std::int64_t value) {
    put_little_endian(out, static_cast<std::uint64_t>(value));
}
void put(std::string& out, std::string_view bytes) {
    put_little_endian(out, static_cast<std::uint64_t>(bytes.size()));
    out.append(bytes);
}
void put_bytes(std::string& out, const SharedText& text) {
    out.append(text.view());
}
void put_bytes(Outgoing& out, const SharedText& text) {
    out.append_shared(text);
}
template <class Out>
void put(Out& out, const SharedText& text) {
    put_little_endian(out, static_cast<std::uint64_t>(text.size()));
    put_bytes(out, text);
}

/// A key and the fields after it.
template <class... Fields>
void put_key(std::string& out, const std::string& key, const Fields&... fields) {
    put(out, std::string_view{key});
    (put(out, fields), ...);
}

void put_counted(std::string& out, const std::vector<std::string>& strings) {
    put(out, static_cast<std::uint64_t>(strings.size()));
    for (const auto& string : strings)
        put(out, std::string_view{string});
}

template <class Out>
void encode_reply(const Reply& reply, Out& out) {
    const auto put_byte = [&](char byte) { out.append(std::string_view{&byte, 1}); };
    std::visit(
        Overloaded{
            [&](const Value& it) { put(out, it.value); },
            [&](const Values& it) {
                for (const auto& value : it.values)
                    put(out, value);
            },
            [&](const Number& it) { put(out, it.number); },
            [&](const Checked& it) { put_byte(it.is_ready ? 0 : 1); },
            [&](const StopWaiting&) { put_byte(0); },
            [&](const WaitCanceled&) { put_byte(1); },
            [&](const Pong& it) { put(out, it.nonce); },
            [&](const Popped& it) {
                put(out, it.length_before);
                if (it.value) put(out, *it.value);
            },
            [&](const Keys& it) {
                put(out, static_cast<std::uint64_t>(it.keys.size()));
                for (const auto& key : it.keys)
                    put(out, SharedText{key});
            },
            [&](const EncodedKeys& it) {
                put(out, it.count);
                put_bytes(out, it.bytes);
            },
        },
        reply);
}

}  // namespace

void encode(const Request& request, std::string& out) {
    out += static_cast<char>(query_of(request));
    std::visit(
        Overloaded{
            [&](const Validate& it) { put(out, it.magic); },
            [&](const Set& it) { put_key(out, it.key, it.value); },
            [&](const CompareSet& it) { put_key(out, it.key, it.expected, it.desired); },
            [&](const Get& it) { put_key(out, it.key); },
            [&](const Add& it) { put_key(out, it.key, it.delta); },
            [&](const Check& it) { put_counted(out, it.keys); },
            [&](const Wait& it) { put_counted(out, it.keys); },
            [&](const NumKeys&) {},
            [&](const DeleteKey& it) { put_key(out, it.key); },
            [&](const Append& it) { put_key(out, it.key, it.value); },
            [&](const MultiGet& it) { put_counted(out, it.keys); },
            [&](const MultiSet& it) {
                put(out, static_cast<std::uint64_t>(it.pairs.size()));
                for (const auto& [key, value] : it.pairs)
                    put_key(out, key, value);
            },
            [&](const CancelWait&) {},
            [&](const Ping& it) { put(out, it.nonce); },
            [&](const QueuePush& it) { put_key(out, it.key, it.value); },
            [&](const QueuePop& it) { put_key(out, it.key); },
            [&](const QueueLen& it) { put_key(out, it.key); },
            [&](const ListKeys&) {},
            [&](const Barrier& it) { put_key(out, it.key, it.world_size); },
        },
        request);
}

void encode(const Reply& reply, std::string& out) {
    encode_reply(reply, out);
}

void encode(const Reply& reply, Outgoing& out) {
    encode_reply(reply, out);
}

void encode_key(std::string_view key, std::string& out) {
    put(out, key);
}

}  // namespace ddprun::wire
