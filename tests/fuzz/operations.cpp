// SPDX-License-Identifier: Apache-2.0
// A sequence of store operations by several clients, beside a map that knows keys and values only.
// Each operation is three bytes: client, operation, and key. Besides, no client is answered that is
// not waiting for an answer, and none twice.
#include "rendezvous/store/store.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::wire;
using store::Store;

namespace {

constexpr std::uint64_t clients = 4;

void must(bool holds) {
    if (!holds) std::abort();
}

Request make_request(std::uint8_t what, const std::string& key, const std::string& other) {
    switch (what % 16) {
        case 0: return Set{key, other};
        case 1: return CompareSet{key, "", other};
        case 2: return CompareSet{key, other, key};
        case 3: return Get{key};
        case 4: return Add{key, what};
        case 5: return Check{{key, other}};
        case 6: return Wait{{key, other}};
        case 7: return Wait{{key}};
        case 8: return NumKeys{};
        case 9: return DeleteKey{key};
        case 10: return Append{key, "1"};
        case 11: return MultiSet{{{key, "1"}, {other, "2"}}};
        case 12: return CancelWait{};
        case 13: return QueuePush{key, other};
        case 14: return QueuePop{key};
        default: return Barrier{key, 2};
    }
}

/// The reference model: keys and values, after FORMAT.md.
class Reference {
public:
    void apply(const Request& request, bool is_refused) {
        if (is_refused) return;
        if (const auto* it = std::get_if<Set>(&request)) keys_[it->key] = it->value;
        if (const auto* it = std::get_if<CompareSet>(&request)) {
            const auto place = keys_.find(it->key);
            if ((place == keys_.end() ? std::string{} : place->second) == it->expected)
                keys_[it->key] = it->desired;
        }
        if (const auto* it = std::get_if<Add>(&request)) add(it->key, it->delta);
        if (const auto* it = std::get_if<Barrier>(&request)) add(it->key, 1);
        if (const auto* it = std::get_if<DeleteKey>(&request)) keys_.erase(it->key);
        if (const auto* it = std::get_if<Append>(&request)) keys_[it->key] += it->value;
        if (const auto* it = std::get_if<MultiSet>(&request))
            for (const auto& [key, value] : it->pairs)
                keys_[key] = value;
    }

    std::size_t size() const { return keys_.size(); }
    std::string value_of(const std::string& key) const {
        const auto place = keys_.find(key);
        return place == keys_.end() ? std::string{} : place->second;
    }

private:
    void add(const std::string& key, std::int64_t delta) {
        auto& value = keys_[key];
        const auto before = value.empty() ? 0 : std::strtoll(value.c_str(), nullptr, 10);
        value = std::to_string(static_cast<std::int64_t>(
            static_cast<std::uint64_t>(before) + static_cast<std::uint64_t>(delta)));
    }

    std::map<std::string, std::string> keys_;
};

/// Which clients wait for an answer to a WAIT or BARRIER.
bool may_be_silent(const Request& request) {
    return std::holds_alternative<Wait>(request) || std::holds_alternative<Barrier>(request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Store store;
    Reference reference;
    std::map<std::uint64_t, bool> is_waiting;
    Instant now{};
    for (std::size_t i = 0; i + 2 < size; i += 3) {
        const std::uint64_t client = data[i] % clients;
        const std::string key(1, static_cast<char>('a' + data[i + 2] % 4));
        const std::string other(1, static_cast<char>('0' + data[i + 2] / 4 % 4));
        std::vector<Store::Effect> effects;
        if (data[i] >= 250) {
            now += std::chrono::seconds{2};
            store.handle(Store::DeadlinePassed{}, now, effects);
        } else if (data[i] >= 245) {
            store.handle(Store::Disconnected{{client}}, now, effects);
            is_waiting[client] = false;
        } else {
            const auto request = make_request(data[i + 1], key, other);
            if (may_be_silent(request) || std::holds_alternative<CancelWait>(request))
                is_waiting[client] = may_be_silent(request);
            store.handle(Store::Received{{client}, request}, now, effects);
            const bool is_refused =
                !effects.empty() && std::holds_alternative<Store::CloseConnection>(effects.back());
            // The server closes the connection and says so: the store's contract.
            if (is_refused) {
                store.handle(Store::Disconnected{{client}}, now, effects);
                is_waiting[client] = false;
            }
            reference.apply(request, is_refused);
        }
        for (const auto& effect : effects) {
            const auto* reply = std::get_if<Store::Reply>(&effect);
            if (reply == nullptr || !std::holds_alternative<StopWaiting>(reply->reply)) continue;
            must(is_waiting[reply->to.value]);
            is_waiting[reply->to.value] = false;
        }
        must(store.key_count() == reference.size());
        effects.clear();
        store.handle(Store::Received{{clients}, Get{key}}, now, effects);
        const auto& answer = std::get<Store::Reply>(effects.at(0)).reply;
        must(std::get<Value>(answer).value == reference.value_of(key));
    }
    return 0;
}
