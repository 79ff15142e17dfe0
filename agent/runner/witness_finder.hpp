// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/runner/peer_calls.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/control/voter_set.hpp"
#include "rendezvous/voters/vote_text.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::agent {

/// While this node leads: asks the `ddprun-rendezvous` of --rdzv-witness under which nonce it
/// votes, again and again, since one that is started again is another voter. Reports in the log
/// when it is found, and when it does not answer. Lives on the agent's thread. Requires: `calls`
/// outlives it.
class WitnessFinder {
public:
    struct Hooks {
        /// What to ask; none: this node does not lead.
        std::function<std::optional<voters::Identify>()> find_record;
        /// The witness each time it has answered, or none when it does not answer any more. Never
        /// called from inside a function of this class.
        std::function<void(std::optional<control::VoterPlace>)> on_seen;
    };

    WitnessFinder(boost::asio::io_context& io, PeerCalls& calls, Endpoint typed, Hooks hooks);
    ~WitnessFinder();

    /// Asks now and at each interval, until this node does not lead.
    void start();

private:
    /// Shared with a call that may outlast this object.
    struct State;

    static boost::asio::awaitable<void> ask_repeatedly(std::shared_ptr<State> state, int turn);
    static boost::asio::awaitable<std::string> ask(
        std::shared_ptr<State> state, int turn, voters::Identify request);

    boost::asio::io_context& io_;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
