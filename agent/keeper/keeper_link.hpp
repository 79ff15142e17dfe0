// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/keeper/keeper.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <optional>
#include <string>

namespace ddprun::agent {

/// The agent's end of its socket pair with the keeper. Lives on the agent's thread. Destroying it
/// closes the socket, by which the keeper recognizes the agent's end.
class KeeperLink {
public:
    /// `on_signal` is called for each signal sent to `ddprun`, as often as it came;
    /// `is_for_all_processes`: a scheduler sent it to the workers as well. SIGTSTP: when it
    /// returns, the workers must be stopped; SIGCONT: they may continue. `on_keeper_gone` is called
    /// once: the node must then be killed, and this process must exit.
    KeeperLink(
        boost::asio::io_context& io,
        AgentSide side,
        std::function<void(int signal, bool is_for_all_processes)> on_signal,
        std::function<void()> on_keeper_gone);
    KeeperLink(const KeeperLink&) = delete;
    KeeperLink& operator=(const KeeperLink&) = delete;

    /// Gives the keeper a duplicate of a new control connection; the keeper closes the previous
    /// one. Call it before anything is written to the connection: then the server sees its end only
    /// when this node's processes are gone. From then on a deliberate end is shutdown(SHUT_RDWR).
    Result<> hand_up(int connection);

    /// When the keeper must kill this node; none: never. It waits limits::keeper_fence_margin
    /// longer, so that an agent that still runs can do it itself.
    void set_fence(std::optional<Instant> ends_at);

    /// The session that the worker of this local index leads; 0 when it has ended.
    void note_session(int local_index, pid_t session);

    /// The process that has to kill this node also removes these files: STEM0.json and so on,
    /// `count` of them. Count 0: none.
    void note_error_files(const std::string& stem, int count);
    /// Called before this process ends: a keeper that is killed afterwards removes nothing.
    void remove_error_files();

    pid_t keeper() const { return keeper_; }

private:
    void wait();
    bool read_all();
    void send(keeper::FromAgent::Kind kind);

    boost::asio::posix::stream_descriptor socket_;
    KeeperPage* page_;
    pid_t keeper_;
    std::uint32_t signals_read_ = 0;
    std::function<void(int, bool)> on_signal_;
    std::function<void()> on_keeper_gone_;
};

}  // namespace ddprun::agent
