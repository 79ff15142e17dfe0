// SPDX-License-Identifier: Apache-2.0
#include "agent/process/child.hpp"

#include "agent/process/descendants.hpp"
#include "agent/process/spawner.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/pipe.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <future>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

SpawnSpec spec_for(const std::string& path, std::vector<std::string> arguments = {}) {
    SpawnSpec spec;
    spec.program = path;
    spec.arguments = {path};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    return spec;
}

pid_t start(const SpawnSpec& spec) {
    const auto pid = spawn(spec);
    REQUIRE(pid.has_value());
    return *pid;
}

/// Runs the loop until the fact holds.
template <class Fact>
bool run_until(boost::asio::io_context& io, Fact fact) {
    // Outcomes come from another thread, so an idle loop must keep waiting.
    const auto work = boost::asio::make_work_guard(io);
    io.restart();
    const auto deadline = std::chrono::steady_clock::now() + fact_timeout;
    while (!fact() && std::chrono::steady_clock::now() < deadline)
        io.run_one_for(std::chrono::milliseconds{100});
    return fact();
}

/// Starts a stub and returns the number that it prints after its word.
pid_t number_printed_by(SpawnSpec spec, pid_t& started) {
    Pipe pipe;
    spec.standard_output = pipe.write_end();
    started = start(spec);
    std::string line;
    for (char c = 0; ::read(pipe.read_end(), &c, 1) == 1 && c != '\n';)
        line += c;
    return std::stoi(line.substr(line.find(' ')));
}

}  // namespace

TEST_CASE("a child reports every exit code, and 15 is not SIGTERM") {
    boost::asio::io_context io;
    std::vector<Child> children;
    std::vector<std::optional<WorkerExit>> exits(256);
    std::size_t count = 0;
    for (std::size_t code = 0; code < exits.size(); ++code) {
        const auto pid = start(spec_for(stub("exit_with"), {std::to_string(code)}));
        auto child = Child::watch(io, pid, [&, code](const WorkerExit& exit) {
            exits[code] = exit;
            ++count;
        });
        REQUIRE(child.has_value());
        children.push_back(std::move(*child));
    }

    REQUIRE(run_until(io, [&] { return count == exits.size(); }));

    for (std::size_t code = 0; code < exits.size(); ++code)
        CHECK(exits[code] == WorkerExit(WorkerExit::Exited{static_cast<int>(code)}));
    CHECK(children[15].has_exited());
    CHECK_FALSE(children[15].signal_leader(SIGTERM));
}

TEST_CASE("a child reports the signal it died of") {
    boost::asio::io_context io;
    for (const int signal : {SIGTERM, SIGKILL, SIGHUP, SIGINT, SIGUSR1, SIGRTMAX}) {
        std::optional<WorkerExit> exit;
        auto child = Child::watch(
            io, start(spec_for(stub("close_stdout"))), [&](const WorkerExit& e) { exit = e; });
        REQUIRE(child.has_value());

        CHECK(child->signal_leader(signal));

        REQUIRE(run_until(io, [&] { return exit.has_value(); }));
        CHECK(exit == WorkerExit(WorkerExit::Killed{signal, false}));
    }
}

TEST_CASE("a child that ended before it was watched is reported all the same") {
    boost::asio::io_context io;
    const auto pid = start(spec_for(stub("exit_with"), {"3"}));
    REQUIRE(is_gone(pid));

    std::optional<WorkerExit> exit;
    auto child = Child::watch(io, pid, [&](const WorkerExit& e) { exit = e; });

    REQUIRE(child.has_value());
    REQUIRE(run_until(io, [&] { return exit.has_value(); }));
    CHECK(exit == WorkerExit(WorkerExit::Exited{3}));
}

TEST_CASE("a child may be moved while it is waited for") {
    boost::asio::io_context io;
    std::optional<WorkerExit> exit;
    auto watched = Child::watch(
        io, start(spec_for(stub("ignore_term"))), [&](const WorkerExit& e) { exit = e; });
    REQUIRE(watched.has_value());
    std::vector<Child> table;
    table.push_back(std::move(*watched));
    std::vector<Child> elsewhere = std::move(table);

    CHECK(elsewhere.front().signal_leader(SIGKILL));

    REQUIRE(run_until(io, [&] { return exit.has_value(); }));
    CHECK(exit == WorkerExit(WorkerExit::Killed{SIGKILL, false}));
}

