// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_hosts.hpp"

#include "agent/output/writer.hpp"
#include "agent/report/failure_summary.hpp"
#include "agent/report/job_report.hpp"
#include "agent/report/report_json.hpp"
#include "agent/runner/replace_file.hpp"
#include "launcher/host_connection.hpp"
#include "launcher/program_lines.hpp"
#include "launcher/resolve/etcd_options.hpp"
#include "launcher/resolve/security_options.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/wall_time.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/tls/sha256.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

namespace ddprun::launcher {
namespace {

/// Programs that ssh starts (ProxyCommand) must get neither the job's secret nor a password.
Environment environment_of_ssh(Environment environment) {
    environment.erase(secret_variable);
    environment.erase(etcd_password_variable);
    return environment;
}

std::vector<std::string> entries_of(const Environment& environment) {
    std::vector<std::string> entries;
    for (const auto& [name, value] : environment)
        entries.push_back(name + "=" + value);
    return entries;
}

/// The interpreter that this machine would choose; empty when it has no Python or no such script.
std::string python_here(const Options& options, const SystemInfo& system) {
    if (options.has_flag("no-python") || options.find("python")) return {};
    CommandRequest request;
    request.words = options.command;
    request.is_module = true;  // the script need not exist on this machine
    request.own_path = system.own_path;
    request.own_target = system.own_target;
    const auto command = find_worker_command(request, system.environment, system.look_at);
    return command ? command->program : std::string{};
}

std::string machine_name() {
    utsname names{};
    return ::uname(&names) == 0 ? names.machine : "";
}

std::string current_folder() {
    std::error_code ignored;
    return std::filesystem::current_path(ignored).string();
}

class HostsRunner {
public:
    HostsRunner(
        const HostJob& job,
        const SystemInfo& system,
        const std::string& ssh,
        const agent::InheritedState& start);

    int run();

private:
    void catch_signals(const agent::InheritedState& start);
    void await_signal();
    void await_child();
    void perform(FanOut::Effect& effect);
    void connect(int host);
    void start_nodes(const std::vector<int>& hosts);
    void start_here(int host, const std::vector<std::string>& arguments);
    std::string first_address(int host);
    void finish(const FanOut::Finish& end);
    void write_report_file(const std::string& json);
    std::shared_ptr<const std::string> question();
    HostConnection& at(int host) { return *connections_[static_cast<std::size_t>(host)]; }
    const HostJob::Place& place(int host) const {
        return job_.places[static_cast<std::size_t>(host)];
    }

    const HostJob& job_;
    const SystemInfo& system_;
    const std::string& ssh_;
    const std::optional<rlimit> descriptor_limit_;
    boost::asio::io_context io_{1};
    boost::asio::signal_set signals_{io_};
    boost::asio::signal_set children_{io_, SIGCHLD};
    agent::Writer console_;
    std::vector<std::unique_ptr<HostConnection>> connections_;
    std::unique_ptr<net::Driver<FanOut>> driver_;
    std::shared_ptr<const std::string> program_;
    std::shared_ptr<const std::string> question_;
    std::optional<std::string> ssh_settings_;
    std::map<int, std::string> addresses_;
    int exit_code_ = exit_codes::internal_error;
};

HostsRunner::HostsRunner(
    const HostJob& job,
    const SystemInfo& system,
    const std::string& ssh,
    const agent::InheritedState& start)
    : job_(job),
      system_(system),
      ssh_(ssh),
      descriptor_limit_(start.descriptor_limit),
      console_(io_, [this] {
          for (auto& connection : connections_)
              connection->read_on();
      }) {
    const auto count = static_cast<int>(job.places.size());
    FanOut::Settings settings{
        count, std::min(job.nodes.min, count), job.connect_timeout, job.grace};
    std::vector<std::string> names;
    for (int host = 0; host < count; ++host) {
        names.push_back(place(host).name);
        connections_.push_back(std::make_unique<HostConnection>(
            io_,
            HostConnection::Identity{host, job.token, !place(host).is_here, count == 1},
            HostConnection::Callbacks{
                [this](FanOut::Event event) { driver_->post(std::move(event)); },
                [this](int descriptor, std::string text) {
                    console_.write(descriptor, std::move(text));
                },
                [this] { return console_.is_full(); }}));
    }
    driver_ = std::make_unique<net::Driver<FanOut>>(
        io_, "hosts", FanOut{settings, std::move(names)}, [this](FanOut::Effect& effect) {
            perform(effect);
        });
    catch_signals(start);
}

void HostsRunner::catch_signals(const agent::InheritedState& start) {
    std::signal(SIGPIPE, SIG_IGN);
    auto caught = job_.signals.stopping.value;
    const auto& forwarded = job_.signals.forwarded.value;
    caught.insert(caught.end(), forwarded.begin(), forwarded.end());
    if (const int notice = job_.signals.preemption.value; notice != 0) caught.push_back(notice);
    for (const int signal : caught)
        if (!start.keeps_ignoring(signal)) {
            boost::system::error_code ignored;
            signals_.add(signal, ignored);
        }
    await_signal();
    await_child();
}

void HostsRunner::await_signal() {
    signals_.async_wait([this](const boost::system::error_code& ec, int signal) {
        if (ec) return;
        const auto& forwarded = job_.signals.forwarded.value;
        const bool is_notice = signal == job_.signals.preemption.value;
        if (is_notice || std::find(forwarded.begin(), forwarded.end(), signal) != forwarded.end())
            driver_->post(FanOut::Forwarded{signal});
        else
            driver_->post(FanOut::Signalled{signal});
        await_signal();
    });
}

void HostsRunner::await_child() {
    children_.async_wait([this](const boost::system::error_code& ec, int) {
        if (ec) return;
        for (auto& connection : connections_) {
            int status = 0;
            if (connection->pid() > 0 &&
                ::waitpid(connection->pid(), &status, WNOHANG) == connection->pid())
                connection->reaped(status);
        }
        await_child();
    });
}

int HostsRunner::run() {
    driver_->post(FanOut::Began{});
    io_.run();
    return exit_code_;
}

void HostsRunner::perform(FanOut::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const FanOut::Connect& e) { connect(e.host); },
            [&](const FanOut::SendProgram& e) { at(e.host).send(program_); },
            [&](const FanOut::Start& e) { start_nodes(e.hosts); },
            [&](const FanOut::SendSignal& e) {
                at(e.host).send(std::make_shared<std::string>(1, static_cast<char>(e.signal)));
            },
            [&](const FanOut::Kill& e) { at(e.host).kill(); },
            [&](const FanOut::NoteFailed& e) {
                log::error("host.failed", {{"name", place(e.host).name}, {"reason", e.reason}});
            },
            [&](const FanOut::Finish& e) { finish(e); },
        },
        effect);
}

