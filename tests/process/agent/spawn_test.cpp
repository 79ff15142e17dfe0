// SPDX-License-Identifier: Apache-2.0
#include "agent/process/spawn.hpp"

#include "agent/process/read_topology.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "tests/process/support/pipe.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

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

WorkerExit wait_for(pid_t pid) {
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WorkerExit::from_wait_status(status);
}

/// Runs it to its end and returns what it wrote to stdout.
std::string output_of(SpawnSpec spec) {
    Pipe pipe;
    spec.standard_output = pipe.write_end();
    const auto pid = spawn(spec);
    REQUIRE(pid.has_value());
    pipe.close_write_end();
    auto text = pipe.read_all();
    CHECK(wait_for(*pid).is_success());
    return text;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

bool has_no_child() {
    return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

void take_signal(int) {}

}  // namespace

TEST_CASE("every exit code and every deadly signal arrives as it was") {
    for (int code = 0; code < 256; ++code) {
        const auto pid = spawn(spec_for(stub("exit_with"), {std::to_string(code)}));
        REQUIRE(pid.has_value());
        CHECK(wait_for(*pid) == WorkerExit(WorkerExit::Exited{code}));
    }

    rlimit no_core{0, 0};
    rlimit before{};
    ::getrlimit(RLIMIT_CORE, &before);
    no_core.rlim_max = before.rlim_max;
    ::setrlimit(RLIMIT_CORE, &no_core);
    const std::array harmless{
        SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
        if (std::find(harmless.begin(), harmless.end(), signal) != harmless.end()) continue;
        if (signal > SIGSYS && signal < SIGRTMIN) continue;  // the C library's own
        const auto pid = spawn(spec_for(stub("exit_with"), {"signal", std::to_string(signal)}));
        REQUIRE(pid.has_value());
        CHECK(wait_for(*pid) == WorkerExit(WorkerExit::Killed{signal, false}));
    }
    ::setrlimit(RLIMIT_CORE, &before);
}

TEST_CASE("a worker gets arguments and environment exactly as given") {
    auto spec = spec_for(stub("print_env"), {"[1,2]", "", "two words", "--"});
    spec.environment = {"RANK=3", "EMPTY=", "LINE=a=b"};

    CHECK(
        output_of(spec) == "argument " + spec.program +
                               "\nargument [1,2]\nargument \nargument two words\nargument --\n"
                               "RANK=3\nEMPTY=\nLINE=a=b\n");
}

TEST_CASE("a worker runs on the CPUs it is bound to, and only it") {
    const auto before = allowed_cpus();
    REQUIRE_FALSE(before.empty());
    auto spec = spec_for(stub("print_binding"));
    spec.binding.cpus = {before.back()};
    spec.binding.memory_node = 0;

    const auto text = output_of(spec);

    CAPTURE(text);
    CHECK(contains(text, "cpus " + std::to_string(before.back()) + "\n"));
    // Containers may forbid reading or setting the policy: then it is -1 or 0.
    constexpr int preferred = 1;
    const auto policy = std::stoi(text.substr(text.find("policy ") + 7));
    CHECK((policy == preferred || policy <= 0));
    if (policy == preferred) CHECK(contains(text, "nodes 1\n"));
    CHECK(allowed_cpus() == before);
}

TEST_CASE("a worker that cannot be bound runs all the same, and it is logged") {
    std::vector<std::string> lines;
    log::set_sink([&](std::string line) { lines.push_back(std::move(line)); });
    auto spec = spec_for(stub("print_binding"));
    spec.binding.cpus = {limits::max_cpu_number};

    const auto text = output_of(spec);
    log::set_sink(nullptr);

    CHECK(contains(text, "cpus " + std::to_string(allowed_cpus().front())));
    REQUIRE(lines.size() == 1);
    CHECK(contains(lines.front(), "worker.not_bound"));
    CHECK(contains(lines.front(), "bind to CPUs 65535: Invalid argument"));
}

TEST_CASE("a worker leads a session of its own and dies with the thread that started it") {
    auto spec = spec_for(stub("print_state"));
    Pipe pipe;
    spec.standard_output = pipe.write_end();

    const auto pid = spawn(spec);
    REQUIRE(pid.has_value());
    pipe.close_write_end();
    const auto state = pipe.read_all();
    wait_for(*pid);

    const auto number = std::to_string(*pid);
    CHECK(contains(state, "pid " + number + "\nsession " + number + "\ngroup " + number + "\n"));
    CHECK(contains(state, "death signal 9\n"));
}

TEST_CASE("a worker begins in our directory with the mask, dispositions and limits it is given") {
    auto spec = spec_for(stub("print_state"));
    sigaddset(&spec.start.mask, SIGUSR2);
    sigaddset(&spec.start.ignored, SIGHUP);
    spec.start.descriptor_limit = rlimit{77, 777};

    // Workers must not see the agent's own settings.
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGINT, take_signal);
    const auto mask = ::umask(027);
    const auto state = output_of(spec);
    ::umask(mask);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);

    CHECK(contains(state, "blocked: 12\n"));
    CHECK(contains(state, "ignored: 1\n"));
    CHECK(contains(state, "umask 27\n"));
    CHECK(contains(state, "directory " + std::filesystem::current_path().string() + "\n"));
    CHECK(contains(state, "descriptors 77\n"));
}

