// SPDX-License-Identifier: Apache-2.0
// Any bytes on an agent's socket for ddprunctl, as one caller sends them. Sent whole and byte by
// byte they have the same result: one command or one reply, and nothing after it. A valid command
// is encoded to the same command again, and no command of another user is performed.
#include "agent/command/local_commands.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace ddprun;
using agent::command::LocalCommands;

constexpr unsigned owner = 1'000;

/// All effects, in order, of these bytes in pieces of this size.
std::vector<LocalCommands::Effect> effects_of(
    const std::string& bytes, std::size_t piece, unsigned user) {
    LocalCommands machine{owner};
    std::vector<LocalCommands::Effect> out;
    machine.handle(LocalCommands::Connected{1, {50, user}}, Instant{}, out);
    for (std::size_t at = 0; at < bytes.size(); at += piece)
        machine.handle(LocalCommands::Received{1, bytes.substr(at, piece)}, Instant{}, out);
    // A command that is performed has another deadline.
    if (out.empty())
        machine.handle(LocalCommands::DeadlinePassed{}, Instant{} + limits::command_timeout, out);
    return out;
}

std::optional<control::Command> command_in(const std::vector<LocalCommands::Effect>& effects) {
    require(effects.size() <= 1, "more than one answer to one connection");
    if (effects.empty()) return std::nullopt;
    const auto* perform = std::get_if<LocalCommands::Perform>(&effects.front());
    return perform == nullptr ? std::nullopt : std::optional{perform->command};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    const auto by_byte = command_in(effects_of(bytes, 1, owner));
    // In one piece, bytes after the command count towards the limit too.
    if (size <= limits::max_command_bytes)
        require(
            by_byte == command_in(effects_of(bytes, bytes.size() + 1, owner)),
            "the pieces make a difference");
    require(!command_in(effects_of(bytes, 1, owner + 1)), "a command of another user");
    if (!by_byte) return 0;
    const auto again = command_in(effects_of(control::encode(*by_byte), 1, owner));
    require(again == by_byte, "understood something else than was sent");
    return 0;
}