void HostsRunner::connect(int host) {
    if (place(host).is_here) return driver_->post(FanOut::Readied{host});
    const auto asked = question();
    if (!ssh_settings_) ssh_settings_ = output_of({ssh_, "-G", "--", place(host).name});
    const HostCommand command{
        ssh_,
        ssh_arguments(place(host).name, job_.connect_timeout, *ssh_settings_),
        entries_of(environment_of_ssh(system_.environment)),
        descriptor_limit_};
    if (const int error = at(host).start(command); error != 0)
        return driver_->post(FanOut::Refused{host, ssh_ + ": " + system_code(error).message()});
    at(host).send(asked);
}

/// The same for every host. Made before the first connection: later it would compete with the
/// encryption of all connections.
std::shared_ptr<const std::string> HostsRunner::question() {
    if (question_) return question_;
    std::ifstream file("/proc/self/exe", std::ios::binary);
    std::ostringstream program;
    program << file.rdbuf();
    program_ = std::make_shared<const std::string>(std::move(program).str());
    question_ = std::make_shared<const std::string>(question_script(
        {job_.token, current_folder(), tls::sha256_hex(*program_), program_->size(), machine_name()}));
    return question_;
}

/// In the user's ssh settings a host may have another name than in the network.
std::string HostsRunner::first_address(int host) {
    auto& address = addresses_[host];
    if (address.empty())
        address = address_of(
            place(host).name,
            place(host).is_here ? "" : output_of({ssh_, "-G", "--", place(host).name}));
    return address;
}

void HostsRunner::start_nodes(const std::vector<int>& hosts) {
    const auto address = first_address(hosts.front());
    const auto topology = job_.options.find("topology").value_or(Given{});
    auto environment = environment_for_hosts(system_.environment, topology.text);
    environment[host_link_variable] = describe(HostLink{job_.token, job_.report.has_colour});
    const auto python = python_here(job_.options, system_);
    const auto count = static_cast<int>(hosts.size());
    for (int node = 0; node < count; ++node) {
        const int host = hosts[static_cast<std::size_t>(node)];
        const auto arguments = node_arguments(job_, host, node, count, address);
        at(host).begin_node();
        if (place(host).is_here)
            start_here(host, arguments);
        else
            at(host).send(std::make_shared<std::string>(
                start_script(job_.token, environment, python, arguments)));
    }
}

/// Starts the same program on this machine, with all of its environment.
void HostsRunner::start_here(int host, const std::vector<std::string>& arguments) {
    auto environment = system_.environment;
    std::erase_if(environment, [](const auto& entry) {
        return entry.first.starts_with("PET_") || entry.first.starts_with("SLURM_");
    });
    environment[host_link_variable] = describe(HostLink{job_.token, job_.report.has_colour});
    HostCommand command{system_.own_path, {"ddprun"}, entries_of(environment), descriptor_limit_};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    if (const int error = at(host).start(command); error != 0)
        driver_->post(FanOut::Ended{
            host,
            {std::nullopt,
             exit_codes::internal_error,
             false,
             system_.own_path + ": " + system_code(error).message()}});
}

void HostsRunner::finish(const FanOut::Finish& end) {
    exit_code_ = end.exit_code;
    if (end.reporter) {
        const auto& report = *driver_->machine().end_of(*end.reporter)->report;
        console_.write(STDERR_FILENO, report.screen);
        write_report_file(report.json);
        return io_.stop();
    }
    agent::JobReport report;
    if (exit_code_ != exit_codes::success)
        report.outcome = end.is_cancelled ? control::Outcome::cancelled : control::Outcome::failed;
    if (job_.has_torchrun_exit_code) exit_code_ = exit_codes::as_torchrun(exit_code_);
    report.exit_code = exit_code_;
    report.reason = end.reason;
    report.run_id = job_.run_id;
    report.host = system_.host_name;
    report.program = job_.options.command.front();
    const auto json = agent::report_json(report, utc_time());
    console_.write(
        STDERR_FILENO,
        job_.report.format == agent::ReportFormat::json
            ? json
            : agent::failure_summary(report, job_.report.has_colour));
    write_report_file(json);
    io_.stop();
}

void HostsRunner::write_report_file(const std::string& json) {
    if (job_.report.file.empty()) return;
    if (const int problem = agent::replace_file(job_.report.file, json))
        log::warning(
            "report.not_written",
            {{"path", job_.report.file}, {"reason", system_code(problem).message()}});
}

}  // namespace

int run_hosts(
    const HostJob& job,
    const SystemInfo& system,
    const std::string& ssh,
    const agent::InheritedState& start) {
    net::prepare_descriptors();
    HostsRunner runner(job, system, ssh, start);
    return runner.run();
}

}  // namespace ddprun::launcher
