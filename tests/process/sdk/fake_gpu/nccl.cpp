// SPDX-License-Identifier: Apache-2.0
// libnccl.so.2 of a simulated GPU: collectives between threads or processes, with real
// results. Faults on request:
//
//   FAKE_NCCL_VERSION=N         reports version N (22809)
//   FAKE_NCCL_INIT=hangs        a communicator never becomes ready
//   FAKE_NCCL_DUPLICATE_GPU=1   ... is refused
//   FAKE_NCCL_SPLIT=hangs       a split never completes
//   FAKE_NCCL_SPLIT=fails       ... fails, and leaves a half-made communicator
//   FAKE_NCCL_ERROR_AT=N        a peer is found lost in the N-th call on a communicator
//   FAKE_NCCL_NOTICES_DEATHS=1  ... when its process has ended
//   FAKE_NCCL_ABORT=hangs       ncclCommAbort never returns
//   FAKE_NCCL_MEMORY=none       ncclMemAlloc fails
//   FAKE_NCCL_FAIL, _STUCK      calls that fail or never return (fault.hpp)
//   FAKE_NCCL_BLOCKING=allowed  communicators may be blocking, as the SDK's never are
//   FAKE_NCCL_LOG=PATH          every call is logged there, a line each
#include "tests/process/sdk/fake_gpu/fault.hpp"
#include "tests/process/sdk/fake_gpu/mailbox.hpp"
#include "tests/process/sdk/fake_gpu/stream.hpp"
#include "worker_sdk/src/groups/elementwise.hpp"
#include "worker_sdk/src/transports/nccl/nccl_abi.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun::nccl::abi;

/// The exchanges of one communicator run one after the other in the order of the calls (or of the
/// launches of graphs), in any streams, as in NCCL.
struct Turns {
    std::atomic<std::uint64_t> given = 0;
    std::atomic<std::uint64_t> now = 0;
};

struct Held {};

/// A split in progress: every rank sends its color and key to all others, and then the ranks of one
/// color connect.
struct Split {
    struct Wish {
        int color;
        int key;
    };
    Wish mine;
    Communicator** made;  ///< the caller's, null until the split is complete
    std::string name;
    std::vector<Wish> wishes;
    std::vector<std::size_t> sent;
    std::vector<std::size_t> received;
    std::unique_ptr<Communicator> part{};
};

namespace ddprun::nccl::abi {

/// Shared with its tasks: the tasks of an aborted communicator end at once.
struct Communicator {
    std::string name;
    std::shared_ptr<fake_gpu::Rendezvous> place;
    int rank = 0;
    int world_size = 0;
    int calls = 0;
    int splits = 0;
    std::unique_ptr<Split> split;
    bool is_lost = false;
    bool has_left = false;
    bool is_blocking = false;
    std::shared_ptr<std::atomic<bool>> is_aborted = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<Turns> turns = std::make_shared<Turns>();
    /// Each captured call also holds it, as long as a graph contains the call.
    std::shared_ptr<const Held> held = std::make_shared<const Held>();

    /// NCCL frees a communicator only when no graph contains calls on it.
    bool is_in_graph() const { return held.use_count() > 1; }
};

}  // namespace ddprun::nccl::abi

