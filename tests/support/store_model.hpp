// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/wire/message.hpp"

#include <algorithm>
#include <cerrno>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::test {

/// The c10d store of wire/FORMAT.md as short as it can be written: maps, lists, and loops over all
/// of them; no index, no shared bytes, no bound. A Store is compared with it, and it checks
/// histories of operations by concurrent clients.
class StoreModel {
public:
    /// A reply; none: the connection is closed.
    struct Answer {
        std::uint64_t to = 0;
        std::optional<wire::Reply> reply;
        bool operator==(const Answer&) const = default;
    };
    using Answers = std::vector<Answer>;

    Answers handle(std::uint64_t from, const wire::Request& request, Instant now) {
        Answers answers;
        Step step{*this, from, now, answers};
        const auto* pop = std::get_if<wire::QueuePop>(&request);
        step.release(
            [&](const Reservation& own) { return pop == nullptr || pop->key != own.name; });
        std::visit([&](const auto& it) { step.on(it); }, request);
        return answers;
    }
    Answers disconnect(std::uint64_t from, Instant now) {
        Answers answers;
        cancel(from);
        Step{*this, from, now, answers}.release([](const Reservation&) { return true; });
        return answers;
    }
    Answers pass_deadline(Instant now) {
        Answers answers;
        while (!reservations_.empty() && reservations_.front().until <= now) {
            const auto name = reservations_.front().name;
            reservations_.erase(reservations_.begin());
            Step{*this, {}, now, answers}.serve_queue(name);
        }
        return answers;
    }
    std::optional<Instant> next_deadline() const {
        if (reservations_.empty()) return std::nullopt;
        return reservations_.front().until;
    }

    std::size_t key_count() const { return keys_.size(); }
    std::size_t wait_count() const { return waits_.size(); }
    bool has_data() const { return !keys_.empty() || !queues_.empty(); }
    auto operator<=>(const StoreModel&) const = default;

private:
    using Names = std::vector<std::string>;

    struct Wait {
        std::uint64_t client;
        Names missing;
        bool is_barrier;
        /// No other name was missing at its beginning.
        bool is_sole;
        auto operator<=>(const Wait&) const = default;
    };
    /// An element of a queue that is kept for this client's next request.
    struct Reservation {
        std::uint64_t client;
        std::string name;
        Instant until;
        auto operator<=>(const Reservation&) const = default;
    };

    void cancel(std::uint64_t client) {
        std::erase_if(waits_, [&](const Wait& wait) { return wait.client == client; });
    }
    auto reservation_of(std::uint64_t client) {
        return std::find_if(reservations_.begin(), reservations_.end(), [&](const auto& it) {
            return it.client == client;
        });
    }
    /// How many elements a client without a reservation may take.
    std::size_t free_count(const std::string& name) const {
        const auto reserved =
            std::count_if(reservations_.begin(), reservations_.end(), [&](const auto& it) {
                return it.name == name;
            });
        const auto queue = queues_.find(name);
        if (queue == queues_.end()) return 0;
        return queue->second.size() - static_cast<std::size_t>(reserved);
    }
    bool exists(const std::string& name) const {
        return keys_.contains(name) || free_count(name) > 0;
    }
    std::string value_of(const std::string& key) const {
        const auto place = keys_.find(key);
        return place == keys_.end() ? std::string{} : place->second;
    }
    /// None if the value is no number.
    std::optional<std::int64_t> add(const std::string& key, std::int64_t delta) {
        std::uint64_t number = 0;
        if (const auto place = keys_.find(key); place != keys_.end()) {
            char* end = nullptr;
            errno = 0;
            number = static_cast<std::uint64_t>(std::strtoll(place->second.c_str(), &end, 10));
            if (end == place->second.c_str() || errno != 0) return std::nullopt;
        }
        const auto sum = static_cast<std::int64_t>(number + static_cast<std::uint64_t>(delta));
        keys_[key] = std::to_string(sum);
        return sum;
    }

    struct Step {
        StoreModel& store;
        std::uint64_t from;
        Instant now;
        Answers& answers;

        void reply(wire::Reply reply) { answers.push_back({from, std::move(reply)}); }
        void close() { answers.push_back({from, std::nullopt}); }

