// SPDX-License-Identifier: Apache-2.0
// A training that writes down what it does, for the drivers beside it:
//
//   counting_worker FACTS SAVED STEPS STEP_MS STOP_MS
//
// FACTS, its host's file, gets one line per fact, in one write:
//   EVENT INCARNATION ROUND RANK WORLD_SIZE STEP PID NANOSECONDS      (CLOCK_BOOTTIME)
// with the events began, resumed (at which step), ticked (alive; every 20 ms, from a thread of its
// own), stepped, stopping (on SIGTERM), ended. SAVED is a folder that all hosts share: rank 0 keeps
// the whole curve there, a file per world. The curve does not depend on how many take part. Ends
// after STEPS steps, or when SAVED/finish is there. SIGTERM: it takes STOP_MS to end. While
// SAVED/stay is there, no rank that has got SIGTERM ends, and of the finished ones only rank 0.
#include "ddprun/record.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr std::int64_t samples_per_step = 24;
constexpr auto tick = 20ms;

std::atomic<bool> is_stopping = false;

class Facts {
public:
    Facts(const char* path, const ddprun::World& world)
        : file_(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)),
          // "-" without a launcher's incarnation, so that every line has the same number of words.
          incarnation_(world.incarnation.empty() ? "-" : world.incarnation),
          world_(world) {
        if (file_ < 0) throw std::runtime_error(std::string("cannot open ") + path);
    }

    void add(const char* event, std::int64_t step) const {
        timespec now{};
        ::clock_gettime(CLOCK_BOOTTIME, &now);
        char line[256];
        const int size = std::snprintf(
            line,
            sizeof line,
            "%s %s %d %d %d %lld %d %lld\n",
            event,
            incarnation_.c_str(),
            world_.round,
            world_.rank,
            world_.world_size,
            static_cast<long long>(step),
            ::getpid(),
            static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec);
        if (::write(file_, line, static_cast<std::size_t>(size)) != size) ::_exit(3);
    }

private:
    int file_;
    std::string incarnation_;
    ddprun::World world_;
};

/// w after each step, from the first one on.
using Curve = std::vector<std::int64_t>;

Curve read_curve(const std::filesystem::path& path) {
    std::ifstream in(path);
    Curve curve;
    for (std::int64_t w = 0; in >> w;)
        curve.push_back(w);
    return curve;
}

Curve longest_curve(const std::filesystem::path& folder) {
    Curve longest;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".curve") continue;
        auto curve = read_curve(entry.path());
        if (curve.size() > longest.size()) longest = std::move(curve);
    }
    return longest;
}

void save(const Curve& curve, const std::filesystem::path& folder, const ddprun::World& world) {
    const auto path = folder / (world.incarnation + "." + std::to_string(world.round) + ".curve");
    auto unfinished = path;
    unfinished += "." + std::to_string(::getpid());
    {
        std::ofstream out(unfinished);
        for (const auto w : curve)
            out << w << '\n';
        if (!out.flush()) throw std::runtime_error("cannot write " + unfinished.string());
    }
    std::filesystem::rename(unfinished, path);
}

/// All ranks continue from the curve that rank 0 read: others may read it a moment later.
Curve agreed_curve(
    ddprun::Store& store, const std::filesystem::path& folder, const ddprun::World& world) {
    if (world.rank == 0) {
        std::string text;
        const auto curve = longest_curve(folder);
        for (const auto w : curve)
            text += std::to_string(w) + ' ';
        store.set("curve", text);
        return curve;
    }
    Curve curve;
    const auto text = store.get("curve");
    for (std::size_t at = 0, next = 0; at < text.size(); at = next + 1) {
        next = text.find(' ', at);
        curve.push_back(std::stoll(text.substr(at, next - at)));
    }
    return curve;
}

std::int64_t own_share(std::int64_t w, std::int64_t step, const ddprun::World& world) {
    std::int64_t sum = 0;
    for (std::int64_t i = world.rank; i < samples_per_step; i += world.world_size)
        sum += (w * 31 + (step * samples_per_step + i) * 17) % 1009;
    return sum;
}

struct Step {
    std::int64_t sum = 0;
    bool is_last = false;
};

/// All ranks wait for each other; the last one decides for all whether this is the end.
Step synchronize(
    ddprun::Store& store,
    std::int64_t share,
    std::int64_t step,
    int world_size,
    const std::filesystem::path& finish) {
    const auto key = std::to_string(step);
    store.add("sum/" + key, share);
    if (store.add("here/" + key, 1) == world_size)
        store.set("last/" + key, std::filesystem::exists(finish) ? "yes" : "no");
    const bool is_last = store.get("last/" + key) == "yes";
    return {store.add("sum/" + key, 0), is_last};
}

[[noreturn]] void tick_for_ever(
    const Facts& facts, std::chrono::milliseconds time_to_stop, const std::filesystem::path& stay) {
    while (!is_stopping) {
        facts.add("ticked", 0);
        std::this_thread::sleep_for(tick);
    }
    facts.add("stopping", 0);
    const auto until = std::chrono::steady_clock::now() + time_to_stop;
    while (std::chrono::steady_clock::now() < until || std::filesystem::exists(stay)) {
        facts.add("ticked", 0);
        std::this_thread::sleep_for(tick);
    }
    ::_exit(128 + SIGTERM);
}

int train(char** arguments) {
    const auto world = ddprun::World::from_environment();
    const auto shared_facts = std::make_shared<const Facts>(arguments[1], world);
    const Facts& facts = *shared_facts;
    const std::filesystem::path folder = arguments[2];
    const std::int64_t steps = std::atoll(arguments[3]);
    const std::chrono::milliseconds step_time(std::atoi(arguments[4]));
    const std::chrono::milliseconds time_to_stop(std::atoi(arguments[5]));
    facts.add("began", 0);
    std::signal(SIGTERM, [](int) { is_stopping = true; });
    // The thread owns its data: an exception may leave this frame before the process ends.
    const auto stay = folder / "stay";
    std::thread([shared_facts, time_to_stop, stay] {
        tick_for_ever(*shared_facts, time_to_stop, stay);
    }).detach();

    auto store = ddprun::Store::connect(world);
    auto curve = agreed_curve(store, folder, world);
    facts.add("resumed", static_cast<std::int64_t>(curve.size()));
    for (bool is_last = false; !is_last && std::ssize(curve) < steps;) {
        std::this_thread::sleep_for(step_time);
        const auto step = std::ssize(curve);
        const auto w = curve.empty() ? 1 : curve.back();
        const auto result = synchronize(
            store, own_share(w, step, world), step, world.world_size, folder / "finish");
        curve.push_back((w + result.sum) % 1'000'003);
        is_last = result.is_last;
        facts.add("stepped", std::ssize(curve));
        if (world.rank == 0) save(curve, folder, world);
    }
    while (world.rank != 0 && std::filesystem::exists(stay))
        std::this_thread::sleep_for(tick);
    facts.add("ended", std::ssize(curve));
    std::fflush(nullptr);
    ::_exit(EXIT_SUCCESS);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        std::fputs("usage: counting_worker FACTS SAVED STEPS STEP_MS STOP_MS\n", stderr);
        return 2;
    }
    return ddprun::record([&] { return train(argv); });
}
