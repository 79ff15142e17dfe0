// SPDX-License-Identifier: Apache-2.0
// recovering_trainer STEPS: a trainer that keeps its process, and its state, when another worker
// fails. Prints a line when it begins a round, one after the first step there, and its parameters'
// hash at the end.
#include "ddprun/process_group.hpp"
#include "ddprun/recovery.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace {

using namespace std::chrono_literals;

struct State {
    std::array<double, 256> parameters{};
    double step = 0;  ///< done
    bool is_clean = true;
};

double now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// Every worker of the round gets the state of one of them.
void receive_state(const ddprun::ProcessGroup& group, int source, State& state) {
    group.broadcast(state.parameters.data(), state.parameters.size(), source).wait();
    group.broadcast(&state.step, 1, source).wait();
    state.is_clean = true;
}

void take_step(const ddprun::ProcessGroup& group, State& state) {
    std::array<double, 256> gradients{};
    for (std::size_t i = 0; i < gradients.size(); ++i)
        gradients[i] = 1 / (1 + static_cast<double>(i) + state.step + group.rank());
    group.all_reduce(gradients.data(), gradients.size()).wait();
    state.is_clean = false;
    for (std::size_t i = 0; i < gradients.size(); ++i)
        state.parameters[i] = 0.999 * state.parameters[i] + 0.01 * gradients[i];
    state.step += 1;
    state.is_clean = true;
}

void train(
    const ddprun::World& world, const ddprun::ProcessGroup& group, State& state, double steps) {
    if (const auto source = ddprun::state_source()) receive_state(group, source->rank, state);
    std::printf(
        "begins rank=%d pid=%d round=%d step=%.0f at=%.6f\n",
        world.rank,
        ::getpid(),
        world.round,
        state.step,
        now());
    std::fflush(stdout);
    bool is_first = true;
    while (state.step < steps) {
        take_step(group, state);
        if (std::exchange(is_first, false)) {
            std::printf("steps rank=%d round=%d at=%.6f\n", world.rank, world.round, now());
            std::fflush(stdout);
        }
        std::this_thread::sleep_for(1ms);
    }
}

std::uint64_t hash_of(const State& state) {
    std::uint64_t hash = 14695981039346656037U;
    std::array<unsigned char, sizeof state.parameters> bytes{};
    std::memcpy(bytes.data(), state.parameters.data(), bytes.size());
    for (const auto byte : bytes)
        hash = (hash ^ byte) * 1099511628211U;
    return hash;
}

}  // namespace

int main(int count, char** words) {
    if (count != 2) return 2;
    const double steps = std::atof(words[1]);
    State state;
    try {
        ddprun::Recovery recovery;
        auto world = ddprun::World::from_environment();
        for (;;) {
            try {
                const auto store = ddprun::Store::connect(world);
                const auto group = ddprun::ProcessGroup::create(world, store);
                recovery.end_with_round(group);
                train(world, group, state, steps);
                break;
            } catch (const ddprun::Error& error) {
                std::printf(
                    "interrupted rank=%d step=%.0f: %s\n", world.rank, state.step, error.what());
                std::fflush(stdout);
            }
            const auto committed = state.step > 0
                                       ? std::optional{static_cast<std::uint64_t>(state.step)}
                                       : std::nullopt;
            world = recovery.next_round(committed, state.is_clean);
        }
        std::printf(
            "ends rank=%d hash=%llx\n",
            world.rank,
            static_cast<unsigned long long>(hash_of(state)));
    } catch (const ddprun::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
