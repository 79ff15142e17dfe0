// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/codec.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "tests/sim/link.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::sim {

/// The rendezvous server: the real Coordinator behind real control frames, on made-up links.
class Server {
public:
    Server(World& world, std::string addr, std::optional<std::string> hosted_run_id);

    const std::string& addr() const { return addr_; }
    bool is_up() const { return is_up_; }
    /// A host's connection has arrived.
    void accept(const std::shared_ptr<Link>& link, const std::string& peer_addr, int peer_port);
    void interrupt(int signal, const std::string& reason);
    /// Its process is gone.
    void kill();

    const coordinator::Coordinator& coordinator() const { return driven_.machine(); }

private:
    struct Connection {
        std::shared_ptr<Link> link;
        control::AgentMessageDecoder decoder;
    };
    void received(ConnectionId id, const std::string& bytes);
    void perform(coordinator::Effect& effect);

    World& world_;
    std::string addr_;
    bool is_up_ = true;
    std::map<ConnectionId, Connection> connections_;
    std::uint64_t next_connection_ = 1;
    Driven<coordinator::Coordinator> driven_;
};

}  // namespace ddprun::sim