namespace {

using Bytes = std::vector<char>;

bool is_set(const char* variable, const char* value) {
    const char* text = ::getenv(variable);
    return text && ::strcmp(text, value) == 0;
}

int number(const char* variable, int otherwise) {
    const char* text = ::getenv(variable);
    return text ? ::atoi(text) : otherwise;
}

void note(const std::string& call) {
    const char* path = ::getenv("FAKE_NCCL_LOG");
    if (!path) return;
    const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const auto line = call + "\n";
    if (::write(file, line.data(), line.size()) < 0) ::abort();
    ::close(file);
}

ddprun::ElementType element_type(Type type) {
    switch (type) {
        case Type::float32: return ddprun::ElementType::float32;
        case Type::float64: return ddprun::ElementType::float64;
        case Type::float16: return ddprun::ElementType::float16;
        case Type::bfloat16: return ddprun::ElementType::bfloat16;
        case Type::int32: return ddprun::ElementType::int32;
        case Type::int64: return ddprun::ElementType::int64;
        case Type::int8: return ddprun::ElementType::int8;
        case Type::uint32: return ddprun::ElementType::uint32;
        case Type::uint64: return ddprun::ElementType::uint64;
        case Type::float8_e4m3: return ddprun::ElementType::float8_e4m3;
        case Type::float8_e5m2: return ddprun::ElementType::float8_e5m2;
        case Type::uint8: break;
    }
    return ddprun::ElementType::uint8;
}

ddprun::Op operation(Op op) {
    switch (op) {
        case Op::sum:
        case Op::average: return ddprun::Op::sum;
        case Op::product: return ddprun::Op::product;
        case Op::max: return ddprun::Op::max;
        case Op::min: return ddprun::Op::min;
    }
    return ddprun::Op::sum;
}

std::size_t bytes_of(Type type, std::size_t count) {
    return count * ddprun::groups::size_of(element_type(type));
}

/// The sends and receives of one call; all progress at the same time.
struct Exchange {
    struct Part {
        int peer;
        const char* from;
        char* to;  ///< unless the bytes go to `taken`
        std::size_t bytes;
        std::size_t done = 0;
    };
    std::shared_ptr<fake_gpu::Rendezvous> place;
    std::shared_ptr<std::atomic<bool>> is_aborted;
    bool is_blocking = false;  ///< the communicator: enqueuing returns success at once
    std::shared_ptr<Turns> turns;
    std::shared_ptr<const Held> held;
    std::uint64_t turn = 0;
    std::vector<Part> sends{};
    std::vector<Part> receives{};
    std::vector<Bytes> taken{};  ///< the input of each rank, to be combined
    std::function<void(Exchange&)> finish{};
    std::function<void()> spoil{};  ///< writes the garbage that an abort leaves

    bool go_on() {
        if (*is_aborted) {
            if (spoil) spoil();
            return true;
        }
        if (turn != turns->now) return false;
        bool is_done = true;
        for (auto& part : sends)
            is_done &= place->send(part.peer, part.from, part.bytes, part.done);
        for (auto& part : receives) {
            auto* const to =
                taken.empty() ? part.to : taken[static_cast<std::size_t>(part.peer)].data();
            is_done &= place->recv(part.peer, to, part.bytes, part.done);
        }
        if (is_done && finish) finish(*this);
        if (is_done) ++turns->now;
        return is_done;
    }
};

/// Calls between ncclGroupStart and ncclGroupEnd of this thread.
struct Group {
    int depth = 0;
    std::shared_ptr<Exchange> exchange;
    void* stream = nullptr;
};
thread_local Group group;

template <class Function>
Function driver_function(const char* name) {
    static void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<Function>(::dlsym(driver, name));
}

fake_gpu::Enqueue driver_enqueue() {
    static const auto found = driver_function<fake_gpu::Enqueue>(fake_gpu::enqueue_name);
    return found;
}

/// A captured exchange runs again at each launch of the graph.
Result start(const std::shared_ptr<const Exchange>& exchange, void* stream) {
    const fake_gpu::Work work = [exchange] {
        auto again = std::make_shared<Exchange>(*exchange);
        again->held.reset();
        again->turn = again->turns->given++;
        return [again] { return again->go_on(); };
    };
    if (driver_enqueue()(stream, &work) != 0) return Result::unhandled_cuda_error;
    return exchange->is_blocking ? Result::success : Result::in_progress;
}

std::shared_ptr<Exchange> exchange_on(Communicator& comm) {
    ++comm.calls;
    if (comm.calls == number("FAKE_NCCL_ERROR_AT", 0)) comm.is_lost = true;
    return std::make_shared<Exchange>(
        Exchange{comm.place, comm.is_aborted, comm.is_blocking, comm.turns, comm.held});
}

/// `taken[r]` will be the input of rank r.
void receive_from_all(Exchange& exchange, Communicator& comm, std::size_t bytes) {
    exchange.taken.assign(static_cast<std::size_t>(comm.world_size), Bytes(bytes));
    for (int peer = 0; peer < comm.world_size; ++peer)
        exchange.receives.push_back({peer, nullptr, nullptr, bytes});
}

void give(Exchange& exchange, int peer, const void* data, std::size_t bytes) {
    exchange.sends.push_back({peer, static_cast<const char*>(data), nullptr, bytes});
}

/// All inputs, combined in the order of ranks.
void combine_into(void* out, Exchange& exchange, std::size_t count, Type type, Op op, int world) {
    const auto combine = ddprun::groups::combiner(element_type(type), operation(op));
    auto& sum = exchange.taken.front();
    for (std::size_t i = 1; i < exchange.taken.size(); ++i)
        combine(sum.data(), sum.data(), exchange.taken[i].data(), count);
    if (op == Op::average) ddprun::groups::divide(sum.data(), count, element_type(type), world);
    if (!sum.empty()) ::memcpy(out, sum.data(), sum.size());
}

/// The result goes to `root`, or to all when it is -1.
Result reduce_to(
    const void* in,
    void* out,
    std::size_t count,
    Type type,
    Op op,
    int root,
    Communicator* comm,
    void* stream) {
    const auto bytes = bytes_of(type, count);
    auto exchange = exchange_on(*comm);
    for (int peer = 0; peer < comm->world_size; ++peer)
        if (root < 0 || peer == root) give(*exchange, peer, in, bytes);
    if (root < 0 || root == comm->rank) {
        receive_from_all(*exchange, *comm, bytes);
        exchange->finish = [=, world = comm->world_size](Exchange& done) {
            combine_into(out, done, count, type, op, world);
        };
        exchange->spoil = [out, bytes] {
            if (bytes > 0) ::memset(out, 0xff, bytes / 2 + 1);
        };
    }
    return start(exchange, stream);
}

std::string call_text(const char* name, std::size_t count, Type type) {
    return std::string{name} + " " + std::to_string(count) + " of type " +
           std::to_string(static_cast<int>(type));
}

}  // namespace

