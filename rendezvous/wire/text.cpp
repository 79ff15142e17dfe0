// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/text.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

namespace ddprun::wire {
namespace {

constexpr std::size_t longest_list = 4;

std::string size_of(const std::string& bytes) {
    return std::to_string(bytes.size()) + " B";
}

std::string size_of(const SharedText& text) {
    return std::to_string(text.size()) + " B";
}

std::string list_of(const std::vector<std::string>& keys) {
    const auto quoted = [](const std::string& key) { return in_quotes(key); };
    return "[" + short_list(keys, {longest_list, ", ", ", and "}, quoted) + "]";
}

std::vector<std::string> keys_of(const std::vector<KeyValue>& pairs) {
    std::vector<std::string> keys;
    for (const auto& pair : pairs)
        keys.push_back(pair.key);
    return keys;
}

std::string details_of(const Request& request) {
    return std::visit(
        Overloaded{
            [](const Validate&) { return std::string{}; },
            [](const Set& it) { return in_quotes(it.key) + " " + size_of(it.value); },
            [](const CompareSet& it) {
                return in_quotes(it.key) + " " + size_of(it.expected) + " -> " +
                       size_of(it.desired);
            },
            [](const Get& it) { return in_quotes(it.key); },
            [](const Add& it) { return in_quotes(it.key) + " " + std::to_string(it.delta); },
            [](const Check& it) { return list_of(it.keys); },
            [](const Wait& it) { return list_of(it.keys); },
            [](const NumKeys&) { return std::string{}; },
            [](const DeleteKey& it) { return in_quotes(it.key); },
            [](const Append& it) { return in_quotes(it.key) + " " + size_of(it.value); },
            [](const MultiGet& it) { return list_of(it.keys); },
            [](const MultiSet& it) { return list_of(keys_of(it.pairs)); },
            [](const CancelWait&) { return std::string{}; },
            [](const Ping& it) { return std::to_string(it.nonce); },
            [](const QueuePush& it) { return in_quotes(it.key) + " " + size_of(it.value); },
            [](const QueuePop& it) { return in_quotes(it.key); },
            [](const QueueLen& it) { return in_quotes(it.key); },
            [](const ListKeys&) { return std::string{}; },
            [](const Barrier& it) {
                return in_quotes(it.key) + " of " + std::to_string(it.world_size);
            },
        },
        request);
}

}  // namespace

std::string in_quotes(std::string_view bytes, std::size_t longest) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "\"";
    for (const char c : bytes.substr(0, longest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            text += '\\';
            text += c;
        } else if (byte < 0x20 || byte > 0x7e) {
            text += "\\x";
            text += digits[byte >> 4];
            text += digits[byte & 0xf];
        } else {
            text += c;
        }
    }
    return text + (bytes.size() > longest ? "\"..." : "\"");
}

std::string describe(const Request& request) {
    auto text = std::string{name(query_of(request))};
    const auto details = details_of(request);
    if (!details.empty()) text += " " + details;
    return text;
}

std::string describe(const Reply& reply) {
    return std::visit(
        Overloaded{
            [](const Value& it) { return "value " + size_of(it.value); },
            [](const Values& it) { return std::to_string(it.values.size()) + " values"; },
            [](const Number& it) { return "number " + std::to_string(it.number); },
            [](const Checked& it) { return std::string{it.is_ready ? "ready" : "not ready"}; },
            [](const StopWaiting&) { return std::string{"stop waiting"}; },
            [](const WaitCanceled&) { return std::string{"wait canceled"}; },
            [](const Pong& it) { return "pong " + std::to_string(it.nonce); },
            [](const Popped& it) {
                return "popped " + (it.value ? size_of(*it.value) : "nothing") + " of " +
                       std::to_string(it.length_before);
            },
            [](const Keys& it) { return std::to_string(it.keys.size()) + " keys"; },
            [](const EncodedKeys& it) { return std::to_string(it.count) + " keys"; },
        },
        reply);
}

}  // namespace ddprun::wire
