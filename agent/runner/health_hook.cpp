// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/health_hook.hpp"

#include "rendezvous/base/descriptor.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/text.hpp"

#include <boost/asio/buffer.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {
namespace {

using Answer = AgentInterface::HealthChecked::Answer;

constexpr int unfit_code = 1;
constexpr int passes_at_once = 16;

/// Descriptors that stay open until the outcome of the command's start is known.
struct CommandEnds {
    Descriptor input;
    Descriptor output;
};

}  // namespace

AgentInterface::HealthChecked health_answer(const WorkerExit& exit, const std::string& output) {
    const auto line = printable_line(output);
    if (exit.is_success()) return {Answer::fit, {}};
    const auto* exited = std::get_if<WorkerExit::Exited>(&exit.how());
    const int code = exited != nullptr ? exited->code : 0;
    // Python also exits with 1 when it does not find a module.
    if (code == unfit_code && line.empty())
        return {Answer::unknown, "the command " + exit.describe() + " and wrote no reason"};
    if (code == unfit_code) return {Answer::unfit, line};
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
      output_(io) {}

std::optional<pid_t> HealthHook::pid() const {
    if (!child_ || child_->has_exited()) return std::nullopt;
    return child_->pid();
}

void HealthHook::run(AgentInterface::CheckHealth::Reason reason) {
    require(!is_running_, "one health check at a time");
    is_running_ = true;
    is_late_ = false;
    child_.reset();
    first_line_.clear();
    has_first_line_ = false;
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return answer(
            {Answer::unknown, Failure{system_code(errno), "pipe for its output"}.describe()});
    output_.assign(ends[0]);
    output_.non_blocking(true);
    const auto of_command = std::make_shared<CommandEnds>(
        CommandEnds{Descriptor{::open("/dev/null", O_RDONLY | O_CLOEXEC)}, Descriptor{ends[1]}});

    SpawnSpec spec;
    spec.program = "/bin/sh";
    spec.arguments = {"/bin/sh", "-c", config_.health_check};
    auto environment = config_.worker.environment;
    environment["DDPRUN_HEALTH_REASON"] = name_of(reason);
    for (const auto& [name, value] : environment)
        spec.environment.push_back(name + "=" + value);
    spec.start = start_;
    spec.standard_input = of_command->input.get();
    spec.standard_output = of_command->output.get();
    limit_time(*config_.join.settings.health_timeout);
    if (!spawner_) spawner_.emplace(io_);
    spawner_->start(
        {std::move(spec)}, [this, of_command, number = ++number_](const Spawner::Outcome& outcome) {
            on_spawned(number, outcome);
        });
}

/// A process that does not end in time is killed. If SIGKILL does not end it, it hangs in the
/// kernel, often in a device that the workers would use.
void HealthHook::limit_time(Duration limit) {
    timer_.expires_after(limit);
    timer_.async_wait([this, limit](const boost::system::error_code& ec) {
        if (ec || !is_running_) return;
        is_late_ = true;
        kill();
        timer_.expires_after(limits::health_kill_timeout);
        timer_.async_wait([this, limit](const boost::system::error_code& late_ec) {
            if (late_ec || !is_running_) return;
            const auto since = "no answer within " + seconds_text(limit);
            if (!child_) return answer({Answer::unknown, since + ": it was not even started"});
            answer({Answer::unfit, "its health check hangs and cannot be killed"});
        });
    });
}

void HealthHook::on_spawned(int number, const Spawner::Outcome& outcome) {
    const bool is_waited_for = is_running_ && number == number_;
    if (!outcome.pid) {
        if (is_waited_for) answer({Answer::not_run, outcome.pid.error().describe()});
        return;
    }
    if (!is_waited_for) {
        ::kill(*outcome.pid, SIGKILL);
        return;
    }
    auto child = Child::watch(io_, *outcome.pid, [this, number](const WorkerExit& exit) {
        if (is_running_ && number == number_) on_exited(exit);
    });
    if (!child) {
        ::kill(*outcome.pid, SIGKILL);
        return answer({Answer::unknown, child.error().describe()});
    }
    child_ = std::move(*child);
    if (is_late_) return kill();
    read();
}

void HealthHook::on_exited(const WorkerExit& exit) {
    take_output();
    if (!is_late_) return answer(health_answer(exit, first_line_));
    const auto limit = *config_.join.settings.health_timeout;
    answer({Answer::unknown, "no answer within " + seconds_text(limit)});
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

/// Reads the available output, up to a bound. Only the first line is kept; the rest is read so that
/// the command does not block.
void HealthHook::take_output() {
    // Bounded: the command may write without end, and other work waits for this thread.
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
    if (child_) child_->kill_session();
}

}  // namespace ddprun::agent
