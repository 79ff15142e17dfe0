// SPDX-License-Identifier: Apache-2.0
// How the ranks of a world find its store, and how rank 0 makes one where no launcher does.
#include "ddprun/error.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/random.hpp"
#include "worker_sdk/src/store/connection.hpp"
#include "worker_sdk/src/store/host.hpp"
#include "worker_sdk/src/store/local_address.hpp"
#include "worker_sdk/src/store/meeting_file.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace ddprun::store_access {
namespace {

using namespace std::chrono_literals;

constexpr const char* token_key = "ddprun/meeting/token";
constexpr const char* size_key = "ddprun/meeting/world_size";
constexpr const char* rank_key = "ddprun/meeting/rank/";
/// At one of several addresses, perhaps of a run that is over; the file is read again after it.
constexpr Milliseconds one_attempt = 300ms;
constexpr Milliseconds between_attempts = 50ms;
constexpr Milliseconds longest_wait_for_all = 10s;

std::string fresh_token() {
    auto random = seeded_by_the_system();
    return make_nonce(random).to_string();
}

/// Tells this process from every other, also from an earlier one with the same pid.
const std::string& process_token() {
    static const std::string token = fresh_token();
    return token;
}

Milliseconds left_until(Instant deadline) {
    return std::max(std::chrono::ceil<Milliseconds>(deadline - Clock::now()), Milliseconds{1});
}

/// The store of a world whose rank 0 is here. Ends in steps: all ranks have come, or have had ten
/// seconds for it; nobody is sent here any more; nobody is connected any more (StoreHost).
struct Hosted {
    Hosted() = default;
    Hosted(const Hosted&) = delete;
    Hosted& operator=(const Hosted&) = delete;
    ~Hosted() {
        if (std::uncaught_exceptions() == 0) wait_for_all();
    }

    void wait_for_all() const noexcept {
        try {
            std::vector<std::string> keys;
            for (int rank = 0; rank < world_size; ++rank)
                keys.push_back(rank_key + std::to_string(rank));
            if (!keys.empty()) connect(own_way, one_attempt)->wait(keys, longest_wait_for_all);
        } catch (const std::exception&) {
            // Late ones will say themselves that nobody answers.
        }
    }

    std::shared_ptr<StoreHost> host;
    std::unique_ptr<PublishedMeeting> published;
    Endpoint own_way;
    /// 0 until this rank has joined: then nobody is waited for.
    std::atomic<int> world_size = 0;
};

/// In the store of another run, or a second process with this rank: not the one that is looked for.
struct RankTaken {
    std::string where;
};

/// What all ranks but the first check before they believe to be in the right store, and what the
/// first one lays down there.
void join(Connection& store, const World& world, const std::string& where, Instant deadline) {
    const auto size = std::to_string(world.world_size);
    const auto key = rank_key + std::to_string(world.rank);
    if (store.compare_set(key, "", process_token()) != process_token()) throw RankTaken{where};
    if (world.rank == 0) return store.set(size_key, size);
    const auto told = store.get(size_key, left_until(deadline));
    if (told != size)
        throw Mismatch(
            "rank " + std::to_string(world.rank) + " was told a world of " + size + ", rank 0 at " +
            where + " one of " + told.substr(0, 32));
}

bool is_alive(const MeetingPoint& point) {
    for (const auto& address : point.addresses)
        try {
            auto store = connect({address, point.port}, one_attempt);
            if (store->check({token_key}) && store->get(token_key, one_attempt) == point.token)
                return true;
        } catch (const Error&) {
            // That is the answer.
        }
    return false;
}

std::shared_ptr<StoreHost> listen(const std::string& host, std::uint16_t port) {
    auto opened = StoreHost::listen(host, port);
    if (!opened)
        throw UsageError(
            "rank 0 serves the store here, but cannot: " + opened.error().describe() +
            (port == 0 ? "" : "; another job, or another program, has it: choose another port"));
    return *opened;
}

std::shared_ptr<Hosted> host_at_address(const World& world) {
    auto hosted = std::make_shared<Hosted>();
    const bool is_local = world.master_addr == "localhost" || is_loopback(world.master_addr);
    const auto numeric = world.master_addr == "localhost" ? "127.0.0.1" : world.master_addr;
    hosted->host = listen(is_local ? numeric : "", world.master_port);
    hosted->own_way = {world.master_addr, world.master_port};
    return hosted;
}

std::shared_ptr<Hosted> host_by_file(const World& world, Instant deadline) {
    const auto file = meeting_file(world.store_file);
    // A store that is alive is an earlier run's on its way out, or another job's.
    for (auto point = read_meeting_file(file); point && is_alive(*point);
         point = read_meeting_file(file)) {
        if (Clock::now() >= deadline)
            throw UsageError(
                "init method file://" + world.store_file +
                ": another job uses it (its store is at " +
                Endpoint{point->addresses.front(), point->port}.to_string() + ")");
        std::this_thread::sleep_for(between_attempts);
    }
    auto hosted = std::make_shared<Hosted>();
    hosted->host = listen("", 0);
    MeetingPoint point{fresh_token(), hosted->host->port(), addresses_of_this_machine()};
    if (!world.node_addr.empty()) point.addresses.insert(point.addresses.begin(), world.node_addr);
    if (point.addresses.empty()) throw UsageError("this machine has no network address");
    constexpr std::size_t most = 32;
    point.addresses.resize(std::min(point.addresses.size(), most));
    hosted->own_way = {point.addresses.front(), point.port};
    connect({point.addresses.front(), point.port}, left_until(deadline))
        ->set(token_key, point.token);
    hosted->published = std::make_unique<PublishedMeeting>(file, std::move(point));
    return hosted;
}

/// The Stores of a process that mean the same place share what it hosts there.
std::shared_ptr<Hosted> hosted_for(const World& world, Instant deadline) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<Hosted>> all;
    const auto place = world.store_file.empty()
                           ? Endpoint{world.master_addr, world.master_port}.to_string()
                           : world.store_file;
    const std::lock_guard lock(mutex);
    auto hosted = all[place].lock();
    if (!hosted) {
        hosted = world.store_file.empty() ? host_at_address(world) : host_by_file(world, deadline);
        all[place] = hosted;
    }
    return hosted;
}

