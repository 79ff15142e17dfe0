// SPDX-License-Identifier: Apache-2.0
// Samples of real processes: every Python that is found, and a program without one.
#include "agent/health/sampler.hpp"

#include "agent/health/classify.hpp"
#include "agent/health/find_python.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/net/tcp.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::health;
using namespace ddprun::test;
using control::Activity;

namespace {

constexpr const char* program_text = R"(import os, socket, sys, threading, time
def sleep():
    time.sleep(1000)
def spin():
    number = 0
    while True:
        number += 1
def lock():
    held = threading.Lock()
    held.acquire()
    held.acquire()
def pipe():
    ends = os.pipe()
    os.read(ends[0], 1)
def store():
    port = int(os.environ["MASTER_PORT"])
    socket.create_connection(("127.0.0.1", port)).recv(1)
def join():
    other = threading.Thread(target=sleep)
    other.start()
    other.join()
class Worker:
    def work(self):
        globals()[sys.argv[1]]()
def main():
    def inner():
        Worker().work()
    print("up", flush=True)
    inner()
main()
)";

struct Python {
    std::string path;
    /// 312
    int version = 0;
};

/// Adds each interpreter once, although it has several names.
void add_python(const std::string& path, std::vector<Python>& found) {
    if (::access(path.c_str(), X_OK) != 0) return;
    Running asked(path, {"-c", "import sys; print(*sys.version_info[:2], sys._base_executable)"});
    std::string line;
    try {
        line = asked.wait_for_line("^3 ");
    } catch (const std::exception&) {
        return;  // a name of pyenv for a version that is not selected
    }
    const auto name = line.substr(line.find('/'));
    std::error_code error;
    const auto real = std::filesystem::canonical(name, error).string();
    const bool is_known = std::any_of(
        found.begin(), found.end(), [&](const Python& each) { return each.path == real; });
    if (!error && !is_known) found.push_back({real, 300 + std::atoi(line.c_str() + 2)});
}

/// The interpreters on PATH, and the one of the tests with PyTorch.
std::vector<Python> find_pythons() {
    std::vector<Python> found;
    const char* const path = std::getenv("PATH");
    std::string folders = path != nullptr ? path : "/usr/bin";
    while (!folders.empty()) {
        const auto folder = folders.substr(0, folders.find(':'));
        folders.erase(0, folder.size() + 1);
        for (const char* name : {"python3", "python3.11", "python3.12", "python3.13", "python3.14"})
            add_python(folder + "/" + name, found);
    }
    if (const char* const torch = std::getenv("DDPRUN_TORCH_PYTHON")) add_python(torch, found);
    return found;
}

const std::vector<Python>& pythons() {
    static const auto found = find_pythons();
    return found;
}

bool is_readable(const Python& python) {
    return python.version >= 311 && python.version <= 314;
}

Running start(const Python& python, const std::string& what, std::string port = "1") {
    Running::Options options;
    options.arguments = {"-c", program_text, what};
    options.environment = {{"MASTER_PORT", std::move(port)}};
    Running worker(python.path, options);
    worker.wait_for_line("up");
    return worker;
}

Site watch(int pid) {
    const auto before = take_sample(pid);
    const auto began_at = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    return classify(before, take_sample(pid), Clock::now() - began_at);
}

/// A process needs time to reach its place, and on a busy machine its use of the processor varies.
bool is_seen(int pid, Activity activity, const std::string& site) {
    Site last;
    const bool is_there = holds_within(fact_timeout, [&] {
        last = watch(pid);
        return last.activity == activity && last.site == site;
    });
    INFO("last: ", static_cast<int>(last.activity), " at ", last.site, "; ", last.detail);
    CHECK(is_there);
    return is_there;
}

/// Includes its descendants.
void end_session_of(int pid) {
    ::kill(-pid, SIGKILL);
    CHECK(no_descendants_left());
}