TEST_CASE("a wake-up that was meant for another descriptor does not stop the loop") {
    // Asio 1.81 delivers a pending event of a closed descriptor to the descriptor that reuses its
    // number.
    boost::asio::io_context io;
    std::array<Pipe, 2> pipes;
    std::vector<boost::asio::posix::stream_descriptor> ready;
    for (const auto& pipe : pipes)
        ready.emplace_back(io, ::dup(pipe.read_end()));
    const auto pid = start(spec_for(stub("ignore_term")));
    std::optional<WorkerExit> exit;
    std::optional<Child> child;
    for (const std::size_t self : {0U, 1U})
        ready[self].async_wait(
            boost::asio::posix::stream_descriptor::wait_read,
            [&, self](const boost::system::error_code& ec) {
                if (ec) return;
                ready[1 - self].close();
                child.emplace(
                    Child::watch(io, pid, [&](const WorkerExit& e) { exit = e; }).value());
            });
    for (const auto& pipe : pipes)
        REQUIRE(::write(pipe.write_end(), "!", 1) == 1);
    std::promise<void> went_on;
    std::thread rescue([&, future = went_on.get_future()]() mutable {
        if (future.wait_for(fact_timeout) != std::future_status::ready) ::kill(pid, SIGKILL);
    });

    const bool is_watched = run_until(io, [&] { return child.has_value(); });
    io.poll();
    went_on.set_value();
    rescue.join();

    REQUIRE(is_watched);
    CHECK_FALSE(exit.has_value());
    CHECK(child->signal_leader(SIGKILL));
    CHECK(run_until(io, [&] { return exit.has_value(); }));
    CHECK(exit == WorkerExit(WorkerExit::Killed{SIGKILL, false}));
}

