// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/wire/message.hpp"
#include "tests/support/store_model.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::test {

/// One request of a client, and its reply. It took effect at one moment between `began` and
/// `ended`; where the request has no reply, `ended` is that of the client's next operation that has
/// one.
struct Operation {
    wire::Request request;
    /// Set if the request has a reply; the names of LIST_KEYS are sorted.
    std::optional<wire::Reply> reply;
    Instant began;
    Instant ended;
};

/// The operations of each client, in the order in which it sent them.
using History = std::vector<std::vector<Operation>>;

/// Searches for an order of the operations in which a store that handles one at a time gives these
/// replies. The order must keep each client's own order, and no operation may precede one that had
/// ended before it began (Wing and Gong's search; a state is not visited twice).
///
/// Requires: no WAIT and no BARRIER, whose replies depend on what comes later.
class Linearization {
public:
    /// How many operations an order explains, at most: all of them if the history is linearizable.
    static std::size_t longest(const History& history) {
        Linearization search(history);
        return search.run();
    }

private:
    struct State {
        /// By client: how many of its operations have taken effect.
        std::vector<std::size_t> done;
        StoreModel store;
        auto operator<=>(const State&) const = default;
    };

    explicit Linearization(const History& history) : history_(history) {
        visit({std::vector<std::size_t>(history.size()), {}});
    }

    std::size_t run() {
        std::size_t longest = 0;
        while (!to_visit_.empty()) {
            const State state = *to_visit_.back();
            to_visit_.pop_back();
            std::size_t count = 0;
            for (const auto done : state.done)
                count += done;
            longest = std::max(longest, count);
            if (count == total()) return longest;
            for (const auto client : possible_next(state))
                if (auto next = after(state, client)) visit(*std::move(next));
        }
        return longest;
    }

    std::size_t total() const {
        std::size_t count = 0;
        for (const auto& operations : history_)
            count += operations.size();
        return count;
    }

    /// The clients whose next operation began before the end of every unfinished operation.
    std::vector<std::size_t> possible_next(const State& state) const {
        auto first_end = Instant::max();
        for (std::size_t client = 0; client < history_.size(); ++client)
            if (const auto* next = next_of(state, client))
                first_end = std::min(first_end, next->ended);
        std::vector<std::size_t> clients;
        for (std::size_t client = 0; client < history_.size(); ++client)
            if (const auto* next = next_of(state, client); next && next->began <= first_end)
                clients.push_back(client);
        return clients;
    }

    const Operation* next_of(const State& state, std::size_t client) const {
        const auto& operations = history_[client];
        const auto done = state.done[client];
        return done < operations.size() ? &operations[done] : nullptr;
    }

    /// None if the store would have given another reply.
    std::optional<State> after(const State& state, std::size_t client) const {
        const auto& operation = *next_of(state, client);
        State next = state;
        ++next.done[client];
        StoreModel::Answers expected;
        if (operation.reply) expected.push_back({client, operation.reply});
        if (next.store.handle(client, operation.request, {}) != expected) return std::nullopt;
        return next;
    }

    void visit(State state) {
        const auto [place, is_new] = seen_.insert(std::move(state));
        if (is_new) to_visit_.push_back(&*place);
    }

    const History& history_;
    std::set<State> seen_;
    std::vector<const State*> to_visit_;
};

}  // namespace ddprun::test
