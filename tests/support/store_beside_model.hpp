// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_text.hpp"
#include "rendezvous/wire/encoder.hpp"
#include "rendezvous/wire/reply_decoder.hpp"
#include "rendezvous/wire/text.hpp"
#include "tests/support/store_model.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::test {

/// A Store and its model, which get the same events until their effects differ.
class StoreBesideModel {
public:
    static constexpr std::size_t clients = 4;

    /// Plays operations of three bytes each: client (or time, or disconnecting), operation, and
    /// names. Returns the first difference with all events up to it; none if there is none.
    static std::string first_difference(std::span<const std::uint8_t> bytes) {
        StoreBesideModel both;
        for (; bytes.size() >= 3 && both.difference_.empty(); bytes = bytes.subspan(3))
            both.play(bytes[0], bytes[1], bytes[2]);
        return both.first_difference();
    }
    /// The same with these requests, sent by the clients in turns.
    static std::string first_difference(const std::vector<wire::Request>& requests) {
        StoreBesideModel both;
        for (std::size_t i = 0; i < requests.size() && both.difference_.empty(); ++i)
            both.request(i % clients, requests[i]);
        return both.first_difference();
    }

private:
    using Store = store::Store;

    std::string first_difference() const {
        return difference_.empty() ? "" : transcript_ + difference_;
    }

    void play(std::uint8_t sender, std::uint8_t what, std::uint8_t names) {
        const std::uint64_t client = sender % clients;
        if (sender >= 250) {
            now_ += limits::queue_reservation / 2;
            compare(Store::DeadlinePassed{}, model_.pass_deadline(now_));
        } else if (sender >= 245) {
            leave(client);
        } else {
            request(client, make_request(what, names));
        }
    }

    static wire::Request make_request(std::uint8_t what, std::uint8_t names) {
        using namespace wire;
        const std::string key(1, static_cast<char>('a' + names % 4));
        const std::string other(1, static_cast<char>('0' + names / 4 % 4));
        switch (what % 20) {
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
            case 15: return Barrier{key, 2};
            case 16: return MultiGet{{key, other, key}};
            case 17: return QueueLen{key};
            case 18: return ListKeys{};
            default: return Wait{{key, other, key}};
        }
    }

    void request(std::uint64_t client, const wire::Request& request) {
        auto expected = model_.handle(client, request, now_);
        const bool is_closed = !expected.empty() && !expected.back().reply;
        compare(Store::Received{{client}, request}, std::move(expected));
        // The server closes the connection and reports it: the store's contract.
        if (is_closed) leave(client);
    }

    void leave(std::uint64_t client) {
        compare(Store::Disconnected{{client}}, model_.disconnect(client, now_));
    }

    void compare(Store::Event event, StoreModel::Answers expected) {
        transcript_ += describe(event) + "\n";
        std::vector<Store::Effect> effects;
        store_.handle(std::move(event), now_, effects);
        StoreModel::Answers answers;
        for (const auto& effect : effects)
            answers.push_back(answer_in(effect));
        check(answers == expected, "answers " + text(answers) + "and not " + text(expected));
        check(store_.key_count() == model_.key_count(), "another number of keys");
        check(store_.wait_count() == model_.wait_count(), "another number of waits");
        check(store_.next_deadline() == model_.next_deadline(), "another deadline");
        check(store_.wait_count() > 0 || store_.wait_bytes() == 0, "something is left of a wait");
        check(model_.has_data() || store_.data_bytes() == 0, "something is left of what is gone");
    }

    static StoreModel::Answer answer_in(const Store::Effect& effect) {
        const auto* reply = std::get_if<Store::Reply>(&effect);
        if (reply == nullptr)
            return {std::get<Store::CloseConnection>(effect).connection.value, std::nullopt};
        if (!std::holds_alternative<wire::EncodedKeys>(reply->reply))
            return {reply->to.value, reply->reply};
        return {reply->to.value, sorted(reply->reply)};
    }

    /// The list of the keys as a client reads it, which is in no order.
    static wire::Reply sorted(const wire::Reply& encoded) {
        std::string bytes;
        wire::encode(encoded, bytes);
        wire::ReplyDecoder decoder;
        decoder.append(bytes);
        auto keys = std::get<wire::Keys>(**decoder.next({wire::Query::list_keys, 0}));
        std::ranges::sort(keys.keys);
        return keys;
    }

    static std::string text(const StoreModel::Answers& answers) {
        std::string text;
        for (const auto& [to, reply] : answers)
            text += (reply ? wire::describe(*reply) : "close") + " -> #" + std::to_string(to) + " ";
        return text;
    }

    void check(bool holds, const std::string& what) {
        if (!holds && difference_.empty()) difference_ = "the store differs: " + what + "\n";
    }

    Store store_;
    StoreModel model_;
    Instant now_{};
    std::string transcript_;
    std::string difference_;
};

}  // namespace ddprun::test
