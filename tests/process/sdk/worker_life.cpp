// SPDX-License-Identifier: Apache-2.0
// A training program's interaction with its launcher: it joins the others, fails, stops, reports
// progress. The first argument selects which.
#include "ddprun/progress.hpp"
#include "ddprun/record.hpp"
#include "ddprun/stop.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace {

/// Rank 0 leaves at once; its store must stay until the others no longer need it.
int join(const std::string& init_method, std::chrono::milliseconds timeout) {
    const auto world = ddprun::World::from(init_method);
    auto store = ddprun::Store::connect(world, timeout);
    store.set("rank" + std::to_string(world.rank), "here");
    if (world.rank > 0)
        for (int rank = 0; rank < world.world_size; ++rank)
            store.get("rank" + std::to_string(rank), 30s);
    std::printf("rank %d of %d joined\n", world.rank, world.world_size);
    std::fflush(stdout);
    // Stays, so that ranks of another run find its store.
    if (::getenv("STAY")) ::pause();
    return 0;
}

/// One Store after the other: a rank may already have its next Store while another has not left its
/// last one.
int join_again(const std::string& init_method, int lives) {
    const auto world = ddprun::World::from(init_method);
    for (int life = 0; life < lives; ++life) {
        auto store = ddprun::Store::connect(world, 30s);
        const auto key = "life" + std::to_string(life);
        if (store.add(key, 1) == world.world_size) store.set(key + "/all", "");
        store.get(key + "/all", 30s);
    }
    std::puts("over");
    return 0;
}

/// Deeper than any stack; volatile, so that the compiler cannot use its value.
volatile int deep_enough = 1'000'000'000;

int overflow(int depth) {
    if (depth >= deep_enough) return 0;
    volatile char room[4096];
    room[0] = static_cast<char>(depth);
    return overflow(depth + 1) + room[0];
}

void note_signal(int) {
    constexpr char text[] = "own handler\n";
    [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, text, sizeof text - 1);
}

/// Each line confirms a phase; an input line lets it continue.
int show_phases() {
    const auto say = [](const char* line) {
        std::puts(line);
        std::fflush(stdout);
        return std::getchar() != EOF;
    };
    ddprun::report_progress(5);
    const ddprun::Phase eval(ddprun::PhaseKind::eval);
    if (!say("step 5, eval")) return 1;
    {
        const ddprun::Phase save(ddprun::PhaseKind::save);
        if (!say("save")) return 1;
    }
    if (!say("eval again")) return 1;
    const auto child = ::fork();
    if (child == 0) {
        ddprun::report_progress(99);
        const ddprun::Phase data(ddprun::PhaseKind::data);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    if (!say("a child has reported")) return 1;
    try {
        const ddprun::Phase compile(ddprun::PhaseKind::compile);
        throw std::runtime_error("in compile");
    } catch (const std::exception& error) {
        return say(error.what()) ? 0 : 1;
    }
}

/// Reads lines "ask 5" and "saved 5" from the input; prints the answer to each question.
int ask_to_save() {
    std::string word;
    std::uint64_t step = 0;
    while (std::cin >> word >> step) {
        if (word == "saved") {
            ddprun::saved(step);
            std::puts("ok");
        } else {
            std::puts(ddprun::should_save(step) ? "yes" : "no");
        }
        std::fflush(stdout);
    }
    return 0;
}

int stop() {
    ::signal(SIGTERM, note_signal);
    if (ddprun::should_stop()) return 3;
    std::puts("training");
    std::fflush(stdout);
    ddprun::StopNotice notice;
    while (!(notice = ddprun::should_stop()))
        std::this_thread::sleep_for(1ms);
    if (notice.deadline == notice.deadline.max()) {
        std::puts("stopping without a deadline");
    } else {
        const auto left = notice.deadline - std::chrono::steady_clock::now();
        const auto seconds = std::chrono::round<std::chrono::seconds>(left).count();
        std::printf("stopping within %d s\n", static_cast<int>(seconds));
    }
    return 0;
}

int report() {
    ddprun::report_progress(41);
    ddprun::report_progress(42);
    std::puts("reported");
    std::fflush(stdout);
    return ::pause();
}

int end_badly(const std::string& how) {
    if (how == "throw") throw std::runtime_error("no data at \"/data\"\nneither here");
    if (how == "throw-peer-lost") throw ddprun::PeerLost("rank 3 is gone");
    if (how == "throw-number") throw 42;
    if (how == "throw-in-thread") std::thread([] { throw std::logic_error("in a thread"); }).join();
    if (how == "segv") ::raise(SIGSEGV);
    if (how == "null") *static_cast<volatile int*>(nullptr) = 1;
    if (how == "abort") std::abort();
    if (how == "overflow") return overflow(0);
    if (how == "exit") return 5;
    return 1;
}

}  // namespace

int main(int count, char** words) {
    const std::string what = count > 1 ? words[1] : "";
    const std::string argument = count > 2 ? words[2] : "";
    if (what == "end-badly") return ddprun::record([&] { return end_badly(argument); });
    try {
        if (what == "join") return join(argument, std::chrono::seconds(std::stoi(words[3])));
        if (what == "join-again") return join_again(argument, std::stoi(words[3]));
        if (what == "stop") return stop();
        if (what == "report") return report();
        if (what == "phases") return show_phases();
        if (what == "saves") return ask_to_save();
    } catch (const ddprun::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 4;
    }
    return 2;
}