std::shared_ptr<Connection> open_and_join(const World& world, Instant deadline) {
    const auto hosted = hosted_for(world, deadline);
    auto store = connect(hosted->own_way, left_until(deadline), hosted);
    join(*store, world, hosted->own_way.to_string(), deadline);
    hosted->world_size = world.world_size;
    return store;
}

/// Null when none of its addresses leads to the store that it is about.
std::shared_ptr<Connection> connect_to(const MeetingPoint& point, Instant deadline) {
    for (const auto& address : point.addresses)
        try {
            const Endpoint endpoint{address, point.port};
            auto store = connect(endpoint, std::min(one_attempt, left_until(deadline)));
            if (store->check({token_key}) && store->get(token_key, one_attempt) == point.token)
                return store;
        } catch (const Error&) {
            // An address that is not reachable from here, or a run that is over.
        }
    return nullptr;
}

std::shared_ptr<Connection> find_by_file(const World& world, Instant deadline) {
    const auto file = meeting_file(world.store_file);
    const auto point = read_meeting_file(file);
    if (!point) return nullptr;
    auto store = connect_to(*point, deadline);
    if (store) join(*store, world, file, deadline);
    return store;
}

std::shared_ptr<Connection> find_at_address(const World& world, Instant deadline) {
    const Endpoint endpoint{world.master_addr, world.master_port};
    auto store = connect(endpoint, left_until(deadline));
    join(*store, world, endpoint.to_string(), deadline);
    return store;
}

/// A store in which this rank is taken is an earlier run's that has not ended yet: ask again.
std::shared_ptr<Connection> find_and_join(const World& world, Instant deadline) {
    for (std::string trouble;; std::this_thread::sleep_for(between_attempts)) {
        try {
            auto store = world.store_file.empty() ? find_at_address(world, deadline)
                                                  : find_by_file(world, deadline);
            if (store) return store;
            trouble = "nothing that rank 0 of this run has written is at " + world.store_file;
        } catch (const RankTaken& taken) {
            trouble =
                "another process is rank " + std::to_string(world.rank) + " at " + taken.where;
        }
        if (Clock::now() >= deadline) throw Timeout("store: " + trouble);
    }
}

}  // namespace

std::shared_ptr<Connection> connect(const World& world, Milliseconds timeout) {
    if (!world.is_launched()) return in_process();
    if (!world.rank_0_hosts_store) return connect({world.master_addr, world.master_port}, timeout);
    const auto deadline = Clock::now() + timeout;
    try {
        return world.rank == 0 ? open_and_join(world, deadline) : find_and_join(world, deadline);
    } catch (const RankTaken& taken) {
        throw UsageError("another process is rank 0 at " + taken.where);
    }
}

}  // namespace ddprun::store_access
