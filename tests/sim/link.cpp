// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/link.hpp"

#include "tests/sim/network.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

/// After this time TCP considers the first unacknowledged bytes lost.
constexpr Duration resend_timeout = 200ms;

Link::Side other(Link::Side side) {
    return side == Link::client ? Link::server : Link::client;
}

}  // namespace

void Link::send(Side from, std::string bytes) {
    if (!is_closed_[from]) carry(other(from), {std::move(bytes), false});
}

void Link::close(Side from) {
    if (is_closed_[from]) return;
    is_closed_[from] = true;
    carry(other(from), {{}, true});
}

void Link::reset(Side side) {
    if (is_closed_[side]) return;
    is_closed_[side] = true;
    held_[side].clear();
    const auto end = ends_[side];
    if (end.on_end) end.on_end();
}

bool Link::can_pass(Side to) {
    const auto& from = places_[other(to)];
    if (!network_.passes(from, places_[to])) return false;
    auto& since = unacknowledged_since_[to];
    if (network_.passes(places_[to], from)) {
        since.reset();
        return true;
    }
    const auto now = network_.world().now();
    if (!since) since = now;
    return now - *since <= resend_timeout;
}

void Link::carry(Side to, Delivery delivery) {
    auto& world = network_.world();
    arrived_by_[to] = std::max(arrived_by_[to], world.now() + network_.travel(delivery.bytes));
    world.at(arrived_by_[to], [self = shared_from_this(), to, delivery]() mutable {
        self->arrive(to, std::move(delivery));
    });
}

void Link::arrive(Side to, Delivery delivery) {
    if (held_[to].empty() && can_pass(to)) return deliver(to, delivery);
    held_[to].push_back(std::move(delivery));
}

void Link::release() {
    for (const auto to : {client, server}) {
        if (held_[to].empty() || !can_pass(to)) continue;
        network_.world().after(
            network_.resend_delay(), [self = shared_from_this(), to] { self->flush(to); });
    }
}

void Link::flush(Side to) {
    while (!held_[to].empty() && can_pass(to)) {
        auto next = std::move(held_[to].front());
        held_[to].pop_front();
        deliver(to, next);
    }
}

void Link::deliver(Side to, Delivery& delivery) {
    if (is_closed_[to]) return;
    // An end may replace or drop its callbacks while it is called.
    const auto end = ends_[to];
    if (delivery.is_end) {
        is_closed_[to] = true;
        if (end.on_end) end.on_end();
    } else if (end.on_bytes) {
        end.on_bytes(std::move(delivery.bytes));
    }
}

}  // namespace ddprun::sim