extern "C" Result ncclGetVersion(int* version) {
    if (const auto failed = fake_gpu::injected_fault("ncclGetVersion")) return *failed;
    *version = number("FAKE_NCCL_VERSION", 22809);
    return Result::success;
}

extern "C" Result ncclGetUniqueId(UniqueId* id) {
    if (const auto failed = fake_gpu::injected_fault("ncclGetUniqueId")) return *failed;
    note("ncclGetUniqueId");
    return ::getrandom(id->bytes, sizeof id->bytes, 0) == sizeof id->bytes ? Result::success
                                                                           : Result::system_error;
}

extern "C" const char* ncclGetErrorString(Result result) {
    return result == Result::remote_error ? "remote process exited or there was a network error"
                                          : "invalid usage";
}

extern "C" const char* ncclGetLastError(Communicator*) {
    return is_set("FAKE_NCCL_DUPLICATE_GPU", "1")
               ? "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10"
               : "";
}

static std::string name_of(const UniqueId& id) {
    std::string name = "fake_nccl_";
    for (int i = 0; i < 8; ++i) {
        const auto byte = static_cast<unsigned char>(id.bytes[i]);
        for (const int digit : {byte >> 4, byte & 15})
            name += static_cast<char>(digit < 10 ? '0' + digit : 'a' + digit - 10);
    }
    return name;
}

static std::unique_ptr<Communicator> communicator(const std::string& name, int rank, int world) {
    auto made = std::make_unique<Communicator>();
    made->name = name;
    made->rank = rank;
    made->world_size = world;
    made->place = std::make_shared<fake_gpu::Rendezvous>(name, rank, world);
    return made;
}

extern "C" Result ncclCommInitRankScalable(
    Communicator** comm, int world, int rank, int id_count, UniqueId* ids, Config* config) {
    if (const auto failed = fake_gpu::injected_fault("ncclCommInitRank")) return *failed;
    note(
        "ncclCommInitRank " + std::to_string(rank) + " of " + std::to_string(world) + " with " +
        std::to_string(id_count) + " ids");
    if (config->magic != 0xcafebeef || config->version < 21800) return Result::invalid_argument;
    if (config->blocking != 0 && !is_set("FAKE_NCCL_BLOCKING", "allowed"))
        return Result::invalid_argument;
    if (is_set("FAKE_NCCL_DUPLICATE_GPU", "1")) return Result::invalid_usage;
    auto made = communicator(name_of(*ids), rank, world);
    made->is_blocking = config->blocking != 0;
    *comm = made.release();
    while ((*comm)->is_blocking && !(*comm)->place->is_complete())
        ::sched_yield();
    return (*comm)->is_blocking ? Result::success : Result::in_progress;
}

