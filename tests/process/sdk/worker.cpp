// SPDX-License-Identifier: Apache-2.0
// One rank of the SDK's process tests: `sdk_worker SCENARIO`, see `scenarios` at the end. Exits 0
// on success, 1 with an error text, or with the code of the exception (workers.hpp).
#include "ddprun/checkpoint_writer.hpp"
#include "ddprun/prefetching_loader.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/stop.hpp"
#include "ddprun/world.hpp"
#include "tests/process/sdk/every_call.hpp"
#include "tests/process/sdk/gpu_scenarios.hpp"
#include "tests/process/sdk/one_call.hpp"
#include "tests/process/sdk/refuse_threads.hpp"
#include "tests/process/sdk/say.hpp"
#include "tests/process/sdk/sharded_steps.hpp"
#include "worker_sdk/src/store_names.hpp"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using ddprun::Op;
using ddprun::ProcessGroup;
using ddprun::World;
using ddprun::tests::say;

void expect(bool holds, const std::string& what) {
    if (holds) return;
    say("not as expected: " + what);
    std::exit(1);
}

/// The n-th word of a variable that has one for every rank: "a,b,b".
std::string own_word(const char* variable, int rank) {
    const char* text = std::getenv(variable);
    std::istringstream words(text ? text : "");
    std::string word;
    for (int i = 0; i <= rank; ++i)
        if (!std::getline(words, word, ',')) return {};
    return word;
}

/// Applies this rank's settings from the tests, before it joins the others.
void prepare(int rank) {
    const auto host = own_word("SDK_WORKER_HOSTS", rank);
    if (!host.empty()) ::setenv("DDPRUN_HOST_ID", host.c_str(), 1);
    if (std::getenv("SDK_WORKER_IGNORE_TERM")) ::signal(SIGTERM, SIG_IGN);
    const auto nccl_version = own_word("SDK_WORKER_NCCL_VERSIONS", rank);
    if (!nccl_version.empty()) ::setenv("FAKE_NCCL_VERSION", nccl_version.c_str(), 1);
    const auto failing = own_word("SDK_WORKER_FAILS", rank);
    if (!failing.empty()) ::setenv("FAKE_NCCL_FAIL", failing.c_str(), 1);
    if (own_word("SDK_WORKER_NO_SHARING", rank) == "1") {
        constexpr rlim_t gibibyte = 1U << 30;
        const rlimit limit{gibibyte, gibibyte};
        ::setrlimit(RLIMIT_AS, &limit);
    }
}

std::chrono::milliseconds given_timeout(std::chrono::milliseconds otherwise) {
    const char* given = std::getenv("SDK_WORKER_TIMEOUT_MS");
    return given ? std::chrono::milliseconds(std::atoi(given)) : otherwise;
}

ProcessGroup create_group(
    const World& world, const ddprun::Store& store, std::chrono::milliseconds timeout) {
    ProcessGroup::Options options;
    options.timeout = timeout;
    if (std::getenv("SDK_WORKER_NCCL")) options.backend = ddprun::Backend::nccl;
    return ProcessGroup::create(world, store, options);
}

/// How long a rank of a busy machine may take to begin.
constexpr auto start_up_timeout = 1min;

void await_all_ranks(const World& world, ddprun::Store& store) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < world.world_size; ++rank)
        keys.push_back("has_begun/" + std::to_string(rank));
    store.set(keys[static_cast<std::size_t>(world.rank)], "yes");
    store.wait(keys, start_up_timeout);
}

/// The timeout also limits joining. A short one is meant for later calls, so it starts only when
/// all ranks are there.
ProcessGroup join(const World& world, std::chrono::milliseconds timeout = 10min) {
    timeout = given_timeout(timeout);
    prepare(world.rank);
    auto store = ddprun::Store::connect(
        world, std::max<std::chrono::milliseconds>(timeout, start_up_timeout));
    if (timeout < start_up_timeout) await_all_ranks(world, store);
    auto group = create_group(world, store, timeout);
    // From here on this process can start no thread, as at a limit of processes.
    if (const auto* given = std::getenv("SDK_WORKER_THREADS"))
        if (std::string{given} == "refused") ddprun::tests::refuse_threads();
    return group;
}

