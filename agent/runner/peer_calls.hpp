// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/neighbours.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/voter_address.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/tls/secret_file.hpp"
#include "rendezvous/voters/vote_text.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// Listens on `peer_port` and calls other nodes' peer ports. Each call carries one line each way
/// (supervise/FORMAT.md). The agent machine decides what probes mean, the process's voter what the
/// requests of a vote do. No call lasts longer than its answer timeout. Lives on the agent's
/// thread.
class PeerCalls {
public:
    /// Never called from inside a function of this class.
    struct Hooks {
        std::function<void(int caller, PeerProbe probe)> on_asked;
        std::function<void(int ask, std::optional<PeerAnswer> answer)> on_answered;
    };

    /// What voters are asked on this port (voters/vote_text).
    struct Votes {
        /// The nonces under which the process's voter answers.
        std::vector<Nonce> voters;
        /// The answer's line to a request without `voters::vote_protocol` and line feed; empty: the
        /// call is closed.
        std::function<std::string(std::string_view request)> answer;
    };
    struct VoteReply {
        /// Without its line feed; empty: none came.
        std::string line;
        /// Nothing listens on the port, unless a firewall pretends so: the voter's process has
        /// ended, since it listens as long as it runs.
        bool is_refused = false;
    };
    using OnVote = std::function<void(const VoteReply& reply)>;

    /// With a secret every call is encrypted. The key depends on the secret and on the nonce of the
    /// callee, or of its voter, so only the intended process has it too.
    struct Security {
        tls::SecretSource secret;
        std::function<Nonce()> own_nonce;
    };

    PeerCalls(
        boost::asio::io_context& io,
        Hooks hooks,
        Duration answer_timeout = limits::peer_answer_timeout,
        std::optional<Security> security = std::nullopt);
    ~PeerCalls();
    PeerCalls(const PeerCalls&) = delete;
    PeerCalls& operator=(const PeerCalls&) = delete;

    /// Calls are encrypted.
    bool has_secret() const;

    /// Accepts calls on this port, except from other users of this machine.
    void listen(net::Tcp::acceptor acceptor);
    /// Handles an incoming call. If there are too many, the one that has waited longest is closed.
    void take(net::Tcp::socket socket);
    /// Does nothing if the caller is gone.
    void answer(int caller, const std::optional<PeerAnswer>& answer);
    void ask(Neighbours::Ask ask);

    /// None: this process has no voter any more, as before the first call. `answer` is called from
    /// no function of this class.
    void serve_votes(std::optional<Votes> votes);
    /// `request`: one line, as `voters::encode` returns it. `on_answer` is not called from inside
    /// this function, or after this object is destroyed.
    void ask_voter(
        control::VoterAddress to, const Nonce& voter, const std::string& request, OnVote on_answer);
    /// Asks the `ddprun-rendezvous` at this numeric address for the nonce under which it votes
    /// (`voters::identity_in`). `on_answer` as in `ask_voter`.
    void identify(Endpoint witness, const voters::Identify& request, OnVote on_answer);

private:
    struct Caller;
    struct State;

    static boost::asio::awaitable<void> hear(std::shared_ptr<State> state, int number);
    static boost::asio::awaitable<void> call(std::shared_ptr<State> state, Neighbours::Ask ask);
    /// `node`: the voter's nonce; none: a witness is asked.
    void ask_for_vote(
        Endpoint to, std::optional<Nonce> node, const std::string& request, OnVote on_answer);
    static boost::asio::awaitable<void> call_voter(
        std::shared_ptr<State> state,
        Endpoint to,
        std::optional<Nonce> node,
        std::string line,
        OnVote on_answer);

    boost::asio::io_context& io_;
    std::shared_ptr<State> state_;
    std::shared_ptr<server::Listener> listener_;
};

}  // namespace ddprun::agent
