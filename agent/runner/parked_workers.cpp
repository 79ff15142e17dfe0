// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/parked_workers.hpp"

#include "agent/process/hand_over.hpp"
#include "rendezvous/base/descriptor.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::agent {
namespace {

std::string in_mib(std::uint64_t bytes) {
    return std::to_string(bytes >> 20U) + " MiB";
}

}  // namespace

/// One parked process. The pending reads keep this object: threads or processes that an import left
/// running can still write.
struct ParkedWorkers::Process {
    explicit Process(boost::asio::io_context& io) : gate(io), output(io) {}

    boost::asio::posix::stream_descriptor gate;
    boost::asio::posix::stream_descriptor output;
    std::array<char, limits::max_parking_report_bytes> chunk{};
    std::array<char, limits::max_parking_report_bytes> report_chunk{};
    std::string report;
    /// The last part of the process's output.
    std::string tail;
    std::optional<Child> child;
    /// Set if the process ended before `settle`.
    std::optional<WorkerExit> exit;
    std::shared_ptr<OnExit> on_exit = std::make_shared<OnExit>();
};

ParkedWorkers::ParkedWorkers(
    boost::asio::io_context& io, Spawner& spawner, int count, SpecOf spec_of)
    : io_(io),
      spawner_(spawner),
      spec_of_(std::move(spec_of)),
      processes_(static_cast<std::size_t>(count)),
      machine_(io, "parked", Parked{count}, [this](Parked::Effect& effect) { perform(effect); }) {}

void ParkedWorkers::perform(Parked::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const Parked::Start& e) { start(e.local_rank); },
            [&](const Parked::Kill& e) {
                const auto& process = processes_.at(static_cast<std::size_t>(e.local_rank));
                if (!process || !process->child) return;
                process->child->kill_session();
            },
            [](const Parked::HandOver&) {},
            [](const Parked::NoteParked& e) {
                log::info(
                    "workers.parked",
                    {{"count", e.count},
                     {"memory", in_mib(e.bytes)},
                     {"effect", "they shorten a restart"}});
            },
            [](const Parked::NoteOff& e) {
                log::warning(
                    "workers.not_parked",
                    {{"reason", e.reason},
                     {"effect", "a restart takes as long as without --warm"}});
            },
        },
        effect);
}

void ParkedWorkers::start(int local_rank) {
    auto process = std::make_shared<Process>(io_);
    processes_.at(static_cast<std::size_t>(local_rank)) = process;
    std::array<int, 2> gate{-1, -1};
    std::array<int, 2> output{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate.data()) == 0)
        process->gate.assign(gate[0]);
    if (::pipe2(output.data(), O_CLOEXEC) == 0) process->output.assign(output[0]);
    auto spec = spec_of_(local_rank);
    spec.standard_input = gate[1];
    spec.standard_output = spec.standard_error = output[1];
    // Kept open until the outcome of the start is known.
    const auto its_ends = std::make_shared<std::array<Descriptor, 2>>(
        std::array{Descriptor{gate[1]}, Descriptor{output[1]}});
    if (output[1] < 0 || !send_texts(gate[0], identity_variables(), {}))
        return machine_.post(Parked::Ended{local_rank, "no memory or descriptor for it"});
    std::vector<SpawnSpec> batch;
    batch.push_back(std::move(spec));
    spawner_.start(
        std::move(batch), [this, local_rank, process, its_ends](const Spawner::Outcome& outcome) {
            on_spawned(local_rank, process, outcome.pid);
        });
}

