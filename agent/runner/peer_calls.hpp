// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/neighbours.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/tls/secret_file.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace ddprun::agent {

/// Listens on `peer_port` and calls other nodes' peer ports. Each call carries one line each way
/// (supervise/FORMAT.md), whose meaning the agent machine decides. No call lasts longer than its
/// answer timeout. Lives on the agent's thread.
class PeerCalls {
public:
    /// Never called from inside a function of this class.
    struct Hooks {
        std::function<void(int caller, PeerProbe probe)> on_asked;
        std::function<void(int ask, std::optional<PeerAnswer> answer)> on_answered;
    };

    /// With a secret every call is encrypted. The key depends on the secret and on the callee's
    /// nonce, so only the intended agent has it too.
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

    /// Accepts calls on this port, except from other users of this machine.
    void listen(net::Tcp::acceptor acceptor);
    /// Handles an incoming call. If there are too many, the one that has waited longest is closed.
    void take(net::Tcp::socket socket);
    /// Does nothing if the caller is gone.
    void answer(int caller, const std::optional<PeerAnswer>& answer);
    void ask(Neighbours::Ask ask);

private:
    struct Caller;
    struct State;

    static boost::asio::awaitable<void> hear(std::shared_ptr<State> state, int number);
    static boost::asio::awaitable<void> call(std::shared_ptr<State> state, Neighbours::Ask ask);

    boost::asio::io_context& io_;
    std::shared_ptr<State> state_;
    std::shared_ptr<server::Listener> listener_;
};

}  // namespace ddprun::agent
