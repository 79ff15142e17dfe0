// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/server/handshakes.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace ddprun::server {

/// Why a connection is closed to make place for others.
inline constexpr const char* too_many_unproved = "too many callers that have not proved the secret";

class UnprovedPlace;

/// Bounds the connections whose protocol is not known yet, and those that request a page. When
/// there are too many, the one that `Handshakes` selects is closed, so that callers of one address
/// keep no others out. Connections that have begun to prove a secret are counted apart.
class UnprovedCallers {
public:
    explicit UnprovedCallers(std::size_t most = limits::max_unproved_callers) : counted_(most) {}

    std::size_t size() const { return counted_.size(); }

private:
    friend class UnprovedPlace;
    ConnectionId add(UnprovedPlace& place, const Handshakes::Caller& caller, Instant now);
    void remove(ConnectionId id);

    Handshakes counted_;
    std::map<ConnectionId, UnprovedPlace*> places_;
    std::uint64_t last_id_ = 0;
};

/// The place of one connection among them, while this object exists or until it is taken away.
class UnprovedPlace {
public:
    UnprovedPlace(
        std::shared_ptr<UnprovedCallers> callers, const Handshakes::Caller& caller, Instant now);
    ~UnprovedPlace();
    UnprovedPlace(const UnprovedPlace&) = delete;
    UnprovedPlace& operator=(const UnprovedPlace&) = delete;

    /// Called when the place is taken away; empty: the connection is just passed on, and `is_taken`
    /// is checked later.
    void close_with(std::function<void()> close) { close_ = std::move(close); }
    bool is_taken() const { return is_taken_; }

private:
    friend class UnprovedCallers;
    void take_away();

    std::shared_ptr<UnprovedCallers> callers_;
    std::function<void()> close_;
    bool is_taken_ = false;
    ConnectionId id_;
};

/// The most memory of a server with a secret that callers without the secret can occupy, however
/// many there are.
inline constexpr std::size_t most_unproved_bytes =
    limits::max_unproved_callers * limits::unproved_caller_bytes +
    limits::max_tls_handshakes * limits::tls_handshake_bytes;

}  // namespace ddprun::server
