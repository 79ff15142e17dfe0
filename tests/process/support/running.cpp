// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/running.hpp"

#include "agent/process/spawn.hpp"
#include "rendezvous/base/text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <regex>
#include <stdexcept>
#include <utility>

namespace ddprun::test {
namespace {

std::map<std::string, std::string> own_environment() {
    std::map<std::string, std::string> variables;
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const auto equals = text.find('=');
        variables[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return variables;
}

std::vector<std::string> environment_for(const Running::Options& options) {
    auto variables =
        options.has_clean_environment ? std::map<std::string, std::string>{} : own_environment();
    for (const auto& [name, value] : options.environment)
        variables[name] = value;
    std::vector<std::string> entries;
    for (const auto& [name, value] : variables)
        entries.push_back(name + "=" + value);
    return entries;
}

int open_terminal(std::string& slave) {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    std::array<char, 64> name{};
    if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0 ||
        ::ptsname_r(master, name.data(), name.size()) != 0)
        throw std::runtime_error("no pseudo-terminal");
    slave = name.data();
    return master;
}

std::string program_named(const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    const char* const path = std::getenv("PATH");
    for (const auto folder : split(path != nullptr ? path : "", ':'))
        if (auto file = std::string{folder} + '/' + name; ::access(file.c_str(), X_OK) == 0)
            return file;
    throw std::runtime_error("no program " + name + " on PATH");
}

/// Puts a wrapper before the command, which gives it, for example, a namespace or a terminal.
void wrap(std::vector<std::string>& command, std::vector<std::string> wrapper) {
    wrapper.insert(wrapper.end(), command.begin(), command.end());
    command = std::move(wrapper);
}

}  // namespace

std::string stub(const std::string& name) {
    return DDPRUN_STUB_DIR "/" + name;
}

std::string stub_in_shell(const std::string& name) {
    return "'" + stub(name) + "'";
}

std::string program(const std::string& name) {
    // Programs of that name that start the real ones, as contained.sh makes them.
    if (const char* const folder = std::getenv("DDPRUN_TEST_BIN_DIR"))
        if (auto other = std::string{folder} + '/' + name; ::access(other.c_str(), X_OK) == 0)
            return other;
    return DDPRUN_BIN_DIR "/" + name;
}

Running::Running(std::string program, Options options) : streams_(2) {
    start(std::move(program), options);
}

Running::Running(std::string program, std::vector<std::string> arguments) : streams_(2) {
    Options options;
    options.arguments = std::move(arguments);
    start(std::move(program), options);
}

Running::Running(Running&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::exchange(other.pidfd_, -1)),
      terminal_(std::exchange(other.terminal_, -1)),
      streams_(std::exchange(other.streams_, {})),
      exit_(std::move(other.exit_)) {}

Running::~Running() {
    if (pid_ > 0 && !exit_) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    if (pidfd_ >= 0) ::close(pidfd_);
    for (auto& stream : streams_)
        if (stream.descriptor >= 0) ::close(stream.descriptor);
}

void Running::start(std::string program, const Options& options) {
    name_ = program;
    std::vector<std::string> command{std::move(program)};
    command.insert(command.end(), options.arguments.begin(), options.arguments.end());
    agent::SpawnSpec spec;
    std::vector<int> given;
    if (options.has_terminal) {
        std::string slave;
        terminal_ = streams_[0].descriptor = open_terminal(slave);
        // A session leader that opens a terminal gets it as its controlling one.
        wrap(command, {"/bin/sh", "-c", "exec 0<>\"$0\" 1>&0 2>&0; exec \"$@\"", slave});
    } else {
        given.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        for (auto& stream : streams_) {
            std::array<int, 2> ends{};
            if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
            stream.descriptor = ends[0];
            given.push_back(ends[1]);
        }
        spec.standard_input = given[0];
        spec.standard_output = given[1];
        spec.standard_error = given[2];
    }
    if (!options.directory.empty()) wrap(command, {"env", "--chdir=" + options.directory});
    if (!options.host_name.empty())
        wrap(
            command,
            {"unshare",
             "--uts",
             "/bin/sh",
             "-c",
             R"(echo "$0" >/proc/sys/kernel/hostname && exec "$@")",
             options.host_name});
    if (!options.network_namespace.empty())
        wrap(command, {"ip", "netns", "exec", options.network_namespace});
    for (const auto& stream : streams_)
        if (stream.descriptor >= 0) ::fcntl(stream.descriptor, F_SETFL, O_NONBLOCK);

    spec.program = program_named(command[0]);
    spec.arguments = std::move(command);
    spec.environment = environment_for(options);
    for (const int signal : options.ignored_signals)
        sigaddset(&spec.start.ignored, signal);
    const auto pid = agent::spawn(spec);
    for (const int descriptor : given)
        ::close(descriptor);
    if (!pid) throw std::runtime_error(pid.error().describe());
    pid_ = *pid;
    pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
}

void Running::signal(int number) const {
    if (!exit_) ::kill(pid_, number);
}

void Running::type(const std::string& text) const {
    [[maybe_unused]] const auto size = ::write(terminal_, text.data(), text.size());
}

void Running::hang_up() {
    ::close(std::exchange(terminal_, -1));
    streams_[0].descriptor = -1;
}

void Running::read_available() {
    std::array<char, 65536> bytes;
    for (auto& stream : streams_) {
        while (stream.descriptor >= 0) {
            const auto size = ::read(stream.descriptor, bytes.data(), bytes.size());
            if (size > 0) {
                stream.text.append(bytes.data(), static_cast<std::size_t>(size));
                continue;
            }
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) break;
            // The end of the output; a pseudo-terminal reports EIO. It stays open so that its modes
            // can be read.
            if (stream.descriptor != terminal_) ::close(stream.descriptor);
            stream.descriptor = -1;
        }
    }
}

