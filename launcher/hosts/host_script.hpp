// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/env_defaults.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// What `ddprun --hosts` sends to the shell of a host (`sh -s`, whatever the user's own shell is),
/// and the answers on its standard output. docs/hosts.md describes the conversation.
///
/// A shell may read ahead of the command that it executes, so only requested text is sent: first
/// the question, which is one command; then the program if the host lacks it; then the start when
/// the host is ready.
namespace ddprun::launcher {

/// This variable marks that a node's standard input is the connection: TOKEN, or TOKEN,colour.
inline constexpr const char* host_link_variable = "DDPRUN_HOSTS_LINK";

/// The connection of a node that `ddprun --hosts` started.
struct HostLink {
    /// Marks the node's report.
    std::string token;
    bool has_colour = false;

    bool operator==(const HostLink&) const = default;
};

std::string describe(const HostLink& link);
std::optional<HostLink> read_host_link(const Environment& environment);

struct HostQuestion {
    /// Marks the host's answers.
    std::string token;
    /// The working directory, the same as on this machine.
    std::string folder;
    /// The program's SHA-256, its size, and its processor type as `uname -m` names it.
    std::string sum;
    std::size_t size = 0;
    std::string machine;
};

std::string question_script(const HostQuestion& question);

/// `python` is used if the host has it; empty: the host's ddprun chooses.
std::string start_script(
    const std::string& token,
    const Environment& environment,
    const std::string& python,
    const std::vector<std::string>& arguments);

/// The part of this machine's environment that a node on another machine gets: all but the
/// variables of the machine, of the login, and of the job in which this process itself runs. The
/// variable of --topology=env:NAME (`topology` is that option's text) belongs to the machine too.
Environment environment_for_hosts(const Environment& environment, std::string_view topology);

struct HostLacks {};
struct HostIsReady {};
struct HostCannot {
    std::string reason;
};
using HostAnswer = std::variant<HostLacks, HostIsReady, HostCannot>;

/// Finds the answers in a host's standard output, between what its start-up files write. Pure.
class AnswerReader {
public:
    explicit AnswerReader(const std::string& token);

    void append(std::string_view bytes);
    std::optional<HostAnswer> next();

private:
    std::string mark_;
    std::string buffer_;
};

}  // namespace ddprun::launcher
