// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/descriptor.hpp"
#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/wire/exchange.hpp"
#include "worker_sdk/src/transports/wire/peer_address.hpp"
#include "worker_sdk/src/transports/wire/transfer.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

struct addrinfo;

namespace ddprun::groups {

/// Ranks that are all connected with each other by TCP, numbered from 0. Errors have these numbers
/// in `ranks`, and the reason alone as their text.
///
/// A stream begins with a greeting: a rank connects to those before it, with its number and the
/// token that the other has published, and is answered with its own token. Then each exchange is,
/// in each direction that it uses, a header and its bytes. Calls follow each other, and the header
/// has the call: ranks that make different ones notice it at once.
///
/// `abort` and `is_aborted` on any thread. One `perform` at a time for each direction of a
/// connection.
class Mesh {
public:
    using Clock = std::chrono::steady_clock;

    struct Settings {
        int rank = 0;
        int ranks = 0;
        /// Of this machine, to listen on.
        std::string address;
        /// Whether a waiting thread has a core to itself: then it polls for some microseconds.
        bool has_core = false;
    };

    struct Limits {
        Clock::time_point until;
        /// Called now and then during a long wait.
        const std::function<void()>& during_wait;
    };

    /// Listens. An error when this process may not have a descriptor for each rank.
    static std::variant<std::unique_ptr<Mesh>, GroupError> open(const Settings& settings);

    explicit Mesh(const Settings& settings);
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;
    ~Mesh();

    const PeerAddress& own_address() const { return own_address_; }
    /// `addresses` has one for each rank. After an error connections that are there stay until
    /// `abort`, and there are no new ones.
    Outcome connect(const std::vector<PeerAddress>& addresses, const Limits& limits);
    /// Of a step with that tag of the program's call. A mismatch has the peer, and its call as
    /// text.
    Outcome perform(
        Exchange& exchange, const Collective& call, std::uint32_t tag, const Limits& limits);

    /// Breaks all connections and ends all waits. (A peer that has left has closed them.)
    void abort();
    bool is_aborted() const { return is_aborted_; }
    /// Whether a peer has closed its connection, once all are connected. That is no error by
    /// itself.
    bool is_any_closed() const;

private:
    struct Guest;

    int rank() const { return settings_.rank; }
    int ranks() const { return settings_.ranks; }
    int socket_of(int peer) const { return links_[static_cast<std::size_t>(peer)].get(); }

    Outcome listen();
    Outcome begin_connecting(int peer, const PeerAddress& address);
    Outcome bind_to(const addrinfo& address);
    Outcome connect_all(const std::vector<PeerAddress>& addresses, const Limits& limits);
    Outcome retry_all(const std::vector<PeerAddress>& addresses);
    Outcome accept_guests(const std::vector<PeerAddress>& addresses);
    Outcome keep_guests_few(const std::vector<PeerAddress>& addresses);
    void add(std::unique_ptr<Guest> guest);
    Outcome handle_all(const std::vector<PeerAddress>& addresses);
    Outcome handle(Guest& guest, const std::vector<PeerAddress>& addresses);
    Outcome handle_unknown(Guest& guest, const std::vector<PeerAddress>& addresses);
    Outcome not_reached(int peer, int number);
    bool read_from(Guest& guest, std::size_t bytes, Outcome& lost);
    void seat(Guest& guest);
    Outcome await_guests(Clock::time_point until);
    std::vector<int> not_connected() const;
    void drop_guests();
    void drop_ended_guests();
    GroupError aborted() const;
    bool is_closed(int peer) const;

    Settings settings_;
    PeerAddress own_address_;
    Descriptor wake_;
    Descriptor listener_;
    Transfer::Polling polling_;

    std::atomic<bool> is_aborted_ = false;
    /// Guards changes of what follows, which the connecting thread makes, against `abort`.
    mutable std::mutex mutex_;
    std::vector<Descriptor> links_;
    std::vector<std::unique_ptr<Guest>> guests_;
    /// To be connected to again, at that time.
    std::vector<int> unreached_;
    std::string why_unreached_;
    Clock::time_point next_retry_;
    bool has_callers_ = false;
    /// Whose connections were closed when this rank closed the others.
    std::vector<int> closed_before_abort_;
};

}  // namespace ddprun::groups