/// Waits until there is output, the program has ended, or the deadline has passed.
void Running::wait_a_moment(std::chrono::steady_clock::time_point until) {
    using std::chrono::milliseconds;
    const auto left =
        std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
    std::array<pollfd, 3> watched{
        {{pidfd_, POLLIN, 0},
         {streams_[0].descriptor, POLLIN, 0},
         {streams_[1].descriptor, POLLIN, 0}}};
    ::poll(watched.data(), watched.size(), static_cast<int>(std::max<long>(left.count(), 0) + 1));
}

std::optional<std::string> Running::take_line(const std::string& pattern) {
    const std::regex wanted(pattern);
    for (auto& stream : streams_) {
        for (std::size_t end;
             (end = stream.text.find('\n', stream.split_bytes)) != std::string::npos;
             stream.split_bytes = end + 1) {
            auto line = stream.text.substr(stream.split_bytes, end - stream.split_bytes);
            if (!line.empty() && line.back() == '\r') line.pop_back();
            stream.lines.push_back(std::move(line));
        }
        for (auto line = stream.lines.begin(); line != stream.lines.end(); ++line) {
            if (!std::regex_search(*line, wanted)) continue;
            auto found = std::move(*line);
            stream.lines.erase(line);
            return found;
        }
    }
    return std::nullopt;
}

std::string Running::wait_for_line(const std::string& pattern, std::chrono::milliseconds deadline) {
    const auto until = std::chrono::steady_clock::now() + deadline;
    for (;;) {
        const bool is_over = has_exited();
        if (auto line = take_line(pattern)) return *line;
        if (is_over) complain("it ended without a line like '" + pattern + "'");
        if (std::chrono::steady_clock::now() >= until)
            complain("no line like '" + pattern + "' came in time");
        wait_a_moment(until);
    }
}

int Running::wait_for_number(const std::string& words, std::chrono::milliseconds deadline) {
    const auto line = wait_for_line(words + "-?[0-9]+", deadline);
    std::smatch match;
    std::regex_search(line, match, std::regex(words + "(-?[0-9]+)"));
    return std::stoi(match[1]);
}

bool Running::has_exited() {
    // First the exit, then the output: what was written before it is then complete.
    int status = 0;
    if (!exit_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
        exit_ = agent::WorkerExit::from_wait_status(status);
    read_available();
    return exit_.has_value();
}

agent::WorkerExit Running::wait_for_exit(std::chrono::milliseconds deadline) {
    const auto until = std::chrono::steady_clock::now() + deadline;
    while (!has_exited()) {
        if (std::chrono::steady_clock::now() >= until) complain("it did not end in time");
        wait_a_moment(until);
    }
    return *exit_;
}

int Running::wait_for_code(std::chrono::milliseconds deadline) {
    return wait_for_exit(deadline).shell_code();
}

void Running::complain(const std::string& about) const {
    throw std::runtime_error(
        name_ + ": " + about + "\n--- stdout\n" + out() + "\n--- stderr\n" + err() + "\n---" +
        (exit_ ? "\n" + exit_->describe() : ""));
}

}  // namespace ddprun::test
