// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/etcd_gateway.hpp"
#include "tests/sim/network.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::sim {

/// A simulated etcd behind its JSON gateway: transactions over revisions, leases, keys that go with
/// them. It supports only the requests of the product (`witness::etcd`). It is a separate place in
/// the network.
class Etcd {
public:
    using OnAnswer = std::function<void(Result<std::string> body)>;
    static constexpr const char* place = "etcd";

    explicit Etcd(Network& network) : network_(network) {}

    /// Sends a request from there, on a separate connection. A request whose caller no longer waits
    /// may still be performed, even much later.
    void ask(const std::string& from, const witness::etcd::Request& request, OnAnswer on_answer);

    // Faults. When it is stopped, nothing is answered, and requests wait.
    void stop();
    /// Ends its process: connections are refused. Its data is kept.
    void kill();
    /// Ends either fault. A new process renews each lease, as etcd's new leader does.
    void go_on();
    /// Delays each answer by up to this much.
    void be_slow(Duration longest) { slowest_ = longest; }
    /// The next `count` requests are performed without an answer.
    void lose_answers(int count) { lost_answers_ = count; }
    bool is_well() const { return state_ == State::up; }

    /// The leader's key as it is now, for the checkers.
    std::optional<witness::Leader> leader(const std::string& run_id);
    /// How many keys were erased, not counting those that went with their leases.
    int erased_count() const { return erased_count_; }

private:
    enum class State : std::uint8_t { up, stopped, gone };
    struct Lease {
        Duration ttl;
        Instant ends_at;
    };
    /// Names and values stay in base64.
    struct Key {
        std::string value;
        std::int64_t create_revision;
        std::int64_t mod_revision;
        std::int64_t lease;
    };
    struct Waiting {
        std::shared_ptr<Link> link;
        std::string bytes;
    };

    void received(const std::shared_ptr<Link>& link, const std::string& bytes);
    std::string answer(const witness::etcd::Request& request);
    std::string transact(const std::string& body);
    void end_leases();
    void revoke(std::int64_t lease);

    Network& network_;
    State state_ = State::up;
    Duration slowest_{};
    int lost_answers_ = 0;
    int erased_count_ = 0;
    std::int64_t revision_ = 1;
    /// The keys at a revision, which are requested at each heartbeat.
    struct Known {
        std::int64_t revision = 0;
        std::optional<witness::Leader> leader;
    };
    std::map<std::string, Known> known_leaders_;
    std::int64_t last_lease_ = 1'000;
    std::map<std::int64_t, Lease> leases_;
    std::map<std::string, Key> keys_;
    std::vector<Waiting> waiting_;
};

}  // namespace ddprun::sim
