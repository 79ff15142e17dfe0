// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/world.hpp"

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::sim {

class Network;

/// A simulated connection of a network: bytes go both ways and arrive in order. Bytes that cannot
/// pass at the moment are kept, as by TCP, and arrive when they can. If only the direction back is
/// cut, soon nothing new arrives either: without acknowledgements TCP repeats the same bytes.
class Link : public std::enable_shared_from_this<Link> {
public:
    struct End {
        std::function<void(std::string)> on_bytes;
        /// The other side closed, or the connection was reset; the last callback.
        std::function<void()> on_end;
    };
    enum Side : std::size_t { client = 0, server = 1 };

    Link(Network& network, std::string client_place, std::string server_place)
        : network_(network),
          places_{std::move(client_place), std::move(server_place)} {}

    void attach(Side side, End end) { ends_[side] = std::move(end); }
    void send(Side from, std::string bytes);
    /// Bytes that were sent before still arrive; this side gets nothing any more.
    void close(Side from);
    /// Nothing more arrives; this side gets the end.
    void reset(Side side);

    const std::string& place(Side side) const { return places_[side]; }
    bool is_closed(Side side) const { return is_closed_[side]; }
    /// The network lets bytes pass again.
    void release();

private:
    struct Delivery {
        std::string bytes;
        bool is_end = false;
    };
    void carry(Side to, Delivery delivery);
    void arrive(Side to, Delivery delivery);
    void flush(Side to);
    void deliver(Side to, Delivery& delivery);
    bool can_pass(Side to);

    Network& network_;
    std::array<std::string, 2> places_;
    std::array<End, 2> ends_;
    std::array<bool, 2> is_closed_{};
    /// When the last bytes for each side arrive: nothing overtakes them.
    std::array<Instant, 2> arrived_by_{};
    std::array<std::deque<Delivery>, 2> held_;
    /// Since when each side has received bytes that it cannot acknowledge.
    std::array<std::optional<Instant>, 2> unacknowledged_since_;
};

}  // namespace ddprun::sim