template <class T>
void check_all_reduce(const ProcessGroup& group, std::size_t count, Op op) {
    std::vector<T> values(count);
    std::vector<T> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
        for (int rank = 0; rank < group.size(); ++rank)
            expected[i] += static_cast<T>(static_cast<std::size_t>(rank) * 3 + i % 1000);
        if (op == Op::average) expected[i] /= static_cast<T>(group.size());
        values[i] = static_cast<T>(static_cast<std::size_t>(group.rank()) * 3 + i % 1000);
    }
    group.all_reduce(values.data(), count, op).wait();
    expect(values == expected, "all_reduce of " + std::to_string(count));
}

template <class T>
void check_broadcast(const ProcessGroup& group, std::size_t count, int root) {
    std::vector<T> values(count, static_cast<T>(group.rank()));
    group.broadcast(values.data(), count, root).wait();
    expect(
        values == std::vector<T>(count, static_cast<T>(root)),
        "broadcast of " + std::to_string(count) + " from " + std::to_string(root));
}

template <class T>
void check_all_gather(const ProcessGroup& group, std::size_t count) {
    std::vector<T> mine(count, static_cast<T>(group.rank() + 1));
    std::vector<T> all(count * static_cast<std::size_t>(group.size()));
    std::vector<T> expected;
    for (int rank = 0; rank < group.size(); ++rank)
        expected.insert(expected.end(), count, static_cast<T>(rank + 1));
    group.all_gather(mine.data(), all.data(), count).wait();
    expect(all == expected, "all_gather of " + std::to_string(count));
}