extern "C" Result ncclCommInitRankConfig(
    Communicator** comm, int world, UniqueId id, int rank, Config* config) {
    return ncclCommInitRankScalable(comm, world, rank, 1, &id, config);
}

extern "C" Result ncclCommInitRank(Communicator** comm, int world, UniqueId id, int rank) {
    Config config;
    config.blocking = 1;
    return ncclCommInitRankScalable(comm, world, rank, 1, &id, &config);
}

extern "C" Result ncclCommSplit(
    Communicator* comm, int color, int key, Communicator** made, Config* config) {
    if (const auto failed = fake_gpu::injected_fault("ncclCommSplit")) return *failed;
    note("ncclCommSplit " + std::to_string(color) + " by " + std::to_string(key));
    if (config->magic != 0xcafebeef || config->version < 21800 || config->blocking != 0)
        return Result::invalid_argument;
    // NCCL also accepts NCCL_SPLIT_NOCOLOR, but when such a split fails, it crashes.
    if (comm->split || comm->turns->now != comm->turns->given || color < 0)
        return Result::invalid_usage;
    *made = nullptr;
    const auto ranks = static_cast<std::size_t>(comm->world_size);
    auto name = comm->name + "_" + std::to_string(++comm->splits) + "_" + std::to_string(color);
    comm->split = std::make_unique<Split>(Split{
        {color, key},
        made,
        std::move(name),
        std::vector<Split::Wish>(ranks),
        std::vector<std::size_t>(ranks),
        std::vector<std::size_t>(ranks)});
    return Result::in_progress;
}

/// Counts the ranks with the same color before a rank, and all of them.
static std::unique_ptr<Communicator> part_of(const Split& split, int own_rank) {
    int rank = 0;
    int world = 0;
    for (int peer = 0; peer < static_cast<int>(split.wishes.size()); ++peer) {
        const auto& wish = split.wishes[static_cast<std::size_t>(peer)];
        if (wish.color != split.mine.color) continue;
        ++world;
        if (std::pair(wish.key, peer) < std::pair(split.mine.key, own_rank)) ++rank;
    }
    return communicator(split.name, rank, world);
}

static bool is_split_over(Communicator& comm) {
    if (!comm.split) return true;
    auto& split = *comm.split;
    const bool fails = is_set("FAKE_NCCL_SPLIT", "fails");
    if (fails) *split.made = new Communicator;
    if (fails || comm.place->is_aborted()) {
        comm.is_lost = true;
        comm.split.reset();
        return true;
    }
    if (is_set("FAKE_NCCL_SPLIT", "hangs")) return false;
    const auto* mine = reinterpret_cast<const char*>(&split.mine);
    bool is_sent = true;
    for (int peer = 0; peer < comm.world_size; ++peer) {
        const auto at = static_cast<std::size_t>(peer);
        auto* const theirs = reinterpret_cast<char*>(&split.wishes[at]);
        is_sent &= comm.place->send(peer, mine, sizeof split.mine, split.sent[at]);
        is_sent &= comm.place->recv(peer, theirs, sizeof split.mine, split.received[at]);
    }
    if (!is_sent) return false;
    if (!split.part) split.part = part_of(split, comm.rank);
    if (!split.part->place->is_complete()) return false;
    *split.made = split.part.release();
    comm.split.reset();
    return true;
}

extern "C" Result ncclCommGetAsyncError(Communicator* comm, Result* result) {
    if (const auto failed = fake_gpu::injected_fault("ncclCommGetAsyncError")) return *failed;
    const bool is_ready =
        comm->place->is_complete() && !is_set("FAKE_NCCL_INIT", "hangs") && is_split_over(*comm) &&
        (!comm->has_left || (comm->place->have_all_left() && !comm->is_in_graph()));
    if (is_set("FAKE_NCCL_NOTICES_DEATHS", "1") && comm->place->has_dead_rank())
        comm->is_lost = true;
    *result = comm->is_lost ? Result::remote_error
              : is_ready    ? Result::success
                            : Result::in_progress;
    return Result::success;
}

