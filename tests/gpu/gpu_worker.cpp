// SPDX-License-Identifier: Apache-2.0
// One rank of scripts/gpu_check.sh: `gpu_worker PART ...`, see parts.hpp. Runs wherever a CUDA
// driver and NCCL can be opened, and links neither.
#include "tests/gpu/gpu.hpp"
#include "tests/gpu/parts.hpp"

#include <signal.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace gpu_check;
using ddprun::World;
using Arguments = std::vector<std::string>;

const std::map<std::string, std::function<void(const World&, const Arguments&)>> parts{
    {"life", [](const World& world, const Arguments&) { life(world); }},
    {"sums", [](const World& world, const Arguments& a) { sums(world, std::stoul(a.at(0))); }},
    {"kernels",
     [](const World& world, const Arguments& a) { kernels(world, std::stoul(a.at(0))); }},
    {"calls", [](const World& world, const Arguments& a) { calls(world, std::stoul(a.at(0))); }},
    {"steps", [](const World& world, const Arguments&) { steps(world); }},
    {"sums_by_hand",
     [](const World& world, const Arguments& a) { sums_by_hand(world, std::stoul(a.at(0))); }},
    {"cycles", [](const World& world, const Arguments& a) { cycles(world, std::stoi(a.at(0))); }},
    {"kill",
     [](const World& world, const Arguments& a) {
         lose_one(world, SIGKILL, std::stoul(a.at(0)), a.at(1), std::chrono::minutes(1));
     }},
    {"stop",
     [](const World& world, const Arguments& a) {
         const std::chrono::seconds timeout(std::stoi(a.at(2)));
         lose_one(world, SIGSTOP, std::stoul(a.at(0)), a.at(1), timeout);
     }},
    {"kill_by_hand",
     [](const World& world, const Arguments& a) {
         const std::chrono::seconds longest(std::stoi(a.at(2)));
         lose_one_by_hand(world, std::stoul(a.at(0)), a.at(1), longest);
     }},
    {"bench",
     [](const World& world, const Arguments& a) {
         bench(world, std::stoul(a.at(0)), std::stod(a.at(1)));
     }},
};

}  // namespace

int main(int count, char** arguments) try {
    const Arguments all(arguments + 1, arguments + count);
    const auto part = parts.find(all.empty() ? "" : all.front());
    if (part == parts.end()) throw std::runtime_error("usage: gpu_worker PART ...");
    part->second(World::from_environment(), Arguments(all.begin() + 1, all.end()));
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_worker: %s\n", error.what());
    return 1;
}