        void wake(const std::string& name, bool ends_barriers = true) {
            for (auto wait = store.waits_.begin(); wait != store.waits_.end();) {
                if (ends_barriers || !wait->is_barrier) std::erase(wait->missing, name);
                wait = end_if_complete(wait);
            }
        }
        std::vector<Wait>::iterator end_if_complete(std::vector<Wait>::iterator wait) {
            if (!wait->missing.empty()) return std::next(wait);
            answers.push_back({wait->client, wire::StopWaiting{}});
            return store.waits_.erase(wait);
        }
        /// Gives each free element to the wait that misses it longest.
        void serve_queue(const std::string& name) {
            while (store.free_count(name) > 0) {
                auto& waits = store.waits_;
                const auto wait = std::find_if(waits.begin(), waits.end(), [&](const Wait& it) {
                    return !it.is_barrier && std::ranges::count(it.missing, name) > 0;
                });
                if (wait == waits.end()) return;
                wait->missing.erase(std::ranges::find(wait->missing, name));
                if (wait->missing.empty() && wait->is_sole) reserve(name, wait->client);
                end_if_complete(wait);
            }
        }
        void reserve(const std::string& name, std::uint64_t client) {
            store.reservations_.push_back({client, name, now + limits::queue_reservation});
        }
        template <class Condition>
        void release(Condition holds) {
            const auto own = store.reservation_of(from);
            if (own == store.reservations_.end() || !holds(*own)) return;
            const auto name = own->name;
            store.reservations_.erase(own);
            serve_queue(name);
        }

        void on(const wire::Validate&) {}
        void on(const wire::Set& it) {
            store.keys_[it.key] = it.value;
            wake(it.key);
        }
        void on(const wire::CompareSet& it) {
            const bool is_present = store.keys_.contains(it.key);
            const auto value = store.value_of(it.key);
            if (value != it.expected) return reply(wire::Value{is_present ? value : it.expected});
            store.keys_[it.key] = it.desired;
            reply(wire::Value{it.desired});
            wake(it.key);
        }
        void on(const wire::Get& it) { reply(wire::Value{store.value_of(it.key)}); }
        void on(const wire::Add& it) {
            const auto sum = store.add(it.key, it.delta);
            if (!sum) return close();
            reply(wire::Number{*sum});
            wake(it.key);
        }
        void on(const wire::Check& it) {
            reply(wire::Checked{
                std::ranges::all_of(it.keys, [&](const auto& key) { return store.exists(key); })});
        }
        void on(const wire::Wait& it) {
            store.cancel(from);
            auto missing = it.keys;
            std::erase_if(missing, [&](const auto& key) { return store.exists(key); });
            const bool is_sole = missing.size() == 1;
            if (!missing.empty()) {
                store.waits_.push_back({from, std::move(missing), false, is_sole});
                return;
            }
            if (it.keys.size() == 1 && store.free_count(it.keys[0]) > 0) reserve(it.keys[0], from);
            reply(wire::StopWaiting{});
        }
        void on(const wire::NumKeys&) { reply(number(store.keys_.size())); }
        void on(const wire::DeleteKey& it) { reply(number(store.keys_.erase(it.key))); }
        void on(const wire::Append& it) {
            store.keys_[it.key] += it.value;
            wake(it.key);
        }
        void on(const wire::MultiGet& it) {
            wire::Values values;
            for (const auto& key : it.keys)
                values.values.emplace_back(store.value_of(key));
            reply(std::move(values));
        }
        void on(const wire::MultiSet& it) {
            for (const auto& [key, value] : it.pairs)
                store.keys_[key] = value;
            for (const auto& pair : it.pairs)
                wake(pair.key);
        }
        void on(const wire::CancelWait&) {
            store.cancel(from);
            reply(wire::WaitCanceled{});
        }
        void on(const wire::Ping& it) { reply(wire::Pong{it.nonce}); }
        void on(const wire::QueuePush& it) {
            store.queues_[it.key].push_back(it.value);
            serve_queue(it.key);
        }
        void on(const wire::QueuePop& it) {
            const auto length = available(it.key);
            if (const auto own = store.reservation_of(from); own != store.reservations_.end())
                store.reservations_.erase(own);
            if (length == 0) return reply(wire::Popped{});
            auto& queue = store.queues_[it.key];
            reply(wire::Popped{static_cast<std::int64_t>(length), queue.front()});
            queue.pop_front();
            if (queue.empty()) store.queues_.erase(it.key);
        }
        void on(const wire::QueueLen& it) { reply(number(available(it.key))); }
        void on(const wire::ListKeys&) {
            wire::Keys keys;
            for (const auto& [key, value] : store.keys_)
                keys.keys.push_back(key);
            reply(std::move(keys));
        }
        void on(const wire::Barrier& it) {
            store.cancel(from);
            const auto arrived = store.add(it.key, 1);
            if (!arrived) return close();
            const bool is_full = *arrived >= it.world_size;
            if (is_full) reply(wire::StopWaiting{});
            wake(it.key, is_full);
            if (!is_full) store.waits_.push_back({from, {it.key}, true, true});
        }

        std::size_t available(const std::string& name) const {
            const auto own = store.reservation_of(from);
            const bool has_own = own != store.reservations_.end() && own->name == name;
            return store.free_count(name) + (has_own ? 1 : 0);
        }
        static wire::Number number(std::size_t count) { return {static_cast<std::int64_t>(count)}; }
    };

    std::map<std::string, std::string> keys_;
    /// Has no empty queues.
    std::map<std::string, std::deque<std::string>> queues_;
    /// By age, as are the reservations.
    std::vector<Wait> waits_;
    std::vector<Reservation> reservations_;
};

}  // namespace ddprun::test
