// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/random.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "tests/sim/link.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::sim {

/// The rendezvous server: the real Coordinator behind real control frames, on simulated links.
class Server {
public:
    struct Options {
        std::string addr;
        /// Its place in the network: the host that serves it, or a separate machine.
        std::string place;
        /// It is part of a `ddprun`.
        std::optional<std::string> hosted_run_id;
        /// It serves only while it leads.
        bool is_elected = false;
        /// Its process as a voter; none: its nodes do not vote.
        std::optional<control::VoterPlace> voter = {};
        std::function<void(const coordinator::SteppedDown&)> on_stepped_down = {};
        std::function<void(const coordinator::Record&)> on_record = {};
        std::function<void(const coordinator::ChangeVoters&)> on_change_voters = {};
        /// The server decides to send a node a message that only a leader may send.
        std::function<void(const control::ServerMessage&, const std::string& to)> on_act = {};
    };

    Server(World& world, Options options);

    const std::string& place() const { return options_.place; }
    bool is_up() const { return is_up_; }
    /// A host's connection has arrived.
    void accept(const std::shared_ptr<Link>& link, const std::string& peer_addr, int peer_port);
    void interrupt(
        int signal, const std::string& reason, std::optional<Duration> grace = std::nullopt);
    /// Ends its process; its machine closes what the process had open.
    void kill();
    /// Switches its machine off: nothing is sent.
    void switch_off();
    /// Starts another process at the same endpoint, without any state.
    void restart();
    /// Stops or continues its process: messages wait meanwhile.
    void pause();
    void resume();

    /// Passes on the election's decision.
    void lead(coordinator::Led led);
    void recorded(std::uint64_t number);
    void voters_changed(control::Voters voters);
    void witness_changed(std::optional<control::VoterPlace> witness);
    void depose(const std::string& reason);
    /// Its decisions from here on are not written before it continues after a pause.
    void hold_output() { is_holding_output_ = true; }
    /// It was not paused after all.
    void go_on_writing() {
        if (!is_paused_) write_held();
    }
    bool is_idle() const { return coordinator().is_idle(); }

    const coordinator::Coordinator& coordinator() const { return driven_->machine(); }

private:
    struct Connection {
        std::shared_ptr<Link> link;
        control::AgentMessageDecoder decoder;
    };
    /// Connections that are not accepted yet.
    struct Waiting {
        std::shared_ptr<Link> link;
        std::string peer_addr;
        int peer_port;
    };
    void begin();
    void received(ConnectionId id, const std::string& bytes);
    void perform(coordinator::Effect& effect);
    void send(const coordinator::Send& send);
    void close(ConnectionId connection);
    void write_held();

    World& world_;
    Options options_;
    bool is_up_ = false;
    bool is_paused_ = false;
    bool is_holding_output_ = false;
    std::vector<std::function<void()>> held_output_;
    std::map<ConnectionId, Connection> connections_;
    std::vector<Waiting> waiting_;
    std::uint64_t next_connection_ = 1;
    /// A separate source, so that the rest of the history is the same as without tokens.
    Random token_random_;
    std::unique_ptr<Driven<coordinator::Coordinator>> driven_;
};

}  // namespace ddprun::sim
