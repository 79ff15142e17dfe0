// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/store.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/wire/text.hpp"

#include <limits>
#include <new>
#include <utility>

namespace ddprun::store {

/// One event on its way through the store: its sender, its time, and where the answers go.
struct Store::Step {
    Store& store;
    ConnectionId from;
    Instant now;
    std::vector<Effect>& out;

    /// Constructs the reply in place, since every request takes this path.
    template <class Content>
    void reply(Content content) {
        Reply& effect = std::get<Reply>(out.emplace_back(std::in_place_type<Reply>));
        effect.to = from;
        effect.reply.emplace<Content>(std::move(content));
    }

    void close(const std::string& reason) { out.push_back(CloseConnection{from, reason}); }

    /// Reserves room for the answers before a change, so that afterwards no client misses its
    /// answer for lack of memory. Each wait is answered once, and so is the sender.
    void make_room() {
        make_room(out);
        make_room(store.completed_);
    }
    template <class Place>
    void make_room(std::vector<Place>& places) const {
        const auto most = places.size() + store.waiters_.size() + 1;
        if (places.capacity() < most) places.reserve(2 * most);
    }

    /// The name was written: answers every client whose wait is over now.
    void wake(std::string_view name) {
        if (store.waiters_.size() == 0) return;
        store.completed_.clear();
        store.waiters_.appeared(name, store.completed_);
        stop_waiting();
    }

    void stop_waiting() {
        for (const auto client : store.completed_)
            out.push_back(Reply{client, wire::StopWaiting{}});
    }

    /// Hands free elements of the queue to the clients that wait for it, one each.
    void serve_queue(std::string_view name) {
        while (store.queues_.free_count(name) > 0) {
            const auto woken = store.waiters_.wake_one(name);
            if (!woken) return;
            if (!woken->is_complete) continue;
            if (woken->is_sole) keep_for(woken->client, name);
            out.push_back(Reply{woken->client, wire::StopWaiting{}});
        }
    }

    /// If there is no memory for the reservation, the element goes to the first client that
    /// requests it.
    void keep_for(ConnectionId client, std::string_view name) {
        try {
            store.queues_.reserve(name, client, now + limits::queue_reservation);
        } catch (const std::bad_alloc&) {
        }
    }

    void release_reservation() {
        if (const auto name = store.queues_.release(from)) serve_queue(*name);
    }

    /// Ends the client's reservation unless this request, the next one after its wait, pops that
    /// queue.
    void settle_reservation(const wire::Request& request) {
        const auto* reserved = store.queues_.reserved_by(from);
        if (reserved == nullptr) return;
        const auto* pop = std::get_if<wire::QueuePop>(&request);
        if (pop == nullptr || pop->key != *reserved) release_reservation();
    }

    /// Returns true if the store is too full for the request.
    bool refuses(const wire::Request& request) {
        // With this much room any request fits, so its growth is not computed. The largest growth
        // is a request's bytes with 160 more for each key, a list of all keys, or a value that
        // grows by a quarter while the old one still exists.
        constexpr auto most = 2 * limits::max_request_bytes;
        if (store.data_bytes() / 4 * 9 + most <= store.max_data_bytes_) return false;
        const auto growth = store.growth(request);
        if (growth == 0 || store.data_bytes() + growth <= store.max_data_bytes_) return false;
        close(
            std::string{wire::name(wire::query_of(request))} + " needs " + std::to_string(growth) +
            " bytes more than the " + std::to_string(store.data_bytes()) +
            " in the store; it holds at most " + std::to_string(store.max_data_bytes_));
        return true;
    }

    // One overload of `on` for each request.

    /// The connection's greeting, which the decoder has checked.
    void on(wire::Validate&&) {}

    void on(wire::Set&& it) { wake(store.keys_.put(std::move(it.key), std::move(it.value))); }

    void on(wire::CompareSet&& it) {
        auto compared = store.keys_.compare_set(it.key, it.expected, std::move(it.desired));
        reply(wire::Value{std::move(compared.answer)});
        if (compared.is_stored) wake(it.key);
    }

    /// A missing key is an empty value, as in PyTorch's libuv server; PyTorch's other server would
    /// close.
    void on(wire::Get&& it) {
        const auto* value = store.keys_.find(it.key);
        reply(wire::Value{value != nullptr ? value->borrowed() : wire::SharedText{}});
    }

    void on(wire::Add&& it) {
        const auto added = store.keys_.add(it.key, it.delta);
        if (!added)
            return close("ADD on key " + wire::in_quotes(it.key) + ": its value is no number");
        reply(wire::Number{added->sum});
        wake(it.key);
    }

    void on(wire::Check&& it) {
        for (const auto& key : it.keys)
            if (!store.exists(key, from)) return reply(wire::Checked{false});
        reply(wire::Checked{true});
    }

    void on(wire::Wait&& it) {
        store.waiters_.cancel(from);
        const bool is_sole = it.keys.size() == 1;
        std::vector<std::string> missing;
        for (auto& key : it.keys)
            if (!store.exists(key, from)) missing.push_back(std::move(key));
        if (!missing.empty())
            return store.waiters_.begin(from, std::move(missing), Waiters::Purpose::presence, now);
        if (is_sole && store.queues_.free_count(it.keys.front()) > 0)
            keep_for(from, it.keys.front());
        reply(wire::StopWaiting{});
    }

    void on(wire::NumKeys&&) { reply(wire::Number{static_cast<std::int64_t>(store.keys_.size())}); }

