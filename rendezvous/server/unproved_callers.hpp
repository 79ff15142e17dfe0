// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::server {

/// Counts the connections whose protocol is not known yet, and those that request a page.
/// `Handshakes` counts the ones that have begun to prove a secret. `objection_to` changes nothing;
/// `add` and `remove` record.
class UnprovedCallers {
public:
    explicit UnprovedCallers(
        std::size_t most = limits::max_unproved_callers,
        std::size_t most_of_network = limits::max_unproved_callers_per_network)
        : most_(most),
          most_of_network_(most_of_network) {}

    /// Why a further caller of this network is closed; empty: it is kept.
    std::string objection_to(const std::string& network) const;
    void add(const std::string& network);
    /// Requires: it was added.
    void remove(const std::string& network);
    std::size_t size() const { return size_; }

private:
    std::size_t most_;
    std::size_t most_of_network_;
    std::size_t size_ = 0;
    std::map<std::string, std::size_t> of_network_;
};

/// Counts one connection in `UnprovedCallers` while this object exists.
class UnprovedPlace {
public:
    UnprovedPlace(std::shared_ptr<UnprovedCallers> callers, std::string network)
        : callers_(std::move(callers)),
          network_(std::move(network)) {
        callers_->add(network_);
    }
    ~UnprovedPlace() { callers_->remove(network_); }
    UnprovedPlace(const UnprovedPlace&) = delete;
    UnprovedPlace& operator=(const UnprovedPlace&) = delete;

private:
    std::shared_ptr<UnprovedCallers> callers_;
    std::string network_;
};

/// The most memory of a server with a secret that callers without the secret can occupy, however
/// many there are.
inline constexpr std::size_t most_unproved_bytes =
    limits::max_unproved_callers * limits::unproved_caller_bytes +
    limits::max_tls_handshakes * limits::tls_handshake_bytes;

}  // namespace ddprun::server