const PythonThread* main_thread(const Sample& sample) {
    for (const auto& thread : sample.threads)
        if (thread.tid == sample.pid) return &thread;
    return nullptr;
}

/// The expected stack of the program above, in `function` at this line.
std::vector<PythonFrame> stack_of(const std::string& function, int line) {
    const std::string file = "<string>";
    return {
        {function, file, line},
        {"Worker.work", file, 24},
        {"inner", file, 27},
        {"main", file, 29},
        {"<module>", file, 30}};
}

ReadMemory memory_of(int pid) {
    return [pid](std::uint64_t address, std::span<std::byte> into) {
        const iovec local{into.data(), into.size()};
        const iovec remote{reinterpret_cast<void*>(address), into.size()};
        return ::process_vm_readv(pid, &local, 1, &remote, 1, 0) ==
               static_cast<ssize_t>(into.size());
    };
}

std::string maps_of(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the stack of every Python is read with its lines") {
    for (const auto& python : pythons()) {
        CAPTURE(python.path);
        auto worker = start(python, "lock");
        if (!is_readable(python)) {
            CHECK_FALSE(take_sample(worker.pid()).no_frames.empty());
            continue;
        }
        std::vector<PythonFrame> seen;
        const bool is_complete = holds_within(fact_timeout, [&] {
            const auto sample = take_sample(worker.pid());
            const auto* const thread = main_thread(sample);
            if (thread != nullptr) seen = thread->frames;
            return seen == stack_of("lock", 11);
        });
        CHECK(is_complete);
        CHECK(seen == stack_of("lock", 11));
    }
}

TEST_CASE("what a worker in Python does is seen from outside") {
    for (const auto& python : pythons()) {
        if (!is_readable(python)) continue;
        CAPTURE(python.path);
        is_seen(start(python, "sleep").pid(), Activity::blocked, "sleep (<string>:3)");
        is_seen(start(python, "lock").pid(), Activity::blocked, "lock (<string>:11)");
        is_seen(start(python, "join").pid(), Activity::blocked, "sleep (<string>:3)");

        const auto reads = start(python, "pipe");
        is_seen(reads.pid(), Activity::blocked, "pipe (<string>:14)");
        CHECK(watch(reads.pid()).detail.find("read(2) on pipe:[") != std::string::npos);

        // 3.14 records its position only before operations that may call other code: a loop without
        // such operations has one position.
        const auto spins = start(python, "spin");
        CHECK(holds_within(fact_timeout, [&] {
            const auto activity = watch(spins.pid()).activity;
            return activity == Activity::moving ||
                   (python.version >= 314 && activity == Activity::busy);
        }));
        spins.signal(SIGSTOP);
        CHECK(holds_within(fact_timeout, [&] {
            const auto site = watch(spins.pid());
            return site.activity == Activity::stopped && site.site.starts_with("spin (<string>:");
        }));
        spins.signal(SIGCONT);
    }
}

TEST_CASE("a worker that waits at the round's store is seen to, in any function") {
    boost::asio::io_context io;
    auto acceptor = net::listen(io, "127.0.0.1", 0).value();
    const auto port = std::to_string(acceptor.local_endpoint().port());
    for (const auto& python : pythons()) {
        if (!is_readable(python)) continue;
        CAPTURE(python.path);
        const auto worker = start(python, "store", port);
        is_seen(worker.pid(), Activity::waits_for_store, "store (<string>:17)");
        CHECK(
            watch(worker.pid()).detail.find("recvfrom(2) on socket to 127.0.0.1:" + port) !=
            std::string::npos);
    }
}

TEST_CASE("a program without Python is seen by its system call") {
    Running sleeps("/bin/sh", {"-c", "echo up; exec sleep 1000"});
    sleeps.wait_for_line("up");
    is_seen(sleeps.pid(), Activity::blocked, "clock_nanosleep(2)");
    CHECK(take_sample(sleeps.pid()).no_frames == "no Python interpreter");

    Running spins("/bin/sh", {"-c", "echo up; while :; do :; done"});
    spins.wait_for_line("up");
    CHECK(
        holds_within(fact_timeout, [&] { return watch(spins.pid()).activity == Activity::busy; }));
}