template <class T>
void check_type(const ProcessGroup& group) {
    for (const std::size_t count : {0u, 1u, 2u, 3u, 7u, 1000u, 300'001u}) {
        check_all_reduce<T>(group, count, Op::sum);
        check_all_reduce<T>(group, count, Op::average);
        check_all_gather<T>(group, count);
        for (int root = 0; root < group.size(); ++root)
            check_broadcast<T>(group, count, root);
    }
}

int collectives(const World& world) {
    const auto group = join(world);
    expect(group.rank() == world.rank && group.size() == world.world_size, "rank and size");
    check_type<float>(group);
    check_type<double>(group);
    check_type<std::int64_t>(group);
    check_broadcast<std::byte>(group, 5, world.world_size - 1);
    check_all_gather<std::byte>(group, 5);
    group.barrier().wait();
    return 0;
}

int sharded(const World& world) {
    const auto difference = ddprun::tests::difference_from_unsharded(join(world));
    expect(difference.empty(), difference);
    return 0;
}

int sharded_on_gpu(const World& world) {
    const ddprun::ShardedOptimizer model(join(world), {{"a", 1}}, {});
    return 0;
}

int sharded_memory(const World& world) {
    const auto excess =
        ddprun::tests::excess_memory_of_checkpoint(join(world), std::getenv("SDK_WORKER_FOLDER"));
    expect(excess.empty(), excess);
    return 0;
}

/// Several works in flight at the same time, in the group's memory, awaited in another order.
int pipelined(const World& world) {
    const auto group = join(world);
    constexpr std::size_t count = 50'000;
    const auto memory = group.allocate(8 * count * sizeof(float));
    auto* values = static_cast<float*>(memory.data());
    std::vector<ddprun::Work> works;
    for (std::size_t i = 0; i < 8; ++i) {
        std::fill_n(values + i * count, count, static_cast<float>(i));
        works.push_back(group.all_reduce(values + i * count, count));
    }
    for (std::size_t i = 8; i-- > 0;) {
        works[i].wait();
        expect(works[i].is_done(), "a Work that was waited for is done");
        const auto sum = static_cast<float>(i) * static_cast<float>(group.size());
        expect(values[i * count] == sum && values[(i + 1) * count - 1] == sum, "all sums");
    }
    return 0;
}

/// All kinds of calls, in sizes that the transport handles in different ways.
int every_call(const World& world) {
    const auto group = join(world);
    for (const bool is_shared : {false, true})
        for (const std::size_t count : {is_shared ? 0u : 3u, 1001u, 70'001u}) {
            const auto wrong = ddprun::tests::try_every_call(group, count, is_shared);
            expect(wrong.empty(), wrong);
        }
    return 0;
}

/// Calls of the size of a bucket, which touch no fresh memory after the first ones.
int page_faults(const World& world) {
    const auto group = join(world);
    constexpr std::size_t count = 128 * 1024;
    std::vector<float> parts(count * static_cast<std::size_t>(group.size()), 1.0F);
    std::vector<float> output(parts.size());
    const auto call = [&] {
        group.reduce_scatter(parts.data(), output.data(), count).wait();
        group.all_to_all(parts.data(), output.data(), count).wait();
    };
    const auto faults = [] {
        rusage usage{};
        ::getrusage(RUSAGE_SELF, &usage);
        return usage.ru_minflt;
    };
    for (int warm_up = 0; warm_up < 3; ++warm_up)
        call();
    const auto before = faults();
    for (int i = 0; i < 10; ++i)
        call();
    const auto each = (faults() - before) / 10;
    expect(each < 50, std::to_string(each) + " page faults in a call");
    return 0;
}

/// The same with fewer calls, for slow transports.
int some_calls(const World& world) {
    const auto group = join(world);
    for (const std::size_t count : {0u, 3u, 20'001u}) {
        const auto wrong = ddprun::tests::try_every_call(group, count, count == 3);
        expect(wrong.empty(), wrong);
    }
    return 0;
}

/// Every call with every type once, with the operations in turns: for many ranks, when each call
/// takes long on a busy machine.
int few_calls(const World& world) {
    const auto group = join(world);
    for (std::size_t i = 0; i < 56; ++i) {
        const auto wrong = ddprun::tests::try_one_call(group, i, i % 3 == 0 ? 20'001 : 3);
        expect(wrong.empty(), wrong);
    }
    return 0;
}

int messages(const World& world) {
    const auto group = join(world);
    for (const std::size_t count : {0u, 1u, 1000u, 1'000'001u}) {
        const auto wrong = ddprun::tests::try_messages(group, count);
        expect(wrong.empty(), wrong);
    }
    return 0;
}

/// The even or odd ranks, as this one is, from `lowest` on.
std::vector<int> ranks_like(const World& world, int lowest) {
    std::vector<int> ranks;
    for (int rank = world.world_size - 1; rank >= lowest; --rank)
        if (rank % 2 == world.rank % 2) ranks.push_back(rank);
    return ranks;
}

/// Even and odd ranks in separate groups, and some of these in smaller ones.
int sub_groups(const World& world) {
    const auto group = join(world);
    const auto mine = ranks_like(world, 0);
    for (int i = 0; i < 2; ++i) {
        const auto half = group.sub_group(mine);
        expect(half.size() == static_cast<int>(mine.size()), "size of a sub-group");
        expect(mine[static_cast<std::size_t>(half.rank())] == world.rank, "rank in a sub-group");
        const auto wrong = ddprun::tests::try_every_call(half, 100, true);
        expect(wrong.empty(), wrong);
        const auto alone = half.sub_group({half.rank()});
        check_all_reduce<float>(alone, 10, Op::sum);
    }
    check_all_reduce<float>(group, 10, Op::sum);
    return 0;
}

/// Even and odd ranks in separate groups, the last rank first; with many ranks, rank 0 in none.
int splits(const World& world) {
    const auto group = join(world);
    const int lowest = world.world_size > 2 ? 1 : 0;
    const bool is_left_out = world.rank < lowest;
    const auto mine = ranks_like(world, lowest);
    for (int i = 0; i < 2; ++i) {
        const auto half = group.split(is_left_out ? -1 : world.rank % 2, -world.rank);
        expect(half.has_value() != is_left_out, "a group for those with a color alone");
        check_all_reduce<float>(group, 10, Op::sum);
        if (is_left_out) continue;
        expect(half->size() == static_cast<int>(mine.size()), "size of a part");
        expect(mine[static_cast<std::size_t>(half->rank())] == world.rank, "rank in a part");
        const auto wrong = ddprun::tests::try_every_call(*half, 100, true);
        expect(wrong.empty(), wrong);
        const auto same = half->split(7);
        expect(same && same->rank() == half->rank(), "equal keys leave ranks as they are");
        check_all_reduce<float>(*same, 10, Op::sum);
    }
    group.barrier().wait();  // else a rank without a color might finalize long before the others
    return 0;
}

int one_split(const World& world) {
    join(world).split(world.rank > 0 ? 0 : -1);
    return 0;
}

int other_message(const World& world) {
    const auto group = join(world);
    std::vector<float> values(1000);
    if (world.rank == 0) group.send(values.data(), 1000, 1).wait();
    if (world.rank == 1) group.recv(values.data(), 10, 0).wait();
    group.barrier().wait();
    return 0;
}

int several_groups(const World& world) {
    auto store = ddprun::Store::connect(world);
    for (int i = 0; i < 3; ++i) {
        const auto first = ProcessGroup::create(world, store);
        const auto second = ProcessGroup::create(world);
        check_all_reduce<float>(second, 10, Op::sum);
        check_all_reduce<float>(first, 10, Op::sum);
    }
    return 0;
}

/// Sums that depend on the order of additions, as one number.
int digest(const World& world) {
    const auto group = join(world);
    std::uint64_t hash = 0;
    for (const std::size_t count : {5u, 1000u, 700'000u}) {
        std::mt19937 random(static_cast<unsigned>(world.rank) * 1000 + 17);
        std::normal_distribution<float> draw(0, 1000);
        std::vector<float> values(count);
        for (auto& value : values)
            value = draw(random);
        group.all_reduce(values.data(), count, Op::average).wait();
        for (const float value : values) {
            std::uint32_t bits = 0;
            static_assert(sizeof bits == sizeof value);
            std::copy_n(
                reinterpret_cast<const char*>(&value),
                sizeof value,
                reinterpret_cast<char*>(&bits));
            hash = (hash ^ bits) * 0x100000001b3;
        }
    }
    say("digest " + std::to_string(hash));
    return 0;
}

/// Reduces until a rank dies.
int endless(const World& world) {
    const auto group = join(world);
    std::vector<float> values(100'000);
    group.barrier().wait();
    say("rank " + std::to_string(world.rank) + " pid " + std::to_string(::getpid()));
    say("ready");
    for (;;)
        group.all_reduce(values.data(), values.size()).wait();
}

/// Every kind of collective in turn, small and large, until a rank dies. `has_messages`: now and
/// then also messages, which all ranks complete before the next collective other than a barrier.
int call_in_turns(const World& world, bool has_messages) {
    const auto group = join(world);
    group.barrier().wait();
    say("ready");
    for (std::size_t i = 0;; ++i) {
        const auto wrong = ddprun::tests::try_one_call(group, i, i % 3 == 0 ? 100'000 : 100);
        expect(wrong.empty(), wrong);
        if (!has_messages || i % 10 != 0) continue;
        expect(ddprun::tests::try_messages(group, 50'000).empty(), "messages");
        group.barrier().wait();
    }
}

int endless_collectives(const World& world) {
    return call_in_turns(world, false);
}

int endless_mix(const World& world) {
    return call_in_turns(world, true);
}

/// One kind of call, in this group, in a sub-group of all ranks, or several at once.
int endless_call(const World& world) {
    auto group = join(world);
    const std::string way = std::getenv("SDK_WORKER_WAY");
    if (way == "sub_group") {
        std::vector<int> all;
        for (int rank = 0; rank < group.size(); ++rank)
            all.push_back(rank);
        group = group.sub_group(all);
    }
    group.barrier().wait();
    say("ready");
    ddprun::tests::repeat_call(group, std::getenv("SDK_WORKER_CALL"), way == "in_flight" ? 3 : 1);
}

/// Rank 0 never joins a sub-group that the others create with it.
int first_one_missing(const World& world) {
    const auto group = join(world);
    group.barrier().wait();
    say("rank " + std::to_string(world.rank) + " pid " + std::to_string(::getpid()));
    say("ready");
    if (world.rank == 0) ::pause();
    std::vector<int> all;
    for (int rank = 0; rank < world.world_size; ++rank)
        all.push_back(rank);
    group.sub_group(all);
    return 0;
}

/// Rank 0 makes the first call that connects all ranks only when it is allowed to.
int late_in_mesh(const World& world) {
    const auto group = join(world);
    group.barrier().wait();
    say("ready");
    if (world.rank == 0) ddprun::Store::connect(world).get("go", start_up_timeout);
    check_all_gather<float>(group, 10);
    return 0;
}

/// All but the last rank wait in a barrier that the last never enters.
int last_one_idle(const World& world) {
    const auto group = join(world);
    group.barrier().wait();
    if (world.rank == world.world_size - 1) {
        say("ready");
        for (;;)
            ::pause();
    }
    auto work = group.barrier();
    say("ready");
    work.wait();
    return 0;
}

/// Rank 0 never makes the call, and stays until the others have ended. Rank 1 waits for rank 0's
/// data, and rank 2, which arrives two seconds late, for rank 1.
int one_late_one_missing(const World& world) {
    const auto group = join(world);
    group.barrier().wait();
    auto store = ddprun::Store::connect(world);
    if (world.rank == 0) {
        store.wait({"over 1", "over 2"}, start_up_timeout);
        return 0;
    }
    if (world.rank == 2) std::this_thread::sleep_for(2s);
    const std::vector<float> input(3000, 1.0F);
    std::vector<float> output(1000);
    try {
        group.reduce_scatter(input.data(), output.data(), output.size()).wait();
    } catch (const ddprun::Error&) {
        store.set("over " + std::to_string(world.rank), "");
        throw;
    }
    return 0;
}

int killed_while_joining(const World& world) {
    say("ready");
    if (world.rank == 0) ::pause();
    prepare(world.rank);
    const auto timeout = given_timeout(5s);
    create_group(world, ddprun::Store::connect(world, timeout), timeout);
    return 0;
}

/// Rank 1 ends when another rank has begun to create the group.
int dies_before_group(const World& world) {
    prepare(world.rank);
    auto store = ddprun::Store::connect(world);
    if (world.rank == 1) {
        // They ignore SIGTERM from then on.
        store.get("ready/0", start_up_timeout);
        store.get("ready/2", start_up_timeout);
        store.get(
            ddprun::store_names::deaths(world.incarnation, world.round, world.restart_count),
            start_up_timeout);
        return 5;
    }
    store.set("ready/" + std::to_string(world.rank), "");
    create_group(world, store, 10min);
    return 0;
}

volatile std::sig_atomic_t has_got_sigterm = 0;

/// Rank 1 ends before any other rank begins to create the group; the others have a SIGTERM handler
/// of their own.
int dies_unasked(const World& world) {
    ::signal(SIGTERM, [](int) { has_got_sigterm = 1; });
    auto store = ddprun::Store::connect(world);
    if (world.rank == 1) {
        store.get("ready/0", start_up_timeout);
        store.get("ready/2", start_up_timeout);
        return 5;
    }
    store.set("ready/" + std::to_string(world.rank), "");
    while (has_got_sigterm == 0)
        std::this_thread::sleep_for(1ms);
    create_group(world, store, 10min);
    return 0;
}

/// Rank 1 never joins the group that the others create after a stop was announced.
int stopped_before_group(const World& world) {
    ddprun::should_stop();
    auto store = ddprun::Store::connect(world);
    say("ready");
    while (!ddprun::should_stop())
        std::this_thread::sleep_for(1ms);
    if (world.rank == 1)
        for (;;)
            ::pause();
    create_group(world, store, 10min);
    return 0;
}

int late_and_dead(const World& world) {
    const auto group = join(world, 6s);
    group.barrier().wait();
    if (world.rank == 1) {
        // Waits long enough for all others to time out; ends when its output's pipe is closed.
        pollfd closed{STDOUT_FILENO, 0, 0};
        ::poll(&closed, 1, 20'000);
        return 0;
    }
    float value = 1;
    try {
        group.all_reduce(&value, 1).wait();
    } catch (const ddprun::Timeout&) {
        try {
            auto again = group.barrier();
        } catch (const ddprun::Timeout& same) {
            say("again");
            throw;
        }
    }
    return 0;
}

int own_deadline(const World& world) {
    const auto group = join(world);
    group.barrier().wait();
    std::vector<float> values(1000, 1.0F);
    auto store = ddprun::Store::connect(world);
    if (world.rank == 0) {
        auto work = group.all_reduce(values.data(), values.size());
        try {
            work.wait(ddprun::Work::Clock::now() + 300ms);
        } catch (const ddprun::Timeout&) {
            store.set("timed out", "");
            throw;
        }
        return 1;
    }
    // Never makes the call, and stays as long as others wait for it.
    store.wait({"timed out"}, start_up_timeout);
    store.get("never", 1ms);
    return 1;
}

int other_count(const World& world) {
    const auto group = join(world);
    std::vector<float> values(1000);
    group.all_reduce(values.data(), world.rank == 1 ? 500 : 1000).wait();
    return 0;
}

/// Rank 1 expects less from rank 0 than it sends.
int other_parts(const World& world) {
    const auto group = join(world);
    const auto ranks = static_cast<std::size_t>(group.size());
    std::vector<float> input(10 * ranks);
    std::vector<float> output(10 * ranks);
    const std::vector<std::size_t> sent(ranks, 10);
    auto received = sent;
    if (world.rank == 1) received[0] = 9;
    group.all_to_all_v(input.data(), sent, output.data(), received).wait();
    return 0;
}

/// One rank gives another length to one kind of call.
int other_count_in_call(const World& world) {
    const auto group = join(world);
    ddprun::tests::make_call(group, std::getenv("SDK_WORKER_CALL"), world.rank == 1 ? 20 : 10);
    group.barrier().wait();
    return 0;
}

/// One element of one rank is no number.
int one_nan(const World& world) {
    const auto group = join(world);
    for (const std::size_t count : {3u, 1000u, 200'000u})
        for (const auto op : {Op::sum, Op::average, Op::min, Op::max, Op::product}) {
            const auto memory = group.allocate(count * sizeof(float));
            std::vector<float> own(count, 1.0F);
            auto* shared = static_cast<float*>(memory.data());
            std::fill_n(shared, count, 1.0F);
            if (world.rank == 1) own[count / 2] = shared[count / 2] = std::nanf("");
            group.all_reduce(own.data(), count, op).wait();
            group.all_reduce(shared, count, op).wait();
            for (const float* values :
                 {static_cast<const float*>(own.data()), static_cast<const float*>(shared)})
                for (std::size_t i = 0; i < count; ++i)
                    expect(
                        std::isnan(values[i]) == (i == count / 2),
                        "NaN at its place and nowhere else");
        }
    return 0;
}

int other_type(const World& world) {
    const auto group = join(world);
    std::vector<double> doubles(10);
    std::vector<std::int64_t> integers(10);
    if (world.rank == 1)
        group.all_reduce(integers.data(), 10).wait();
    else
        group.all_reduce(doubles.data(), 10).wait();
    return 0;
}

int other_order(const World& world) {
    const auto group = join(world);
    float value = 0;
    if (world.rank == 1) group.barrier().wait();
    group.all_reduce(&value, 1).wait();
    group.barrier().wait();
    return 0;
}

template <class Call>
std::string error_of(const Call& call) {
    try {
        call();
    } catch (const ddprun::Error& error) {
        return error.what();
    }
    return "none";
}

/// Operations that need a thread which cannot be started fail with an error that names the limit;
/// operations that have some threads continue with those.
int refused_threads(const World& world) {
    const auto group = join(world);
    using Indices = std::vector<std::uint64_t>;
    const auto load = [](const Indices& samples) {
        if (samples.front() == 0) ddprun::tests::refuse_threads();
        return samples;
    };
    Indices all(5000);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    // Some of these threads are still being started when the first has its sample.
    ddprun::PrefetchingLoader<Indices> loader(all, load, {1, all.size(), all.size()});
    Indices loaded;
    while (const auto batch = loader.next())
        loaded.push_back(batch->front());
    expect(loaded == all, "every sample was loaded");

    const std::string limit = "no further thread or process could be started: this user may have";
    const auto check = [&](const std::string& what, const std::string& text) {
        expect(text.find(limit) != std::string::npos, what + ": " + text);
    };
    check("loader", error_of([&] {
              ddprun::PrefetchingLoader<Indices> second(all, load, {1, 1, 1});
          }));
    check("writer", error_of([&] {
              const ddprun::CheckpointWriter writer{ddprun::CheckpointFolder{"."}};
          }));
    float value = 0;
    check("message", error_of([&] { group.send(&value, 1, 1 - world.rank).wait(); }));
    group.barrier().wait();
    return 0;
}

int other_call_than_split(const World& world) {
    const auto group = join(world);
    if (world.rank == 1) group.barrier().wait();
    group.split(world.rank);
    return 0;
}

int aborted(const World& world) {
    const auto group = join(world);
    group.barrier().wait();
    if (world.rank == 0) group.abort();
    group.barrier().wait();
    return 0;
}

/// The value of each element of a parameter's gradient.
float gradient(std::size_t step, std::size_t parameter, int rank) {
    return static_cast<float>(step * 16 + parameter * 4 + static_cast<std::size_t>(rank));
}

/// Steps of a model with many small buckets, every other one in two halves under no_sync.
int reducer(const World& world) {
    const auto group = join(world);
    ddprun::Reducer::Options options;
    options.first_bucket_bytes = 256;
    options.bucket_bytes = 4096;
    std::vector<ddprun::ParameterSpec> specs;
    for (std::size_t i = 0; i < 30; ++i)
        specs.push_back({"p" + std::to_string(i), i * i + 1});
    ddprun::Reducer model(group, specs, options);

    model.param(29)[0] = static_cast<float>(world.rank);
    model.broadcast_parameters(world.world_size - 1);
    expect(model.param(29)[0] == static_cast<float>(world.world_size - 1), "broadcast_parameters");
    model.verify_parameters();

    for (std::size_t step = 0; step < 20; ++step) {
        model.zero_gradients();
        const int halves = step % 2 == 0 ? 1 : 2;
        const auto backward = [&] {
            for (std::size_t i = specs.size(); i-- > 0;) {
                for (std::size_t k = 0; k < specs[i].count; ++k)
                    model.grad(i)[k] += gradient(step, i, world.rank);
                model.mark_ready(i);
            }
            model.finish();
        };
        if (halves == 2) {
            const auto guard = model.no_sync();
            backward();
        }
        backward();
        for (std::size_t i = 0; i < specs.size(); ++i) {
            float sum = 0;
            for (int rank = 0; rank < world.world_size; ++rank)
                sum += static_cast<float>(halves) * gradient(step, i, rank);
            const float average = sum / static_cast<float>(world.world_size);
            expect(
                model.grad(i)[0] == average && model.grad(i)[specs[i].count - 1] == average,
                "gradient " + std::to_string(i) + " of step " + std::to_string(step));
        }
    }
    return 0;
}

int inherited_sockets(const World& world) {
    const auto group = join(world);
    group.barrier().wait();
    // A program that is started now (a data loader, a shell) must inherit only this process's
    // standard streams; otherwise a peer's death would not be noticed while that program runs.
    const int sockets = std::system("exit $(ls -l /proc/self/fd | grep -c 'socket:')");
    expect(sockets == 0, "a program started by a rank inherits sockets");
    group.barrier().wait();
    return 0;
}

const std::map<std::string, std::function<int(const World&)>> scenarios{
    {"collectives", collectives},
    {"pipelined", pipelined},
    {"several_groups", several_groups},
    {"every_call", every_call},
    {"sharded", sharded},
    {"sharded_memory", sharded_memory},
    {"sharded_on_gpu", sharded_on_gpu},
    {"some_calls", some_calls},
    {"few_calls", few_calls},
    {"page_faults", page_faults},
    {"messages", messages},
    {"sub_groups", sub_groups},
    {"splits", splits},
    {"one_split", one_split},
    {"other_message", other_message},
    {"digest", digest},
    {"endless", endless},
    {"endless_call", endless_call},
    {"first_one_missing", first_one_missing},
    {"endless_collectives", endless_collectives},
    {"endless_mix", endless_mix},
    {"late_in_mesh", late_in_mesh},
    {"last_one_idle", last_one_idle},
    {"one_late_one_missing", one_late_one_missing},
    {"killed_while_joining", killed_while_joining},
    {"dies_before_group", dies_before_group},
    {"dies_unasked", dies_unasked},
    {"stopped_before_group", stopped_before_group},
    {"late_and_dead", late_and_dead},
    {"own_deadline", own_deadline},
    {"one_nan", one_nan},
    {"other_count", other_count},
    {"other_parts", other_parts},
    {"other_count_in_call", other_count_in_call},
    {"other_type", other_type},
    {"other_order", other_order},
    {"other_call_than_split", other_call_than_split},
    {"refused_threads", refused_threads},
    {"aborted", aborted},
    {"reducer", reducer},
    {"inherited_sockets", inherited_sockets},
};

}  // namespace

namespace {

std::string listed(const std::vector<int>& ranks) {
    std::string text;
    for (const int rank : ranks)
        text += " " + std::to_string(rank);
    return text;
}

long long monotonic_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
/// LeakSanitizer sometimes crashes on the thread storage of libraries that were opened at run time,
/// if it tracks that.
extern "C" const char* __asan_default_options() {
    return "intercept_tls_get_addr=0";
}
#endif

int main(int, char** arguments) {
    try {
        auto on_gpu = ddprun::tests::gpu_scenarios();
        on_gpu.merge(ddprun::tests::gpu_failures());
        on_gpu.merge(ddprun::tests::gpu_calls());
        if (const auto found = on_gpu.find(arguments[1]); found != on_gpu.end()) {
            const auto world = World::from_environment();
            const auto group = join(world);
            found->second(group, ProcessGroup::create(world));
            return 0;
        }
        return scenarios.at(arguments[1])(World::from_environment());
    } catch (const ddprun::PeerLost& error) {
        // Recorded, so that a launcher does not treat it as the root cause.
        ddprun::record_error(error);
        say("after " + std::to_string(monotonic_ms()) + " ranks" + listed(error.ranks()));
        say(std::string{"PeerLost: "} + error.what());
        return 10;
    } catch (const ddprun::Timeout& error) {
        say("late ranks" + listed(error.ranks()) + " in " + error.operation());
        say(std::string{"Timeout: "} + error.what());
        return 11;
    } catch (const ddprun::Mismatch& error) {
        say(std::string{"Mismatch: "} + error.what());
        return 12;
    } catch (const ddprun::UsageError& error) {
        say(std::string{"UsageError: "} + error.what());
        return 13;
    } catch (const std::exception& error) {
        say(std::string{"exception: "} + error.what());
        return 1;
    }
}
