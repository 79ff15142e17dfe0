// SPDX-License-Identifier: Apache-2.0
// A node without a rendezvous: keeper, agent, and one worker that gets no stop signal.
//
//   kept_node [options] -- WORKER [ARGUMENTS...]
//   --exit CODE        what the agent exits with on SIGTERM
//   --stop-at-fence MS on SIGTERM sets a fence this far away and stops itself (SIGSTOP)
//   --connect PORT     opens a connection to the loopback, hands it up, then writes "hello\n"
//   --deaf             the agent reads no signals
//   --raw-terminal     makes the terminal raw
//   --error-files STEM notes STEM0.json to STEM2.json as the error files of its workers
//   --orderly          on SIGTERM kills the worker before it exits
// Prints "keeper PID", "agent PID", "worker PID" and "signal NAME" for each signal that its keeper
// reports.
#include "agent/keeper/keeper.hpp"
#include "agent/keeper/keeper_link.hpp"
#include "agent/process/descendants.hpp"
#include "agent/process/spawn.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/text.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ddprun::agent;
using Tcp = boost::asio::ip::tcp;

struct Options {
    int exit_code = 0;
    std::optional<int> fence_ms;
    std::optional<unsigned short> port;
    std::string error_files;
    bool is_deaf = false;
    bool makes_terminal_raw = false;
    bool is_orderly = false;
    std::vector<std::string> worker;
};

Options parse(int argc, char** argv) {
    Options options;
    int at = 1;
    for (; at < argc; ++at) {
        const std::string_view word = argv[at];
        if (word == "--") break;
        if (word == "--exit") options.exit_code = std::atoi(argv[++at]);
        if (word == "--stop-at-fence") options.fence_ms = std::atoi(argv[++at]);
        if (word == "--connect") options.port = static_cast<unsigned short>(std::atoi(argv[++at]));
        if (word == "--error-files") options.error_files = argv[++at];
        if (word == "--deaf") options.is_deaf = true;
        if (word == "--raw-terminal") options.makes_terminal_raw = true;
        if (word == "--orderly") options.is_orderly = true;
    }
    for (++at; at < argc; ++at)
        options.worker.emplace_back(argv[at]);
    return options;
}

template <class... Values>
void print(const char* format, Values... values) {
    std::printf(format, values...);
    std::fflush(stdout);
}

void start_worker(const Options& options, const InheritedState& start, KeeperLink& link) {
    if (options.worker.empty()) return;
    SpawnSpec spec;
    spec.program = options.worker.front();
    spec.arguments = options.worker;
    spec.start = start;
    const auto pid = spawn(spec);
    if (!pid) return print("%s\n", pid.error().describe().c_str());
    link.note_session(0, *pid);
    print("worker %d\n", *pid);
}

int run_agent(const Options& options, const InheritedState& start, AgentSide side) {
    print("keeper %d\n", side.keeper);
    print("agent %d\n", ::getpid());
    boost::asio::io_context io;
    std::optional<int> exit_code;
    KeeperLink link(
        io,
        side,
        [&](int signal, bool is_for_all) {
            print(
                "signal %s%s\n",
                ddprun::signal_name(signal).c_str(),
                is_for_all ? " for all processes" : "");
            if (signal != SIGTERM) return;
            if (options.fence_ms) {
                link.set_fence(ddprun::Clock::now() + std::chrono::milliseconds{*options.fence_ms});
                ::raise(SIGSTOP);
                return;
            }
            if (options.is_orderly) kill_descendants(ddprun::limits::kill_descendants_timeout);
            exit_code = options.exit_code;
            io.stop();
        },
        [&] {
            kill_own_node(*side.page);
            exit_code = 1;
            io.stop();
        });

    Tcp::socket connection(io);
    if (options.port) {
        connection.connect({boost::asio::ip::address_v4::loopback(), *options.port});
        if (!link.hand_up(connection.native_handle())) return 97;
        boost::asio::write(connection, boost::asio::buffer(std::string_view{"hello\n"}));
    }
    if (!options.error_files.empty()) link.note_error_files(options.error_files, 3);
    start_worker(options, start, link);
    if (options.makes_terminal_raw) {
        termios modes{};
        ::tcgetattr(STDIN_FILENO, &modes);
        ::cfmakeraw(&modes);
        ::tcsetattr(STDIN_FILENO, TCSANOW, &modes);
        print("%s\n", "raw");
    }
    if (options.is_deaf)
        for (;;)
            ::pause();
    io.run();
    return exit_code.value_or(96);
}

}  // namespace

int main(int argc, char** argv) {
    const auto options = parse(argc, argv);
    const auto start = InheritedState::capture();
    auto forked = fork_agent(start);
    if (!forked) return 95;
    if (auto* const keeper = std::get_if<KeeperSide>(&forked.value())) return keep(*keeper);
    return run_agent(options, start, std::get<AgentSide>(*forked));
}
