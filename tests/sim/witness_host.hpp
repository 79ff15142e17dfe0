// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"
#include "rendezvous/voters/witness.hpp"
#include "tests/sim/link.hpp"

#include <memory>
#include <optional>
#include <string>

namespace ddprun::sim {

class Cluster;

/// A machine with a `ddprun-rendezvous` that votes about the job's leader: the real Witness, with
/// the real lines on simulated links.
class WitnessHost {
public:
    static constexpr const char* place = "witness";
    /// At which voters ask it.
    static std::string address();

    explicit WitnessHost(Cluster& cluster) : cluster_(cluster) {}

    bool is_up() const { return witness_.has_value(); }
    /// Under which its process votes. Requires: it is up.
    const Nonce& nonce() const { return nonce_; }
    void start();
    /// Its process ends, and has forgotten what it promised.
    void kill() { witness_.reset(); }

    void accept(const std::shared_ptr<Link>& link);

private:
    std::string answer(const std::string& line);

    Cluster& cluster_;
    Nonce nonce_;
    std::optional<voters::Witness> witness_;
};

}  // namespace ddprun::sim