TEST_CASE("destroying a child neither kills nor waits nor calls back") {
    boost::asio::io_context io;
    const auto pid = start(spec_for(stub("ignore_term")));
    bool was_called = false;
    {
        auto child = Child::watch(io, pid, [&](const WorkerExit&) { was_called = true; });
        REQUIRE(child.has_value());
        io.poll();
    }
    io.restart();
    io.run();

    CHECK_FALSE(was_called);
    CHECK(::kill(pid, 0) == 0);
    CHECK(::waitpid(pid, nullptr, WNOHANG) == 0);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

TEST_CASE("a session is signalled also when its leader is gone") {
    boost::asio::io_context io;
    pid_t leader = 0;
    const auto member = number_printed_by(spec_for(stub("fork_in_session")), leader);
    std::optional<WorkerExit> exit;
    auto child = Child::watch(io, leader, [&](const WorkerExit& e) { exit = e; });
    REQUIRE(child.has_value());
    REQUIRE(run_until(io, [&] { return exit.has_value(); }));
    REQUIRE(::kill(member, 0) == 0);

    CHECK(child->signal_session(SIGTERM) == 1);

    CHECK(is_gone(member));
    CHECK(child->signal_session(SIGTERM) == 0);
}

TEST_CASE("a session's processes below another session go with it") {
    boost::asio::io_context io;
    pid_t leader = 0;
    const auto runaway = number_printed_by(spec_for(stub("fork_and_leave"), {"stay"}), leader);
    auto child = Child::watch(io, leader, [](const WorkerExit&) {});
    REQUIRE(child.has_value());

    CHECK(child->signal_session(SIGKILL) == 2);

    CHECK(is_gone(runaway));
    CHECK(run_until(io, [&] { return child->has_exited(); }));
}

TEST_CASE("orphans are reaped, watched children are left to their watcher") {
    boost::asio::io_context io;
    pid_t parent = 0;
    const auto orphan = number_printed_by(spec_for(stub("fork_and_leave")), parent);
    std::vector<pid_t> watched{parent};
    OrphanReaper reaper(io, [&] { return watched; });
    std::optional<WorkerExit> exit;
    auto child = Child::watch(io, parent, [&](const WorkerExit& e) { exit = e; });
    REQUIRE(child.has_value());
    REQUIRE(run_until(io, [&] { return exit.has_value(); }));
    watched.clear();

    ::kill(orphan, SIGKILL);

    // Reaped: the number belongs to no process, not even to a zombie.
    CHECK(run_until(io, [&] { return ::kill(orphan, 0) != 0; }));
    CHECK(exit == WorkerExit(WorkerExit::Exited{0}));
}

TEST_CASE("an orphan reaper never takes a worker that ended before its pid was known") {
    boost::asio::io_context io;
    OrphanReaper reaper(io, [] { return std::vector<pid_t>{}; });
    Spawner spawner(io);
    std::vector<Child> children;
    std::size_t count = 0;
    constexpr std::size_t worker_count = 100;

    spawner.start(
        std::vector<SpawnSpec>(worker_count, spec_for(stub("exit_with"), {"7"})),
        [&](const Spawner::Outcome& outcome) {
            REQUIRE(outcome.pid.has_value());
            auto child = Child::watch(io, *outcome.pid, [&](const WorkerExit& exit) {
                CHECK(exit == WorkerExit(WorkerExit::Exited{7}));
                ++count;
            });
            REQUIRE(child.has_value());
            children.push_back(std::move(*child));
        });

    CHECK(run_until(io, [&] { return count == worker_count; }));
}

TEST_CASE("a batch is started in order and every worker has one outcome") {
    boost::asio::io_context io;
    Spawner spawner(io);
    std::vector<int> order;
    std::vector<pid_t> pids;
    int failed = -1;

    spawner.start(
        {spec_for(stub("ignore_term")),
         spec_for("/no/such/program"),
         spec_for(stub("ignore_term"))},
        [&](const Spawner::Outcome& outcome) {
            order.push_back(outcome.index);
            if (outcome.pid)
                pids.push_back(*outcome.pid);
            else
                failed = outcome.index;
        });
    REQUIRE(run_until(io, [&] { return order.size() == 3; }));

    CHECK(order == std::vector<int>{0, 1, 2});
    CHECK(failed == 1);
    CHECK(pids.size() == 2);
    CHECK(kill_descendants(fact_timeout).empty());
}

TEST_CASE("what is to be done before a batch is done when its first program starts") {
    const TempDir dir;
    const auto path = (dir / "done").string();
    boost::asio::io_context io;
    Spawner spawner(io);
    std::optional<Child> child;
    std::optional<WorkerExit> exit;

    spawner.start(
        {spec_for("/usr/bin/test", {"-e", path})},
        [&](const Spawner::Outcome& outcome) {
            REQUIRE(outcome.pid.has_value());
            auto watched =
                Child::watch(io, *outcome.pid, [&](const WorkerExit& how) { exit = how; });
            REQUIRE(watched.has_value());
            child = std::move(*watched);
        },
        [path] { std::ofstream{path}; });

    CHECK(run_until(io, [&] { return exit.has_value(); }));
    CHECK(exit == WorkerExit(WorkerExit::Exited{0}));
}

TEST_CASE("what is cancelled before its turn is not started, and says so") {
    boost::asio::io_context io;
    Spawner spawner(io);
    std::vector<pid_t> started;
    std::size_t cancelled = 0;
    constexpr std::size_t worker_count = 64;

    spawner.start(
        std::vector<SpawnSpec>(worker_count, spec_for(stub("ignore_term"))),
        [&](const Spawner::Outcome& outcome) {
            if (outcome.pid)
                started.push_back(*outcome.pid);
            else if (outcome.pid.error().code == boost::asio::error::operation_aborted)
                ++cancelled;
            if (started.size() == 1) spawner.cancel();
        });
    REQUIRE(run_until(io, [&] { return started.size() + cancelled == worker_count; }));
    const auto cancelled_of_first = cancelled;
    spawner.start({spec_for(stub("ignore_term"))}, [&](const Spawner::Outcome& outcome) {
        if (outcome.pid) started.push_back(*outcome.pid);
    });

    // The next batch is not affected.
    CHECK(run_until(io, [&] { return started.size() + cancelled_of_first == worker_count + 1; }));
    CHECK(kill_descendants(fact_timeout).empty());
}

TEST_CASE("workers live as long as the spawner that started them, and no longer") {
    boost::asio::io_context io;
    std::vector<pid_t> pids;
    {
        Spawner spawner(io);
        spawner.start({spec_for(stub("ignore_term"))}, [&](const Spawner::Outcome& outcome) {
            if (outcome.pid) pids.push_back(*outcome.pid);
        });
        REQUIRE(run_until(io, [&] { return pids.size() == 1; }));
        CHECK(::waitpid(pids[0], nullptr, WNOHANG) == 0);
    }

    CHECK(is_gone(pids[0]));
    ::waitpid(pids[0], nullptr, 0);
}
