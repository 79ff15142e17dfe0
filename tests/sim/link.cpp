// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/link.hpp"

#include <utility>

namespace ddprun::sim {
namespace {

Link::Side other(Link::Side side) {
    return side == Link::client ? Link::server : Link::client;
}

}  // namespace

void Link::send(Side from, std::string bytes) {
    if (is_closed_[from]) return;
    carry({other(from), std::move(bytes), false});
}

void Link::close(Side from) {
    if (is_closed_[from]) return;
    is_closed_[from] = true;
    carry({other(from), {}, true});
}

void Link::carry(Delivery delivery) {
    world_.after(latency_, [self = shared_from_this(), delivery]() mutable {
        if (self->is_cut_ || !self->held_.empty())
            self->held_.push_back(std::move(delivery));
        else
            self->deliver(delivery);
    });
}

void Link::heal() {
    is_cut_ = false;
    while (!held_.empty()) {
        auto next = std::move(held_.front());
        held_.pop_front();
        deliver(next);
    }
}

void Link::deliver(Delivery& delivery) {
    if (is_closed_[delivery.to]) return;
    // An end may replace or drop its callbacks while it is called.
    const auto end = ends_[delivery.to];
    if (delivery.is_end) {
        is_closed_[delivery.to] = true;
        if (end.on_end) end.on_end();
    } else if (end.on_bytes) {
        end.on_bytes(std::move(delivery.bytes));
    }
}

}  // namespace ddprun::sim
