// SPDX-License-Identifier: Apache-2.0
#include "ddprun/error.hpp"
#include "ddprun/stop.hpp"
#include "tests/gpu/by_hand.hpp"
#include "tests/gpu/gpu.hpp"
#include "tests/gpu/parts.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

namespace gpu_check {

using namespace std::chrono_literals;
using ddprun::Store;
using ddprun::World;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int rounds_before = 10;

/// The time of the signal, for all processes of this host.
std::string strike_file(const std::string& folder) {
    return folder + "/struck";
}

/// Signals this process soon, from another thread, while the calling thread continues.
void strike_soon(int signal, const std::string& folder) {
    std::thread([signal, folder] {
        std::this_thread::sleep_for(3ms);  // so that the signal interrupts an operation
        std::ofstream(strike_file(folder)) << Clock::now().time_since_epoch().count();
        ::kill(::getpid(), signal);
    }).detach();
}

double milliseconds_since_strike(const std::string& folder) {
    Clock::rep moment = 0;
    std::ifstream(strike_file(folder)) >> moment;
    expect(moment != 0, "something went wrong before the strike");
    return milliseconds_since(Clock::time_point(Clock::duration(moment)));
}

/// The world of the remaining ranks, all but the last, in another store.
World without_the_last(const World& world, const std::string& folder) {
    auto left = world;
    left.world_size -= 1;
    left.local_world_size = left.world_size;
    left.master_addr.clear();
    left.master_port = 0;
    left.store_file = folder + "/again";
    left.rank_0_hosts_store = true;
    return left;
}

/// Records when the end of the last rank's process is visible. By then the kernel has also ended
/// that process's work on the GPU, which may take long.
class EndOfLast {
public:
    EndOfLast(const World& world, Store& store) {
        const int last = world.world_size - 1;
        if (world.rank == last) store.set("pid of the last", std::to_string(::getpid()));
        if (world.rank != 0) return;
        const auto pid = static_cast<pid_t>(std::stoi(store.get("pid of the last")));
        const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
        expect(process >= 0, "pidfd_open");
        std::thread([process, seen = seen_] {
            pollfd end{process, POLLIN, 0};
            while (::poll(&end, 1, -1) < 0) {
            }
            *seen = Clock::now().time_since_epoch().count();
            ::close(process);
        }).detach();
    }

    /// The time since the signal; none when the process has not ended.
    std::optional<double> milliseconds_after(double strike_age) const {
        const auto seen = seen_->load();
        if (seen == 0) return {};
        return strike_age - milliseconds_since(Clock::time_point(Clock::duration(seen)));
    }

private:
    std::shared_ptr<std::atomic<Clock::rep>> seen_ = std::make_shared<std::atomic<Clock::rep>>(0);
};

bool is_last(const World& world) {
    return world.rank == world.world_size - 1;
}

}  // namespace

void lose_one(
    const World& world,
    int signal,
    std::size_t bytes,
    const std::string& folder,
    std::chrono::milliseconds timeout) {
    ddprun::should_stop();  // the launcher's stop must come later than these measurements
    auto store = Store::connect(world);
    const auto group = nccl_group(world, store, timeout);
    const EndOfLast end(world, store);
    const auto memory = group.allocate(bytes);
    auto* const data = static_cast<float*>(memory.data());
    std::string text;
    try {
        for (int i = 0;; ++i) {
            if (i == rounds_before && is_last(world)) strike_soon(signal, folder);
            group.all_reduce(data, bytes / sizeof(float)).wait();
        }
    } catch (const ddprun::PeerLost& error) {
        text = std::string{"PeerLost: "} + error.what();
    } catch (const ddprun::Timeout& error) {
        text = std::string{"Timeout: "} + error.what();
    }
    const auto known = milliseconds_since_strike(folder);
    say("rank " + std::to_string(world.rank) + ": " + text);
    const auto named = "rank " + std::to_string(world.world_size - 1);
    expect(
        signal == SIGSTOP || text.find("lost " + named) != std::string::npos,
        "the error does not name " + named);
    if (world.rank == 0) {
        say("known_ms " + std::to_string(known));
        const auto visible = end.milliseconds_after(milliseconds_since_strike(folder));
        if (visible) say("end_visible_ms " + std::to_string(*visible));
    }

    const auto begin = Clock::now();
    const auto left = without_the_last(world, folder);
    const auto new_store = Store::connect(left);
    {
        const auto again = nccl_group(left, new_store);
        again.all_reduce(data, bytes / sizeof(float)).wait();
        if (world.rank == 0) say("again_ms " + std::to_string(milliseconds_since(begin)));
        again.barrier().wait();
    }
}

void lose_one_by_hand(
    const World& world,
    std::size_t bytes,
    const std::string& folder,
    std::chrono::seconds longest) {
    ddprun::should_stop();
    auto store = Store::connect(world);
    const auto group = nccl_group(world, store);  // for its memory and its device
    const Gpu gpu(device_of(world));
    ByHand hand(world, store, gpu, ByHand::Kind::non_blocking, "by_hand");
    const auto memory = group.allocate(bytes);
    auto* const data = static_cast<float*>(memory.data());
    std::optional<std::string> failure;
    try {
        for (int i = 0; i < rounds_before; ++i) {
            hand.all_reduce(data, bytes / sizeof(float));
            hand.wait();
        }
        if (is_last(world)) strike_soon(SIGKILL, folder);
        // The first call without the last rank never completes.
        for (int i = 0; !is_last(world) && i < 2; ++i)
            hand.all_reduce(data, bytes / sizeof(float));
    } catch (const std::exception& error) {
        failure = error.what();
    }
    const auto until = Clock::now() + longest;
    while (!failure && Clock::now() < until) {
        std::this_thread::sleep_for(1ms);
        failure = hand.async_error();
    }
    const auto noticed = milliseconds_since_strike(folder);
    const auto begin = Clock::now();
    hand.abort();
    const auto aborted = milliseconds_since(begin);
    group.abort();
    if (world.rank != 0) return;
    say("noticed_ms " + (failure ? std::to_string(noticed) : "never"));
    say("abort_ms " + std::to_string(aborted));
    if (failure) say("NCCL says: " + *failure);
}

}  // namespace gpu_check