extern "C" Result ncclCommFinalize(Communicator* comm) {
    if (const auto failed = fake_gpu::injected_fault("ncclCommFinalize")) return *failed;
    note("ncclCommFinalize");
    comm->has_left = true;
    comm->place->leave();
    return comm->is_blocking ? Result::success : Result::in_progress;
}

extern "C" Result ncclCommDestroy(Communicator* comm) {
    const auto failed = fake_gpu::injected_fault("ncclCommDestroy");
    if (!failed) note("ncclCommDestroy");
    // It is half destroyed: no call may use it again.
    delete comm;
    return failed.value_or(Result::success);
}

extern "C" Result ncclCommAbort(Communicator* comm) {
    if (const auto failed = fake_gpu::injected_fault("ncclCommAbort")) return *failed;
    note("ncclCommAbort");
    while (is_set("FAKE_NCCL_ABORT", "hangs"))
        ::pause();
    *comm->is_aborted = true;
    if (comm->place) comm->place->abort();
    while (comm->is_in_graph())
        ::usleep(1000);
    delete comm;
    return Result::success;
}

static void begin_group() {
    if (group.depth++ == 0) group.exchange.reset();
}

static Result end_group() {
    if (--group.depth > 0 || !group.exchange) return Result::success;
    return start(std::exchange(group.exchange, {}), group.stream);
}

extern "C" Result ncclGroupStart() {
    if (const auto failed = fake_gpu::injected_fault("ncclGroupStart")) return *failed;
    begin_group();
    return Result::success;
}

extern "C" Result ncclGroupEnd() {
    if (const auto failed = fake_gpu::injected_fault("ncclGroupEnd")) {
        --group.depth;
        group.exchange.reset();
        return *failed;
    }
    return end_group();
}

extern "C" Result ncclAllReduce(
    const void* in,
    void* out,
    std::size_t count,
    Type type,
    Op op,
    Communicator* comm,
    void* stream) {
    if (const auto failed = fake_gpu::injected_fault("ncclAllReduce")) return *failed;
    note(call_text("ncclAllReduce", count, type));
    return reduce_to(in, out, count, type, op, -1, comm, stream);
}

extern "C" Result ncclReduce(
    const void* in,
    void* out,
    std::size_t count,
    Type type,
    Op op,
    int root,
    Communicator* comm,
    void* stream) {
    if (const auto failed = fake_gpu::injected_fault("ncclReduce")) return *failed;
    note(call_text("ncclReduce", count, type));
    return reduce_to(in, out, count, type, op, root, comm, stream);
}

extern "C" Result ncclBroadcast(
    const void* in,
    void* out,
    std::size_t count,
    Type type,
    int root,
    Communicator* comm,
    void* stream) {
    if (const auto failed = fake_gpu::injected_fault("ncclBroadcast")) return *failed;
    note(call_text("ncclBroadcast", count, type));
    const auto bytes = bytes_of(type, count);
    auto exchange = exchange_on(*comm);
    if (comm->rank == root)
        for (int peer = 0; peer < comm->world_size; ++peer)
            if (peer != root) give(*exchange, peer, in, bytes);
    if (comm->rank != root)
        exchange->receives.push_back({root, nullptr, static_cast<char*>(out), bytes});
    else if (in != out)
        exchange->finish = [=](Exchange&) { ::memcpy(out, in, bytes); };
    return start(exchange, stream);
}

extern "C" Result ncclAllGather(
    const void* in, void* out, std::size_t count, Type type, Communicator* comm, void* stream) {
    if (const auto failed = fake_gpu::injected_fault("ncclAllGather")) return *failed;
    note(call_text("ncclAllGather", count, type));
    const auto bytes = bytes_of(type, count);
    auto exchange = exchange_on(*comm);
    receive_from_all(*exchange, *comm, bytes);
    for (int peer = 0; peer < comm->world_size; ++peer)
        give(*exchange, peer, in, bytes);
    exchange->finish = [out, bytes](Exchange& done) {
        for (std::size_t i = 0; bytes > 0 && i < done.taken.size(); ++i)
            ::memcpy(static_cast<char*>(out) + i * bytes, done.taken[i].data(), bytes);
    };
    return start(exchange, stream);
}

