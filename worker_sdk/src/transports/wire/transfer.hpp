// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/transports/wire/exchange.hpp"
#include "worker_sdk/src/transports/wire/header.hpp"

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::groups {

/// Moves the bytes of one exchange over connected sockets, on the calling thread.
class Transfer {
public:
    using Clock = std::chrono::steady_clock;

    /// How long a wait polls before it sleeps, learned from earlier waits.
    class Polling {
    public:
        explicit Polling(bool has_core) : has_core_(has_core) {}

        std::chrono::microseconds length() const {
            return std::chrono::microseconds(has_core_ ? length_.load() : 0);
        }
        void learn(bool has_come);

    private:
        bool has_core_;
        std::atomic<int> length_{100};
    };

    struct Settings {
        int rank;
        /// One for each rank.
        std::vector<int> sockets;
        /// The program's call, and the tag of this step of it.
        const Collective& call;
        std::uint32_t tag;
        /// A descriptor that becomes readable after `is_aborted` has become true.
        int wake;
        const std::atomic<bool>& is_aborted;
        Polling& polling;
        Clock::time_point until;
        /// Called now and then during a long wait.
        const std::function<void()>& during_wait;
    };

    struct Done {};
    struct Aborted {};
    /// The deadline has passed, and these peers have not sent or taken everything.
    struct Late {
        std::vector<int> peers;
    };
    struct Lost {
        int peer;
        std::string why;
    };
    /// This peer is in another call.
    struct Differs {
        int peer;
        Collective call;
    };
    /// This rank cannot wait for its connections.
    struct Failed {
        std::string why;
    };
    using End = std::variant<Done, Aborted, Late, Lost, Differs, Failed>;

    Transfer(Exchange& exchange, Settings settings);

    End run();

private:
    /// One direction of a connection.
    struct Sending {
        Header header{};
        std::size_t header_sent = 0;
        bool is_full = false;
    };
    struct Receiving {
        std::array<std::byte, sizeof(Header)> header{};
        std::size_t header_got = 0;
        bool is_empty = false;
    };
    struct Peer {
        int number;
        Sending sending{};
        Receiving receiving{};
        /// Nothing can be sent any more; bytes that have arrived can still be read.
        bool is_broken = false;
    };

    bool wants_to_send(const Peer& peer) const;
    bool wants_to_receive(const Peer& peer) const;
    bool has_sent(const Peer& peer) const;
    bool is_done(const Peer& peer) const;
    bool send(Peer& peer);
    bool receive(Peer& peer);
    void check_header(const Peer& peer);
    void check_time();
    void lose_silent();
    void look();
    void await();
    void require_no_broken();
    bool poll_for_a_while();
    bool poll(int milliseconds);
    void set_awaited();
    void note();
    void lose(int peer, std::string why) { end_ = Lost{peer, std::move(why)}; }
    int socket_of(const Peer& peer) const {
        return settings_.sockets[static_cast<std::size_t>(peer.number)];
    }

    Exchange& exchange_;
    const Settings settings_;
    std::vector<Peer> peers_;  // peers that are not done
    /// One for each rank, since the kernel accepts no more than the process may have descriptors.
    /// This rank's own entry is the wake descriptor.
    std::vector<pollfd> sockets_;
    Clock::time_point next_call_;
    std::optional<End> end_;
};

}  // namespace ddprun::groups
