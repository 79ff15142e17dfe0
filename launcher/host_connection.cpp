// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_connection.hpp"

#include "launcher/pipe.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

/// Starts the process in a new session, with the signals of a login shell.
int spawn(const HostCommand& command, const std::array<int, 3>& descriptors, pid_t& pid) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int number = 0; number < 3; ++number)
        posix_spawn_file_actions_adddup2(
            &actions, descriptors[static_cast<std::size_t>(number)], number);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    const auto arguments = pointers_to(command.arguments);
    const auto environment = pointers_to(command.environment);
    rlimit own{};
    const bool is_restored = command.descriptor_limit && ::getrlimit(RLIMIT_NOFILE, &own) == 0 &&
                             ::setrlimit(RLIMIT_NOFILE, &*command.descriptor_limit) == 0;
    const int error = ::posix_spawn(
        &pid, command.program.c_str(), &actions, &attributes, arguments.data(), environment.data());
    if (is_restored) ::setrlimit(RLIMIT_NOFILE, &own);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

HostConnection::HostConnection(boost::asio::io_context& io, Identity identity, Callbacks callbacks)
    : identity_(std::move(identity)),
      callbacks_(std::move(callbacks)),
      input_(io),
      out_(io, STDOUT_FILENO),
      err_(io, STDERR_FILENO),
      answers_(identity_.token),
      frames_(identity_.token) {}

HostConnection::~HostConnection() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
}

int HostConnection::start(const HostCommand& command) {
    std::array<Pipe, 3> pipes;
    for (auto& pipe : pipes)
        if (!pipe.open()) return errno;
    auto& [in, out, err] = pipes;
    pid_t pid = -1;
    const int error = spawn(command, {in.read_end, out.write_end, err.write_end}, pid);
    if (error != 0) return error;
    pid_ = pid;
    input_.assign(std::exchange(in.write_end, -1));
    out_.pipe.assign(std::exchange(out.read_end, -1));
    err_.pipe.assign(std::exchange(err.read_end, -1));
    for (auto* pipe : {&input_, &out_.pipe, &err_.pipe})
        pipe->native_non_blocking(true);
    read_on();
    return 0;
}

void HostConnection::send(std::shared_ptr<const std::string> bytes) {
    unsent_.push_back(std::move(bytes));
    if (unsent_.size() == 1) write_next();
}

void HostConnection::write_next() {
    if (!input_.is_open()) return;
    boost::asio::async_write(
        input_,
        boost::asio::buffer(*unsent_.front()),
        [this](const boost::system::error_code& ec, std::size_t) {
            if (ec == boost::asio::error::operation_aborted) return;
            // A process that reads no more is about to end.
            unsent_.pop_front();
            if (ec) unsent_.clear();
            if (!unsent_.empty()) write_next();
        });
}

void HostConnection::read_on() {
    for (auto* stream : {&out_, &err_})
        if (stream->pipe.is_open() && !stream->is_reading) read(*stream);
}

/// Waits without reading: if the process were reaped after a read has completed but before its
/// handler has run, the bytes of that read would come too late.
void HostConnection::read(Stream& stream) {
    stream.is_reading = true;
    stream.pipe.async_wait(
        boost::asio::posix::stream_descriptor::wait_read,
        [this, &stream](const boost::system::error_code& ec) {
            if (ec == boost::asio::error::operation_aborted) return;
            stream.is_reading = false;
            if (!stream.pipe.is_open()) return;
            const auto size = read_now(stream);
            if (size == 0 || (size < 0 && errno != EAGAIN)) return stream.pipe.close();
            if (!callbacks_.is_output_full()) read(stream);
        });
}

/// Returns what ::read returns.
ssize_t HostConnection::read_now(Stream& stream) {
    ssize_t size = 0;
    do {
        size = ::read(stream.pipe.native_handle(), stream.chunk.data(), stream.chunk.size());
    } while (size < 0 && errno == EINTR);
    if (size > 0) take(stream, {stream.chunk.data(), static_cast<std::size_t>(size)});
    return size;
}

/// Reads what was written before the process ended. It does not wait for the end of the file: a
/// master connection that ssh leaves in the background shares the standard error.
void HostConnection::drain(Stream& stream) {
    if (!stream.pipe.is_open()) return;
    while (read_now(stream) > 0) {
    }
    stream.pipe.close();
}

void HostConnection::take(Stream& stream, std::string_view bytes) {
    if (has_begun_) {
        if (&stream == &err_) return show(stream, frames_.append(bytes));
        return show(stream, std::string{bytes});
    }
    if (&stream == &out_) {
        answers_.append(bytes);
        return take_answers();
    }
    words_ += bytes;
    if (words_.size() > limits::max_host_answer_bytes)
        words_.erase(0, words_.size() - limits::max_host_answer_bytes);
}

void HostConnection::take_answers() {
    while (const auto answer = answers_.next())
        std::visit(
            Overloaded{
                [&](HostLacks) { callbacks_.post(FanOut::Lacked{identity_.host}); },
                [&](HostIsReady) { callbacks_.post(FanOut::Readied{identity_.host}); },
                [&](const HostCannot& cannot) {
                    callbacks_.post(FanOut::Refused{identity_.host, printable(cannot.reason)});
                }},
            *answer);
}

void HostConnection::show(Stream& stream, const std::string& text) {
    auto shown = identity_.is_alone ? text : stream.lines.append(text);
    if (!shown.empty()) callbacks_.output(stream.descriptor, std::move(shown));
}

void HostConnection::kill() const {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
}

void HostConnection::reaped(int status) {
    pid_ = -1;
    for (auto* stream : {&out_, &err_})
        drain(*stream);
    input_.close();
    show(err_, frames_.finish());
    for (auto* stream : {&out_, &err_})
        if (auto rest = stream->lines.finish(); !rest.empty())
            callbacks_.output(stream->descriptor, std::move(rest));
    FanOut::HostEnd end{
        frames_.report(), code_of(status), identity_.is_ssh, printable(last_line(words_))};
    if (has_begun_) end.words.clear();
    if (end.exit_code < 0 && !identity_.is_ssh) end.words = signal_name(-end.exit_code);
    callbacks_.post(FanOut::Ended{identity_.host, std::move(end)});
}

}  // namespace ddprun::launcher