void ParkedWorkers::on_spawned(int local_rank, const Held& process, const Result<pid_t>& pid) {
    if (!pid) {
        const bool is_cancelled = pid.error().code == boost::asio::error::operation_aborted;
        return machine_.post(Parked::Ended{local_rank, is_cancelled ? "" : pid.error().describe()});
    }
    *process->on_exit = [this, local_rank, process](const WorkerExit& exit) {
        if (!is_current(local_rank, process)) return;
        process->exit = exit;
        machine_.post(Parked::Ended{
            local_rank,
            "it ended while it imported or waited (" + exit.describe() + ")" +
                (process->tail.empty() ? "" : ": " + printable(process->tail))});
    };
    auto child = Child::watch(io_, *pid, [on_exit = process->on_exit](WorkerExit exit) {
        // Moved out first, since the callback may own the object that holds it.
        const auto call = std::exchange(*on_exit, nullptr);
        if (call) call(std::move(exit));
    });
    if (!child) {
        ::kill(*pid, SIGKILL);
        return machine_.post(Parked::Ended{local_rank, child.error().describe()});
    }
    process->child = std::move(*child);
    if (machine_.machine().state(local_rank) != Parked::State::importing)
        process->child->signal_leader(SIGKILL);
    read_report(local_rank, process);
    read_output(process);
}

void ParkedWorkers::read_report(int local_rank, const Held& process) {
    process->gate.async_read_some(
        boost::asio::buffer(process->report_chunk),
        [this, local_rank, process](const boost::system::error_code& ec, std::size_t size) {
            // The end of the process is reported by its exit, not here.
            if (ec) return;
            process->report.append(process->report_chunk.data(), size);
            if (process->report.ends_with('\n')) return on_report(local_rank, process);
            if (process->report.size() < limits::max_parking_report_bytes)
                read_report(local_rank, process);
        });
}

void ParkedWorkers::on_report(int local_rank, const Held& process) {
    constexpr std::string_view ready = "parked ";
    constexpr std::string_view unfit = "unfit ";
    if (!is_current(local_rank, process)) return;
    std::string_view line = process->report;
    line.remove_suffix(1);
    if (line.starts_with(ready)) {
        const auto bytes = whole_number<std::uint64_t>(line.substr(ready.size()));
        return machine_.post(Parked::Ready{local_rank, bytes.value_or(0)});
    }
    if (line.starts_with(unfit)) line.remove_prefix(unfit.size());
    machine_.post(Parked::Unfit{local_rank, printable(line)});
}

void ParkedWorkers::read_output(const Held& process) {
    process->output.async_read_some(
        boost::asio::buffer(process->chunk),
        [this, process](const boost::system::error_code& ec, std::size_t size) {
            if (ec) return;
            auto& tail = process->tail;
            tail.append(process->chunk.data(), size);
            if (tail.size() > limits::max_parking_report_bytes)
                tail.erase(0, tail.size() - limits::max_parking_report_bytes);
            read_output(process);
        });
}

std::optional<SpawnSpec::Parked> ParkedWorkers::take(int local_rank) {
    machine_.post(Parked::TakeRequested{local_rank});
    if (machine_.machine().state(local_rank) != Parked::State::taken) return std::nullopt;
    const auto& process = processes_.at(static_cast<std::size_t>(local_rank));
    if (!process || !process->child) return std::nullopt;
    return SpawnSpec::Parked{process->gate.native_handle(), process->child->pid()};
}

std::optional<Child> ParkedWorkers::settle(int local_rank, pid_t pid, OnExit on_exit) {
    if (machine_.machine().state(local_rank) != Parked::State::taken) return std::nullopt;
    auto& held = processes_.at(static_cast<std::size_t>(local_rank));
    if (!held || !held->child || held->child->pid() != pid) {
        machine_.post(Parked::HandOverFailed{local_rank});
        return std::nullopt;
    }
    const auto process = std::exchange(held, nullptr);
    machine_.post(Parked::HandedOver{local_rank});
    if (process->exit)
        boost::asio::post(io_, [on_exit, exit = *process->exit] { on_exit(exit); });
    else
        *process->on_exit = std::move(on_exit);
    process->gate.close();
    return std::exchange(process->child, std::nullopt);
}

std::vector<pid_t> ParkedWorkers::pids() const {
    std::vector<pid_t> found;
    for (const auto& process : processes_)
        if (process && process->child && !process->child->has_exited())
            found.push_back(process->child->pid());
    return found;
}

bool ParkedWorkers::is_current(int local_rank, const Held& process) const {
    return processes_.at(static_cast<std::size_t>(local_rank)) == process;
}

}  // namespace ddprun::agent
