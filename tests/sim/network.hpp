// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/link.hpp"
#include "tests/sim/world.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// Determines which places reach each other, and how fast. Places are names of hosts, or of the
/// server's own machine. A place reaches itself whatever is cut, unless it is switched off.
class Network {
public:
    struct Weather {
        /// Each message takes a random time.
        Duration shortest = std::chrono::milliseconds{1};
        Duration longest = std::chrono::milliseconds{1};
        /// The bandwidth of a connection in each direction; 0: unlimited.
        std::size_t bytes_per_second = 0;
        /// Bytes held back by a cut arrive up to this long after it, since TCP repeats them at
        /// growing intervals.
        Duration slowest_resend{};
    };

    Network(World& world, Weather weather) : world_(world), weather_(weather) {}

    World& world() { return world_; }
    std::shared_ptr<Link> connect(const std::string& client, const std::string& server);

    bool passes(const std::string& from, const std::string& to) const;
    /// Whether a connection can be made: bytes pass in both directions.
    bool connects(const std::string& one, const std::string& other) const;

    /// Cuts one direction only.
    void cut(const std::string& from, const std::string& to);
    void heal(const std::string& from, const std::string& to);
    /// Cuts the place off: no packet gets in or out.
    void isolate(const std::string& place);
    /// Ends its isolation and all cuts of the place.
    void readmit(const std::string& place);
    /// Stops the machine: it does not even reach itself.
    void switch_off(const std::string& place);
    void switch_on(const std::string& place);

    /// Since a disturbance, a connection may have waited longer than the network alone would cause.
    void disturb() { was_disturbed_ = true; }
    bool was_disturbed() const { return was_disturbed_; }

    // Called by links.
    Duration travel(const std::string& bytes);
    Duration resend_delay();

private:
    void release();

    World& world_;
    Weather weather_;
    std::set<std::pair<std::string, std::string>> cuts_;
    std::set<std::string> isolated_;
    std::set<std::string> off_;
    std::vector<std::weak_ptr<Link>> links_;
    bool was_disturbed_ = false;
};

}  // namespace ddprun::sim
