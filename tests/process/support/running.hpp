// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/worker_exit.hpp"
#include "tests/process/support/wait.hpp"

#include <sys/types.h>

#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {

/// Paths of the programs of this build: stubs/NAME, and `ddprun` or `ddprun-rendezvous`.
std::string stub(const std::string& name);
std::string program(const std::string& name);
/// The path of `stub` quoted for a shell, since the build folder may have a space in its name.
std::string stub_in_shell(const std::string& name);

/// A program that a test has started, in a session of its own.
///
/// Output is read only while the test waits for something; until then a program that fills its pipe
/// blocks. A wait that takes longer than its deadline throws, with everything the program has
/// printed. A program that still runs at the end of the scope is killed (only that process: the
/// test must detect its leftovers).
class Running {
public:
    struct Options {
        std::vector<std::string> arguments;
        /// Added to the test's own variables, or overriding them.
        std::map<std::string, std::string> environment;
        bool has_clean_environment = false;
        /// Empty: the test's own directory.
        std::string directory;
        /// Name of a network namespace to run in (network_pair.hpp).
        std::string network_namespace;
        /// stdin, stdout and stderr are a new pseudo-terminal, which is also the controlling one;
        /// all that appears on it is `out`.
        bool has_terminal = false;
        /// Signals that are ignored when the program starts, as under nohup.
        std::vector<int> ignored_signals;
        /// Not empty: the name of the host that the program sees.
        std::string host_name;
    };

    explicit Running(std::string program, Options options);
    explicit Running(std::string program, std::vector<std::string> arguments = {});
    ~Running();
    Running(Running&& other) noexcept;
    Running& operator=(Running&&) = delete;

    pid_t pid() const { return pid_; }

    /// Sends the signal to the program alone, as `kill PID` would.
    void signal(int number) const;
    /// Types on the pseudo-terminal.
    void type(const std::string& text) const;
    /// Closes the pseudo-terminal, as when a window or a connection is closed.
    void hang_up();
    /// The pseudo-terminal, for looking at its modes.
    int terminal() const { return terminal_; }

    /// Waits for a line of stdout or stderr that matches the ECMAScript pattern: the first that no
    /// earlier call has returned, whatever the order of the lines. Lines are returned without their
    /// end.
    std::string wait_for_line(
        const std::string& pattern, std::chrono::milliseconds deadline = fact_timeout);
    /// The same; returns the first number after `words` (a fixed text) in that line.
    int wait_for_number(
        const std::string& words, std::chrono::milliseconds deadline = fact_timeout);

    agent::WorkerExit wait_for_exit(std::chrono::milliseconds deadline = fact_timeout);
    /// Waits for the end, and returns the value of $? in a shell.
    int wait_for_code(std::chrono::milliseconds deadline = fact_timeout);
    bool has_exited();

    /// All output that was read so far; after `wait_for_exit` all there is.
    const std::string& out() const { return streams_[0].text; }
    const std::string& err() const { return streams_[1].text; }

private:
    struct Stream {
        int descriptor = -1;
        std::string text;
        /// How many bytes have been split into lines.
        std::size_t split_bytes = 0;
        /// Lines that wait_for_line has not returned.
        std::list<std::string> lines;
    };

    void start(std::string program, const Options& options);
    void read_available();
    void wait_a_moment(std::chrono::steady_clock::time_point until);
    std::optional<std::string> take_line(const std::string& pattern);
    [[noreturn]] void complain(const std::string& about) const;

    std::string name_;
    pid_t pid_ = -1;
    int pidfd_ = -1;
    int terminal_ = -1;
    std::vector<Stream> streams_;
    std::optional<agent::WorkerExit> exit_;
};

}  // namespace ddprun::test