TEST_CASE("what a process was started with is captured and given back") {
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    auto spec = spec_for(stub("print_state"));
    spec.start = InheritedState::capture();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);

    const auto state = output_of(spec);

    CHECK(contains(state, "blocked: 10\n"));
    CHECK(contains(state, "ignored: 13\n"));
}

TEST_CASE("a worker sees no descriptor of ours, listening sockets and low numbers included") {
    boost::asio::io_context io;
    using Tcp = boost::asio::ip::tcp;
    const Tcp::acceptor low(io, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    Pipe pipe;
    const Tcp::acceptor high(io, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    const int far = ::fcntl(STDERR_FILENO, F_DUPFD, 1000);
    auto spec = spec_for(stub("print_fds"));
    spec.standard_output = pipe.write_end();

    const auto pid = spawn(spec);
    pipe.close_write_end();

    CHECK(pipe.read_all() == "0 1 2\n");
    REQUIRE(pid.has_value());
    wait_for(*pid);
    ::close(far);
}

TEST_CASE("stdin, stdout and stderr may be any descriptors in any order") {
    TempDir directory;
    const int input = ::open(directory.write("in", "from stdin\n").c_str(), O_RDONLY | O_CLOEXEC);
    Pipe output;
    Pipe errors;
    auto spec = spec_for("/bin/sh", {"-c", "cat; echo to stderr >&2"});
    spec.environment = {"PATH=/usr/bin:/bin"};
    spec.standard_input = input;
    spec.standard_output = output.write_end();
    spec.standard_error = errors.write_end();
    SUBCASE("as they come") {}
    SUBCASE("where the numbers cross") {
        // Puts the three descriptors at 0, 1 and 2, each at the number of another one.
        const std::array saved{::dup(0), ::dup(1), ::dup(2)};
        ::dup2(output.write_end(), 0);
        ::dup2(errors.write_end(), 1);
        ::dup2(input, 2);
        spec.standard_input = 2;
        spec.standard_output = 0;
        spec.standard_error = 1;
        const auto pid = spawn(spec);
        for (int number = 0; number < 3; ++number) {
            ::dup2(saved[static_cast<std::size_t>(number)], number);
            ::close(saved[static_cast<std::size_t>(number)]);
        }
        REQUIRE(pid.has_value());
        output.close_write_end();
        errors.close_write_end();
        CHECK(output.read_all() == "from stdin\n");
        CHECK(errors.read_all() == "to stderr\n");
        CHECK(wait_for(*pid).is_success());
        ::close(input);
        return;
    }
    const auto pid = spawn(spec);
    REQUIRE(pid.has_value());
    output.close_write_end();
    errors.close_write_end();
    CHECK(output.read_all() == "from stdin\n");
    CHECK(errors.read_all() == "to stderr\n");
    CHECK(wait_for(*pid).is_success());
    ::close(input);
}

TEST_CASE("a program that cannot be executed is an error that names it, and no zombie") {
    TempDir directory;
    const auto script = directory.write_script("script", "#!/no/such/interpreter\n");

    const auto absent = spawn(spec_for("/no/such/program"));
    const auto forbidden = spawn(spec_for("/etc/passwd"));
    const auto text = spawn(spec_for(directory.write_script("text", "echo no #! line\n")));
    const auto half = spawn(spec_for(script));

    REQUIRE(absent.has_error());
    CHECK(absent.error().describe() == "execute /no/such/program: No such file or directory");
    REQUIRE(forbidden.has_error());
    CHECK(forbidden.error().describe() == "execute /etc/passwd: Permission denied");
    CHECK(is_about_program(forbidden.error()));
    REQUIRE(text.has_error());
    CHECK(text.error().code == system_code(ENOEXEC));
    REQUIRE(half.has_error());
    CHECK(
        half.error().describe() ==
        "execute " + script + " (its interpreter or loader): No such file or directory");
    CHECK(has_no_child());
}

TEST_CASE("a step before exec that fails is an error and not a worker that exits") {
    auto mute = spec_for(stub("exit_with"), {"0"});
    mute.standard_output = 9999;

    errno = 0;
    const auto no_descriptor = spawn(mute);

    REQUIRE(no_descriptor.has_error());
    CHECK(no_descriptor.error().code == system_code(EBADF));
    CHECK_FALSE(is_about_program(no_descriptor.error()));
    CHECK_FALSE(is_about_program(Failure{system_code(EAGAIN), "execute /bin/true"}));
    CHECK(has_no_child());
}

#if !defined(__SANITIZE_THREAD__)  // ThreadSanitizer's _exit writes out every buffer
TEST_CASE("a failed exec neither writes our buffered output twice nor runs our exit handlers") {
    TempDir directory;
    const auto file = (directory / "out").string();
    const auto mark = (directory / "mark").string();
    // In a separate process, since that must exit to show its buffered output.
    std::cout.flush();
    std::fflush(stdout);
    const pid_t pid = ::fork();
    if (pid == 0) {
        std::freopen(file.c_str(), "w", stdout);
        static std::string marker;
        marker = mark;
        std::atexit([] {
            const int descriptor = ::open(marker.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
            [[maybe_unused]] const auto size = ::write(descriptor, "x", 1);
        });
        std::printf("once\n");
        const bool is_refused = spawn(spec_for("/no/such/program")).has_error();
        std::exit(is_refused ? 0 : 1);
    }

    CHECK(wait_for(pid).is_success());

    CHECK(read_file(file) == "once\n");
    CHECK(read_file(mark) == "x");
}
#endif

TEST_CASE("a worker is killed when the thread that started it ends") {
    Result<pid_t> pid{0};
    std::thread([&] { pid = spawn(spec_for(stub("ignore_term"))); }).join();

    REQUIRE(pid.has_value());
    CHECK(wait_for(*pid) == WorkerExit(WorkerExit::Killed{SIGKILL, false}));
}

TEST_CASE("our reactor works on after a program was started, low descriptors free or not") {
    boost::asio::io_context io;
    boost::asio::steady_timer timer(io);
    // The number below the reactor's descriptor is free when the program is started.
    const int free_number = ::dup(STDERR_FILENO);
    boost::asio::io_context reactor;
    boost::asio::ip::tcp::acceptor acceptor(reactor, {boost::asio::ip::address_v4::loopback(), 0});
    ::close(free_number);
    const auto pid = spawn(spec_for(stub("exit_with"), {"0"}));
    REQUIRE(pid.has_value());
    wait_for(*pid);

    boost::asio::ip::tcp::socket client(reactor);
    bool has_connected = false;
    bool has_accepted = false;
    client.async_connect(acceptor.local_endpoint(), [&](const auto& ec) { has_connected = !ec; });
    acceptor.async_accept([&](const auto& ec, auto) { has_accepted = !ec; });
    reactor.run_for(fact_timeout);

    CHECK(has_connected);
    CHECK(has_accepted);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("starting a program copies nothing of a large process") {
    constexpr std::size_t ballast_bytes = std::size_t{256} << 20;
    const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const ballast =
        ::mmap(nullptr, ballast_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(ballast != MAP_FAILED);
    ::madvise(ballast, ballast_bytes, MADV_NOHUGEPAGE);
    std::memset(ballast, 1, ballast_bytes);
    const auto faults_of_writing = [&] {
        rusage before{};
        rusage after{};
        ::getrusage(RUSAGE_THREAD, &before);
        std::memset(ballast, 2, ballast_bytes);
        ::getrusage(RUSAGE_THREAD, &after);
        return static_cast<std::size_t>(after.ru_minflt - before.ru_minflt);
    };

    const auto pid = spawn(spec_for(stub("exit_with"), {"0"}));
    REQUIRE(pid.has_value());
    wait_for(*pid);

    // After a fork the first write to each page is a fault.
    CHECK(faults_of_writing() < ballast_bytes / page_bytes / 10);
    ::munmap(ballast, ballast_bytes);
}
#endif