extern "C" Result ncclReduceScatter(
    const void* in,
    void* out,
    std::size_t count,
    Type type,
    Op op,
    Communicator* comm,
    void* stream) {
    if (const auto failed = fake_gpu::injected_fault("ncclReduceScatter")) return *failed;
    note(call_text("ncclReduceScatter", count, type));
    const auto bytes = bytes_of(type, count);
    auto exchange = exchange_on(*comm);
    receive_from_all(*exchange, *comm, bytes);
    for (int peer = 0; peer < comm->world_size; ++peer)
        give(
            *exchange,
            peer,
            static_cast<const char*>(in) + bytes * static_cast<unsigned>(peer),
            bytes);
    exchange->finish = [=, world = comm->world_size](Exchange& done) {
        combine_into(out, done, count, type, op, world);
    };
    return start(exchange, stream);
}

/// Outside of a group, a call forms its own group.
static Result in_group(
    Communicator* comm, void* stream, const std::function<void(Exchange&)>& add) {
    begin_group();
    if (!group.exchange) group.exchange = exchange_on(*comm);
    group.stream = stream;
    add(*group.exchange);
    const auto result = end_group();
    return group.depth > 0 ? Result::success : result;
}

extern "C" Result ncclSend(
    const void* data, std::size_t count, Type type, int peer, Communicator* comm, void* stream) {
    if (const auto failed = fake_gpu::injected_fault("ncclSend")) return *failed;
    note(call_text("ncclSend", count, type) + " to " + std::to_string(peer));
    return in_group(comm, stream, [&](Exchange& exchange) {
        give(exchange, peer, data, bytes_of(type, count));
    });
}

extern "C" Result ncclRecv(
    void* data, std::size_t count, Type type, int peer, Communicator* comm, void* stream) {
    if (const auto failed = fake_gpu::injected_fault("ncclRecv")) return *failed;
    note(call_text("ncclRecv", count, type) + " from " + std::to_string(peer));
    return in_group(comm, stream, [&](Exchange& exchange) {
        exchange.receives.push_back(
            {peer, nullptr, static_cast<char*>(data), bytes_of(type, count)});
    });
}

extern "C" Result ncclMemAlloc(void** data, std::size_t bytes) {
    if (const auto failed = fake_gpu::injected_fault("ncclMemAlloc")) return *failed;
    note("ncclMemAlloc");
    if (is_set("FAKE_NCCL_MEMORY", "none")) return Result::unhandled_cuda_error;
    unsigned long long pointer = 0;
    const auto allocate =
        driver_function<int (*)(unsigned long long*, std::size_t)>("cuMemAlloc_v2");
    if (allocate(&pointer, bytes) != 0) return Result::unhandled_cuda_error;
    *data = reinterpret_cast<void*>(pointer);
    return Result::success;
}

extern "C" Result ncclMemFree(void* data) {
    if (const auto failed = fake_gpu::injected_fault("ncclMemFree")) return *failed;
    note("ncclMemFree");
    const auto unmap = driver_function<int (*)(unsigned long long, std::size_t)>("cuMemUnmap");
    return unmap(reinterpret_cast<std::uintptr_t>(data), 0) == 0 ? Result::success
                                                                 : Result::unhandled_cuda_error;
}

extern "C" Result ncclCommRegister(Communicator*, void* data, std::size_t, void** handle) {
    if (const auto failed = fake_gpu::injected_fault("ncclCommRegister")) return *failed;
    note("ncclCommRegister");
    *handle = data;
    return Result::success;
}

extern "C" Result ncclCommDeregister(Communicator*, void*) {
    if (const auto failed = fake_gpu::injected_fault("ncclCommDeregister")) return *failed;
    note("ncclCommDeregister");
    return Result::success;
}
