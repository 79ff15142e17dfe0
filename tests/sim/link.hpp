// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/world.hpp"

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::sim {

/// A made-up connection: bytes go both ways, arrive in order after `latency`, and stop arriving
/// while it is cut (TCP keeps what was sent: it all arrives when the cut heals).
class Link : public std::enable_shared_from_this<Link> {
public:
    struct End {
        std::function<void(std::string)> on_bytes;
        /// The other side closed; the last of all.
        std::function<void()> on_end;
    };
    enum Side : std::size_t { client = 0, server = 1 };

    Link(World& world, Duration latency) : world_(world), latency_(latency) {}

    void attach(Side side, End end) { ends_[side] = std::move(end); }
    void send(Side from, std::string bytes);
    /// What was sent before still arrives; this side hears nothing any more.
    void close(Side from);
    void cut() { is_cut_ = true; }
    void heal();

private:
    struct Delivery {
        Side to;
        std::string bytes;
        bool is_end = false;
    };
    void carry(Delivery delivery);
    void deliver(Delivery& delivery);

    World& world_;
    Duration latency_;
    std::array<End, 2> ends_;
    std::array<bool, 2> is_closed_{};
    bool is_cut_ = false;
    std::deque<Delivery> held_;
};

}  // namespace ddprun::sim
