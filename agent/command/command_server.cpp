// SPDX-License-Identifier: Apache-2.0
#include "agent/command/command_server.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"

#include <pwd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

namespace ddprun::agent::command {

CommandServer::CommandServer(
    boost::asio::io_context& io, uid_t user, pid_t keeper, Random& random, Execute execute)
    : io_(io),
      execute_(std::move(execute)),
      listener_(
          io,
          [this](int socket, channel::LocalPeer peer) {
              const int caller = ++last_caller_;
              callers_.emplace(caller, Descriptor{io_, socket});
              machine_.post(LocalCommands::Connected{caller, {peer.pid, peer.user}});
              wait_for_bytes(caller);
          }),
      machine_(io, "command", LocalCommands{user}, [this](LocalCommands::Effect& effect) {
          perform(effect);
      }) {
    const auto name = "ddprunctl/1/" + std::to_string(user) + '/' + std::to_string(keeper);
    if (const auto listening = listener_.listen(name, random); !listening)
        log::info("command.not_listening", {{"reason", listening.error().describe()}});
}

void CommandServer::wait_for_bytes(int caller) {
    const auto found = callers_.find(caller);
    if (found == callers_.end()) return;
    found->second.async_wait(
        Descriptor::wait_read, [this, caller](const boost::system::error_code& ec) {
            if (!ec && read(caller)) wait_for_bytes(caller);
        });
}

bool CommandServer::read(int caller) {
    const auto found = callers_.find(caller);
    if (found == callers_.end()) return false;
    std::array<char, limits::max_command_bytes> bytes{};
    // There is no room for received descriptors, so the kernel closes them.
    const auto size =
        ::recv(found->second.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (size <= 0) {
        callers_.erase(found);
        machine_.post(LocalCommands::Closed{caller});
        return false;
    }
    machine_.post(
        LocalCommands::Received{caller, std::string(bytes.data(), static_cast<std::size_t>(size))});
    return true;
}

void CommandServer::perform(LocalCommands::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const LocalCommands::Perform& e) {
                if (auto reply = execute_(e)) answer(e.caller, std::move(*reply));
            },
            [&](const LocalCommands::Reply& e) { reply(e); },
            [&](const LocalCommands::Close& e) { callers_.erase(e.caller); },
        },
        effect);
}

void CommandServer::answer(int caller, control::CommandReply reply) {
    machine_.post(LocalCommands::Answered{caller, std::move(reply)});
}

void CommandServer::reply(const LocalCommands::Reply& order) {
    const auto found = callers_.find(order.caller);
    if (found == callers_.end()) return;
    const auto frame = control::encode(order.reply);
    // The first bytes on a new connection always fit, unless the caller is gone.
    [[maybe_unused]] const auto sent = ::send(
        found->second.native_handle(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    callers_.erase(found);
}

std::string name_of_user(uid_t user) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{
        std::fopen("/etc/passwd", "re"), &std::fclose};
    if (!file) return {};
    std::array<char, limits::max_passwd_line_bytes> line{};
    passwd entry{};
    passwd* found = nullptr;
    while (::fgetpwent_r(file.get(), &entry, line.data(), line.size(), &found) == 0)
        if (entry.pw_uid == user) return entry.pw_name;
    return {};
}

}  // namespace ddprun::agent::command