TEST_CASE("several processes are sampled at once, each as if alone") {
    Running a("/bin/sh", {"-c", "echo up; exec sleep 1000"});
    Running b("/bin/sh", {"-c", "echo up; exec sleep 1000"});
    a.wait_for_line("up");
    b.wait_for_line("up");
    CHECK(holds_within(fact_timeout, [&] {
        const auto samples = take_samples({b.pid(), 0, a.pid()});
        return samples.size() == 3 && samples[0] == take_sample(b.pid()) &&
               samples[1] == Sample{} && samples[2] == take_sample(a.pid()) &&
               samples[2].system_call == "clock_nanosleep(2)";
    }));
    CHECK(take_samples({}).empty());
}

TEST_CASE("a process that no signal interrupts is seen in the kernel") {
    Running worker(stub("wait_in_kernel"));
    worker.wait_for_line("waiting");
    CHECK(holds_within(fact_timeout, [&] {
        const auto site = watch(worker.pid());
        return site.activity == Activity::in_kernel &&
               site.detail.find("state D") != std::string::npos;
    }));
    end_session_of(worker.pid());
}

TEST_CASE("what the processes below a worker use is its own") {
    Running worker("/bin/sh", {"-c", "sh -c 'while :; do :; done' & echo up; wait"});
    worker.wait_for_line("up");
    CHECK(
        holds_within(fact_timeout, [&] { return watch(worker.pid()).activity == Activity::busy; }));
    end_session_of(worker.pid());
}

TEST_CASE("a process that is gone, and none at all, have an empty sample") {
    Running worker("/bin/true");
    worker.wait_for_exit();
    for (const int pid : {static_cast<int>(worker.pid()), 0, -1}) {
        Sample empty;
        empty.pid = pid;
        CHECK(take_sample(pid) == empty);
    }
}

TEST_CASE("memory of an interpreter that is damaged anywhere is a value or a reason") {
    constexpr int damages = 2'000;
    for (const auto& python : pythons()) {
        if (!is_readable(python)) continue;
        CAPTURE(python.path);
        const auto worker = start(python, "join");
        CHECK(holds_within(
            fact_timeout, [&] { return take_sample(worker.pid()).threads.size() == 2; }));
        // All memory that one reading requests.
        std::map<std::pair<std::uint64_t, std::size_t>, std::vector<std::byte>> memory;
        const auto live = memory_of(worker.pid());
        const ReadMemory recording = [&](std::uint64_t address, std::span<std::byte> into) {
            if (!live(address, into)) return false;
            memory[{address, into.size()}].assign(into.begin(), into.end());
            return true;
        };
        const auto maps = maps_of(worker.pid());
        const auto read_all = [&](const ReadMemory& read) {
            const auto found = find_python(maps, read);
            return found.interpreter ? read_python_threads(*found.interpreter, read)
                                     : PythonThreads{{}, found.why_not};
        };
        REQUIRE(read_all(recording).threads.size() == 2);

        std::mt19937 random(11);  // NOLINT: the same damage every time
        std::size_t reads = 0;
        const ReadMemory damaged = [&](std::uint64_t address, std::span<std::byte> into) {
            ++reads;
            const auto known = memory.find({address, into.size()});
            if (known == memory.end()) return live(address, into);
            std::copy(known->second.begin(), known->second.end(), into.begin());
            if (random() % 64 == 0)
                into[random() % into.size()] ^= static_cast<std::byte>(1 + random() % 255);
            return true;
        };
        for (int i = 0; i < damages; ++i) {
            reads = 0;
            const auto all = read_all(damaged);
            CHECK(all.threads.empty() == !all.why_not.empty());
            CHECK(reads < 100'000);
        }
    }
}
