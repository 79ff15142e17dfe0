// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/health_hook.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"

#include <boost/asio/buffer.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {
namespace {

using Answer = AgentInterface::HealthChecked::Answer;

constexpr int unfit_code = 1;
constexpr int passes_at_once = 16;

void close_and_forget(int& descriptor) {
    if (descriptor >= 0) ::close(descriptor);
    descriptor = -1;
}

std::string error_text(int error_number) {
    return std::generic_category().message(error_number);
}

}  // namespace

AgentInterface::HealthChecked health_answer(const WorkerExit& exit, const std::string& output) {
    const auto line = printable_line(output);
    if (exit.is_success()) return {Answer::fit, {}};
    const auto* exited = std::get_if<WorkerExit::Exited>(&exit.how());
    const int code = exited != nullptr ? exited->code : 0;
    if (code == unfit_code)
        return {Answer::unfit, line.empty() ? "the health check gave no reason" : line};
    const bool is_not_run = code == exit_codes::not_executable || code == exit_codes::not_found;
    const auto detail = line.empty() ? std::string{} : ": " + line;
    return {
        is_not_run ? Answer::not_run : Answer::unknown, "the command " + exit.describe() + detail};
}

HealthHook::HealthHook(
    boost::asio::io_context& io,
    const AgentConfig& config,
    const InheritedState& start,
    OnAnswer on_answer)
    : io_(io),
      config_(config),
      start_(start),
      on_answer_(std::move(on_answer)),
      timer_(io),
      output_(io),
      spawner_(io) {}

HealthHook::~HealthHook() {
    close_and_forget(output_of_command_);
    close_and_forget(no_input_);
}

std::optional<pid_t> HealthHook::pid() const {
    if (!child_ || child_->has_exited()) return std::nullopt;
    return child_->pid();
}

void HealthHook::run(AgentInterface::CheckHealth::Reason reason) {
    require(!is_running_, "one health check at a time");
    is_running_ = true;
    first_line_.clear();
    has_first_line_ = false;
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return answer({Answer::unknown, "no pipe for its output: " + error_text(errno)});
    output_.assign(ends[0]);
    output_.non_blocking(true);
    output_of_command_ = ends[1];
    no_input_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);

    SpawnSpec spec;
    spec.program = "/bin/sh";
    spec.arguments = {"/bin/sh", "-c", config_.health_check};
    for (const auto& [name, value] : config_.worker.environment)
        spec.environment.push_back(name + "=" + value);
    spec.environment.push_back("DDPRUN_HEALTH_REASON=" + std::string{name_of(reason)});
    spec.start = start_;
    spec.standard_input = no_input_;
    spec.standard_output = output_of_command_;
    const auto limit = *config_.join.settings.health_timeout;
    timer_.expires_after(limit);
    timer_.async_wait([this, limit](const boost::system::error_code& ec) {
        if (ec || !is_running_) return;
        answer({Answer::unknown, "no answer within " + seconds_text(limit)});
    });
    spawner_.start(
        {std::move(spec)}, [this](const Spawner::Outcome& outcome) { on_spawned(outcome); });
}

void HealthHook::on_spawned(const Spawner::Outcome& outcome) {
    close_and_forget(output_of_command_);
    close_and_forget(no_input_);
    if (!outcome.pid) {
        if (is_running_) answer({Answer::not_run, outcome.pid.error().describe()});
        return;
    }
    auto child = Child::watch(io_, *outcome.pid, [this](const WorkerExit& exit) {
        if (!is_running_) return;
        take_output();
        answer(health_answer(exit, first_line_));
    });
    if (!child) {
        ::kill(*outcome.pid, SIGKILL);
        if (is_running_) answer({Answer::unknown, child.error().describe()});
        return;
    }
    child_ = std::move(*child);
    // Its time was over before it had begun.
    if (!is_running_) return kill();
    read();
}

void HealthHook::read() {
    output_.async_wait(
        boost::asio::posix::stream_descriptor::wait_read,
        [this](const boost::system::error_code& ec) {
            if (ec || !is_running_) return;
            take_output();
            if (output_.is_open()) read();
        });
}

/// What is there now, up to a bound. Only the first line is kept; the rest is read so that it does
/// not block.
void HealthHook::take_output() {
    // Others wait for this thread, however fast the command writes.
    for (int pass = 0; pass < passes_at_once && output_.is_open(); ++pass) {
        const auto count = ::read(output_.native_handle(), buffer_.data(), buffer_.size());
        if (count < 0) return;
        if (count == 0) return output_.close();
        const std::string_view piece{buffer_.data(), static_cast<std::size_t>(count)};
        if (has_first_line_) continue;
        const auto end = piece.find('\n');
        first_line_ += piece.substr(0, end);
        has_first_line_ =
            end != std::string_view::npos || first_line_.size() > limits::health_line_bytes;
        if (first_line_.size() > limits::health_line_bytes)
            first_line_.resize(limits::health_line_bytes);
    }
}

void HealthHook::answer(Checked checked) {
    is_running_ = false;
    timer_.cancel();
    if (output_.is_open()) output_.close();
    kill();
    on_answer_(std::move(checked));
}

void HealthHook::kill() {
    if (!child_) return;
    child_->signal_session(SIGKILL);
    child_->signal_leader(SIGKILL);
}

}  // namespace ddprun::agent
