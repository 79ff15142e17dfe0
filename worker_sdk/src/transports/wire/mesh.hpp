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

/// Ranks that are all connected with each other by TCP, numbered from 0. In errors, `ranks` has
/// these numbers and the text has only the reason.
///
/// A stream begins with a greeting. A rank connects to all lower ranks and sends its number and the
/// token that the peer has published; the peer answers with the rank's own token. Each exchange
/// then consists, in each direction that it uses, of a header and its bytes. The header describes
/// the call, so ranks that make different calls notice at once.
///
/// `abort` and `is_aborted` may be called on any thread. One `perform` at a time for each direction
/// of a connection.
class Mesh {
public:
    using Clock = std::chrono::steady_clock;

    struct Settings {
        int rank = 0;
        int ranks = 0;
        /// The address of this machine to listen on.
        std::string address;
        /// Whether a waiting thread has a core to itself: then it polls for a few microseconds.
        bool has_core = false;
    };

    struct Limits {
        Clock::time_point until;
        /// Called now and then during a long wait.
        const std::function<void()>& during_wait;
    };

    /// Starts to listen. An error when this process may not have a descriptor for each rank.
    static std::variant<std::unique_ptr<Mesh>, GroupError> open(const Settings& settings);

    explicit Mesh(const Settings& settings);
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;
    ~Mesh();

    const PeerAddress& own_address() const { return own_address_; }
    /// Connects to all ranks; `addresses` has one for each. After an error the existing connections
    /// stay until `abort`, and no new ones are made.
    Outcome connect(const std::vector<PeerAddress>& addresses, const Limits& limits);
    /// Performs the step with this tag of the program's call. A mismatch names the peer and has its
    /// call as text.
    Outcome perform(
        Exchange& exchange, const Collective& call, std::uint32_t tag, const Limits& limits);

    /// Breaks all connections and ends all waits. (A peer that leaves without an error closes its
    /// connections instead.)
    void abort();
    bool is_aborted() const { return is_aborted_; }
    /// Whether, after all were connected, a peer has closed its connection. That alone is no error.
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
    /// Guards the members below between `abort` and the connecting thread, which changes them.
    mutable std::mutex mutex_;
    std::vector<Descriptor> links_;
    std::vector<std::unique_ptr<Guest>> guests_;
    /// Peers to connect to again, at that time.
    std::vector<int> unreached_;
    std::string why_unreached_;
    Clock::time_point next_retry_;
    bool has_callers_ = false;
    /// Peers that had closed their connections before this rank closed the others.
    std::vector<int> closed_before_abort_;
};

}  // namespace ddprun::groups
