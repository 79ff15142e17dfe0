// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/report_frame.hpp"
#include "rendezvous/base/time.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher {

/// Starts one job on many hosts, and ends it. The job begins when every host is ready. If the
/// number of nodes is a range, the job begins when every host is ready or has failed, and enough
/// hosts are ready.
///
///   waiting    --a place is free-->     connecting   Connect
///   connecting --Lacked-->              copying      SendProgram
///   connecting, copying --Readied-->    ready        once no host is before this: Start, or Finish
///   before running --Refused, Ended, too late--> failed   NoteFailed
///   ready      --all are there-->       running
///   running    --Ended-->               ended        the last one: Finish
///
/// Driven by run_hosts, which connects to the hosts by ssh. The node on this machine needs no
/// connection and is ready at once.
class FanOut {
public:
    struct Settings {
        int host_count = 1;
        /// How many ready hosts are enough. If fewer than all are enough, the loss of a host does
        /// not end the job.
        int least = 1;
        Duration connect_timeout{};
        /// The grace of --shutdown-timeout for the workers.
        Duration grace{};
    };

    /// The end of a connection's process, after all its output was read.
    struct HostEnd {
        std::optional<agent::FramedReport> report;
        /// The exit code of ssh, or of ddprun; negative: the signal that killed the process.
        int exit_code = 0;
        bool is_ssh = true;
        /// The last line of the process's standard error; empty if ddprun had been started on the
        /// host. If the process is not ssh and was killed: the signal's name.
        std::string words;

        bool operator==(const HostEnd&) const = default;
    };

    struct Began {};
    /// The host has no copy of the program.
    struct Lacked {
        int host;
    };
    struct Readied {
        int host;
    };
    /// The host answered that it cannot be used.
    struct Refused {
        int host;
        std::string reason;
    };
    struct Ended {
        int host;
        HostEnd end;
    };
    /// A signal that stops the job.
    struct Signalled {
        int signal;
    };
    /// A signal that is only for the workers.
    struct Forwarded {
        int signal;
    };
    struct DeadlinePassed {};
    using Event =
        std::variant<Began, Lacked, Readied, Refused, Ended, Signalled, Forwarded, DeadlinePassed>;

    struct Connect {
        int host;
        bool operator==(const Connect&) const = default;
    };
    struct SendProgram {
        int host;
        bool operator==(const SendProgram&) const = default;
    };
    /// These hosts are the job's nodes, in this order.
    struct Start {
        std::vector<int> hosts;
        bool operator==(const Start&) const = default;
    };
    struct SendSignal {
        int host;
        int signal;
        bool operator==(const SendSignal&) const = default;
    };
    struct Kill {
        int host;
        bool operator==(const Kill&) const = default;
    };
    struct NoteFailed {
        int host;
        std::string reason;
        bool operator==(const NoteFailed&) const = default;
    };
    /// The job is over. Remaining connections are closed.
    struct Finish {
        int exit_code = 0;
        /// The report of this host is the job's report.
        std::optional<int> reporter;
        /// Set when there is no reporter: why the job ended.
        std::string reason;
        bool is_cancelled = false;
        bool operator==(const Finish&) const = default;
    };
    using Effect = std::variant<Connect, SendProgram, Start, SendSignal, Kill, NoteFailed, Finish>;

    enum class State { waiting, connecting, copying, ready, running, ended, failed };

    explicit FanOut(const Settings& settings, std::vector<std::string> names);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    State state_of(int host) const { return at(host).state; }
    const std::optional<HostEnd>& end_of(int host) const { return at(host).end; }

private:
    struct Place {
        std::string name;
        State state = State::waiting;
        /// Set while the host is connecting or copying.
        std::optional<Instant> deadline;
        std::optional<HostEnd> end;
    };

    using Effects = std::vector<Effect>;

    const Place& at(int host) const { return places_[static_cast<std::size_t>(host)]; }
    Place& at(int host) { return places_[static_cast<std::size_t>(host)]; }
    int count_in(State state) const;
    bool is_elastic() const { return settings_.least < settings_.host_count; }
    bool has_begun() const { return !nodes_.empty(); }

    void connect_more(Instant now, Effects& out);
    void become_ready(int host, Instant now, Effects& out);
    void fail(int host, std::string reason, Instant now, Effects& out);
    void begin_when_complete(Effects& out);
    void host_ended(int host, HostEnd end, Instant now, Effects& out);
    void signal_running(int signal, Effects& out) const;
    void stop_running(int signal, Instant now, Effects& out);
    void signalled(int signal, Instant now, Effects& out);
    void pass_deadlines(Instant now, Effects& out);
    void finish(Effects& out);
    std::optional<int> reporter() const;
    std::optional<int> lost_host() const;

    Settings settings_;
    std::vector<Place> places_;
    /// The hosts of the job, once it has begun.
    std::vector<int> nodes_;
    /// The first node that failed.
    std::optional<int> first_failed_;
    /// When the remaining nodes are signalled, because another node has failed.
    std::optional<Instant> stop_at_;
    /// When the connections to signalled nodes that still run are cut.
    std::optional<Instant> kill_at_;
    /// The user has stopped the job.
    bool is_signalled_ = false;
    bool is_finished_ = false;
};

std::string describe(const FanOut::Event& event);
std::string describe(const FanOut::Effect& effect);

}  // namespace ddprun::launcher
