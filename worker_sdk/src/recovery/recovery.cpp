// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/recovery/recovery.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/channel/attach.hpp"
#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/record/stop.hpp"
#include "worker_sdk/src/start_thread.hpp"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

/// A stop is announced by a signal, which wakes no condition variable.
constexpr auto stop_check_interval = 20ms;
/// Longer than any line of an agent.
constexpr std::size_t most_line_bytes = 1 << 20;

std::atomic<bool> was_in_earlier_round{false};

std::string_view take_word(std::string_view& line) {
    const auto word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    return word;
}

std::optional<int> round_of(std::string_view word) {
    int round = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), round);
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    return round;
}

int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::optional<std::string> unescaped(std::string_view text) {
    std::string value;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            value += text[at];
            continue;
        }
        if (at + 2 >= text.size()) return std::nullopt;
        const int high = digit_of(text[at + 1]);
        const int low = digit_of(text[at + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        value += static_cast<char>(high * 16 + low);
        at += 2;
    }
    return value;
}

}  // namespace

std::optional<std::vector<std::pair<std::string, std::string>>> parse_variables(
    std::string_view text) {
    std::vector<std::pair<std::string, std::string>> variables;
    while (!text.empty()) {
        const auto word = take_word(text);
        const auto equals = word.find('=');
        if (equals == std::string_view::npos || equals == 0) return std::nullopt;
        auto value = unescaped(word.substr(equals + 1));
        if (!value) return std::nullopt;
        variables.emplace_back(word.substr(0, equals), std::move(*value));
    }
    return variables;
}

RecoveryChannel::RecoveryChannel(const char* way) {
    const auto attachment = channel::attach(way);
    // This connection needs no page.
    if (attachment.words != nullptr) ::munmap(attachment.words, channel::page_bytes);
    if (attachment.connection < 0) return;
    connection_ = attachment.connection;
    // `attach` does not wait; the thread does.
    ::fcntl(connection_, F_SETFL, ::fcntl(connection_, F_GETFL) & ~O_NONBLOCK);
    constexpr std::string_view line = "recoverable\n";
    is_closed_ = ::send(connection_, line.data(), line.size(), MSG_NOSIGNAL) !=
                 static_cast<ssize_t>(line.size());
    reader_ = start_thread([this] { read_lines(); });
}

RecoveryChannel::~RecoveryChannel() {
    if (connection_ < 0) return;
    ::shutdown(connection_, SHUT_RDWR);
    reader_.join();
    ::close(connection_);
}

bool RecoveryChannel::is_possible() const {
    const std::lock_guard lock(mutex_);
    return connection_ >= 0 && !is_closed_;
}

void RecoveryChannel::end_with_round(std::weak_ptr<groups::Group> group) {
    const std::lock_guard lock(mutex_);
    std::erase_if(groups_, [](const auto& known) { return known.expired(); });
    groups_.push_back(std::move(group));
    // The round may be over already.
    if (ended_) abort_groups();
}

/// Requires: the mutex is held.
void RecoveryChannel::abort_groups() {
    for (const auto& known : std::exchange(groups_, {}))
        if (const auto group = known.lock())
            group->abort(
                {groups::GroupError::Kind::peer_lost, "the round is over: another follows"});
}

void RecoveryChannel::read_lines() {
    std::string rest;
    std::array<char, 4096> bytes{};
    for (;;) {
        const auto size = ::recv(connection_, bytes.data(), bytes.size(), 0);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0 || rest.size() > most_line_bytes) break;
        rest.append(bytes.data(), static_cast<std::size_t>(size));
        for (auto end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
            take(std::string_view{rest}.substr(0, end));
            rest.erase(0, end + 1);
        }
    }
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
}

void RecoveryChannel::take(std::string_view line) {
    const auto what = take_word(line);
    const auto round = round_of(take_word(line));
    const std::lock_guard lock(mutex_);
    if (what == "hold" && round) {
        ended_ = round;
        abort_groups();
    }
    if (what == "go" && round) {
        next_ = std::string{line};
        // The end of the next round may be announced before this process has begun it.
        ended_.reset();
    }
    changed_.notify_all();
}

/// Throws when it ends for another reason than `is_done`.
void RecoveryChannel::wait(
    Lock& lock, const std::function<bool()>& is_done, std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (!is_done()) {
        if (is_closed_)
            throw Error("this worker cannot go on in another round: it has no agent, or lost it");
        if (is_stop_announced())
            throw Error("this worker does not go on in another round: it is being stopped");
        if (std::chrono::steady_clock::now() >= until)
            throw Error(
                "the round of this worker is not over: nothing has ended it on other ranks");
        changed_.wait_for(lock, stop_check_interval);
    }
}

void RecoveryChannel::next_round(
    std::optional<std::uint64_t> committed, bool is_clean, std::chrono::milliseconds time) {
    Lock lock(mutex_);
    if (connection_ < 0) is_closed_ = true;
    wait(
        lock, [this] { return ended_.has_value(); }, time);
    const auto line = "holding " + std::to_string(*ended_) + ' ' +
                      (committed ? std::to_string(*committed) : "none") +
                      (is_clean ? " clean\n" : " dirty\n");
    if (::send(connection_, line.data(), line.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(line.size()))
        is_closed_ = true;
    wait(
        lock, [this] { return next_.has_value(); }, std::chrono::hours{24 * 365});
    const auto variables = parse_variables(*std::exchange(next_, std::nullopt));
    if (!variables) throw Error("the agent's line about the next round cannot be read");
    for (const auto& [name, value] : *variables)
        ::setenv(name.c_str(), value.c_str(), 1);
    was_in_earlier_round = true;
}

bool RecoveryChannel::has_gone_on() {
    return was_in_earlier_round;
}

}  // namespace ddprun