    void on(wire::DeleteKey&& it) { reply(wire::Number{store.keys_.erase(it.key) ? 1 : 0}); }

    void on(wire::Append&& it) {
        store.keys_.append(it.key, it.value);
        wake(it.key);
    }

    void on(wire::MultiGet&& it) {
        // A short request can name the key of one big value many times.
        std::size_t reply_bytes = 0;
        wire::Values values;
        values.values.reserve(it.keys.size());
        for (const auto& key : it.keys) {
            const auto* value = store.keys_.find(key);
            values.values.push_back(value != nullptr ? value->borrowed() : wire::SharedText{});
            reply_bytes += values.values.back().size();
        }
        if (reply_bytes > limits::max_request_bytes)
            return close(
                "MULTI_GET of " + std::to_string(it.keys.size()) + " keys: its reply would have " +
                std::to_string(reply_bytes) + " bytes");
        reply(std::move(values));
    }

    /// Stores all keys before it wakes clients: a client that is woken by the first key finds the
    /// last one stored. If memory runs out, only the first keys are stored, and the sender's
    /// connection is closed.
    void on(wire::MultiSet&& it) {
        const bool may_wake = store.waiters_.size() > 0;
        std::size_t stored = 0;
        try {
            for (; stored < it.pairs.size(); ++stored) {
                auto& [key, value] = it.pairs[stored];
                store.keys_.put(may_wake ? key : std::move(key), std::move(value));
            }
        } catch (const std::bad_alloc&) {
            close("no memory");
        }
        for (std::size_t i = 0; may_wake && i < stored; ++i)
            wake(it.pairs[i].key);
    }

    /// Always answered, even when the client was not waiting. A StopWaiting that is already on its
    /// way is sent before this answer.
    void on(wire::CancelWait&&) {
        store.waiters_.cancel(from);
        reply(wire::WaitCanceled{});
    }

    void on(wire::Ping&& it) { reply(wire::Pong{it.nonce}); }

    void on(wire::QueuePush&& it) {
        store.queues_.push(it.key, std::move(it.value));
        serve_queue(it.key);
    }

    void on(wire::QueuePop&& it) {
        auto popped = store.queues_.pop(it.key, from);
        reply(wire::Popped{popped.length_before, std::move(popped.value)});
    }

    void on(wire::QueueLen&& it) {
        reply(wire::Number{static_cast<std::int64_t>(store.queues_.length(it.key, from))});
    }

    void on(wire::ListKeys&&) { reply(store.keys_.names()); }

    /// The arrivals are counted in the key itself. When the key first appears, waits for its
    /// presence end; barriers end when the barrier is full, or when another request writes the key.
    void on(wire::Barrier&& it) {
        store.waiters_.cancel(from);
        const auto arrived = store.keys_.add(it.key, 1);
        if (!arrived)
            return close("BARRIER on key " + wire::in_quotes(it.key) + ": its value is no number");
        store.completed_.clear();
        if (arrived->sum >= it.world_size) {
            reply(wire::StopWaiting{});
            store.waiters_.appeared(it.key, store.completed_);
        } else {
            store.waiters_.begin(from, {it.key}, Waiters::Purpose::barrier, now);
            store.waiters_.appeared_to_waits(it.key, store.completed_);
        }
        stop_waiting();
    }
};

void Store::handle(Event&& event, Instant now, std::vector<Effect>& out) {
    std::visit(
        Overloaded{
            [&](Received& it) {
                Step step{*this, it.from, now, out};
                step.make_room();
                if (step.refuses(it.request)) return;
                step.settle_reservation(it.request);
                std::visit([&](auto& request) { step.on(std::move(request)); }, it.request);
            },
            [&](Disconnected& it) {
                waiters_.cancel(it.from);
                Step step{*this, it.from, now, out};
                step.make_room();
                step.release_reservation();
            },
            [&](DeadlinePassed&) {
                Step step{*this, {}, now, out};
                step.make_room();
                while (const auto name = queues_.expire(now))
                    step.serve_queue(*name);
            },
        },
        event);
}

std::size_t Store::growth(const wire::Request& request) const {
    constexpr std::size_t longest_number = 20;
    return std::visit(
        Overloaded{
            [&](const wire::Set& it) { return keys_.growth(it.key, it.value.size()); },
            [&](const wire::CompareSet& it) {
                return keys_.growth_by_compare_set(it.key, it.expected, it.desired.size());
            },
            [&](const wire::Append& it) { return keys_.growth_by_append(it.key, it.value.size()); },
            [&](const wire::MultiSet& it) {
                std::size_t sum = 0;
                for (const auto& [key, value] : it.pairs)
                    sum += keys_.growth(key, value.size());
                return sum;
            },
            [&](const wire::QueuePush& it) { return queues_.growth(it.key, it.value.size()); },
            [&](const wire::Add& it) {
                return keys_.has(it.key) ? 0 : keys_.growth(it.key, longest_number);
            },
            [&](const wire::Barrier& it) {
                return keys_.has(it.key) ? 0 : keys_.growth(it.key, longest_number);
            },
            [&](const wire::ListKeys&) { return keys_.growth_by_names(); },
            [](const auto&) { return std::size_t{0}; },
        },
        request);
}

bool Store::exists(std::string_view name, ConnectionId to) const {
    return keys_.has(name) || queues_.length(name, to) > 0;
}

}  // namespace ddprun::store
