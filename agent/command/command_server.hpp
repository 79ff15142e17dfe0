// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/channel/local_listener.hpp"
#include "agent/command/local_commands.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/net/driver.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace ddprun::agent::command {

/// Where `ddprunctl` reaches this agent: the abstract socket "@ddprunctl/1/UID/PID", with the pid
/// of the keeper. The shell of one LocalCommands. Lives on the agent's thread.
class CommandServer {
public:
    /// Returns the reply; none: it follows through `answer`.
    using Execute =
        std::function<std::optional<control::CommandReply>(const LocalCommands::Perform& order)>;

    CommandServer(
        boost::asio::io_context& io, uid_t user, pid_t keeper, Random& random, Execute execute);
    CommandServer(const CommandServer&) = delete;
    CommandServer& operator=(const CommandServer&) = delete;

    /// Sends the reply to a command that had no immediate one; does nothing if the caller is gone.
    void answer(int caller, control::CommandReply reply);

private:
    using Descriptor = boost::asio::posix::stream_descriptor;

    void wait_for_bytes(int caller);
    /// Returns false when the connection is closed.
    bool read(int caller);
    void perform(LocalCommands::Effect& effect);
    void reply(const LocalCommands::Reply& order);

    boost::asio::io_context& io_;
    Execute execute_;
    channel::LocalListener listener_;
    int last_caller_ = 0;
    std::map<int, Descriptor> callers_;
    net::Driver<LocalCommands> machine_;
};

/// The name in /etc/passwd; empty: it has none. The system's name services are not asked, since a
/// static program cannot load them.
std::string name_of_user(uid_t user);

}  // namespace ddprun::agent::command
