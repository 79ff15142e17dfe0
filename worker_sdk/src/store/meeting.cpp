// SPDX-License-Identifier: Apache-2.0
// How the ranks of a world find its store, and how rank 0 makes one where no launcher does.
#include "ddprun/error.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/random.hpp"
#include "worker_sdk/src/store/connection.hpp"
#include "worker_sdk/src/store/host.hpp"
#include "worker_sdk/src/store/local_address.hpp"
#include "worker_sdk/src/store/meeting_file.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <unistd.h>

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
constexpr auto one_attempt = waiting_times::rendezvous_attempt_timeout;

std::string fresh_token() {
    auto random = seeded_by_the_system();
    return make_nonce(random).to_string();
}

/// Identifies this process, also against an earlier one with the same pid.
const std::string& process_token() {
    static const std::string token = fresh_token();
    return token;
}

Milliseconds left_until(Instant deadline) {
    return std::max(std::chrono::ceil<Milliseconds>(deadline - Clock::now()), Milliseconds{1});
}

/// The store of a world whose rank 0 is this process. Ends in steps: waits until all ranks have
/// joined, ten seconds at most; removes the published address; waits until no client is connected
/// (StoreHost).
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
            if (keys.empty()) return;
            connect(own_way, waiting_times::all_ranks_timeout)
                ->wait(keys, waiting_times::all_ranks_timeout);
        } catch (const std::exception&) {
            // Late ranks report the missing store themselves.
        }
    }

    std::shared_ptr<StoreHost> host;
    std::unique_ptr<PublishedMeeting> published;
    Endpoint own_way;
    /// 0 until this rank has joined: then no rank is waited for.
    std::atomic<int> world_size = 0;
};

/// The rank number is claimed by another process: the store of another run, or a duplicate rank.
struct RankTaken {};

/// Claims this rank's number. Rank 0 writes the world size into the store; the other ranks compare
/// it with theirs.
void join(Connection& store, const World& world, const std::string& where, Instant deadline) {
    const auto size = std::to_string(world.world_size);
    const auto key = rank_key + std::to_string(world.rank);
    if (store.compare_set(key, "", process_token()) != process_token()) throw RankTaken{};
    if (world.rank == 0) return store.set(size_key, size);
    const auto told = store.get(size_key, left_until(deadline));
    if (told != size)
        throw Mismatch(
            "rank " + std::to_string(world.rank) + " was told a world of " + size + ", rank 0 at " +
            where + " one of " + told.substr(0, 32));
}

/// Retries for a while: a server without an answer may only be stopped. One that refuses has ended.
bool is_alive(const MeetingPoint& point) {
    const auto until = Clock::now() + waiting_times::silent_server_timeout;
    for (bool may_answer = true; may_answer && Clock::now() < until;) {
        may_answer = false;
        for (const auto& address : point.addresses)
            try {
                auto store = connect({address, point.port}, one_attempt);
                if (store->check({token_key}) && store->get(token_key, one_attempt) == point.token)
                    return true;
            } catch (const Timeout&) {
                may_answer = true;
            } catch (const Error&) {
                // Refused, or without the token.
            }
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
    // A store that answers belongs to an earlier run that is ending, or to another job.
    for (auto point = read_meeting_file(file); point && is_alive(*point);
         point = read_meeting_file(file)) {
        if (Clock::now() >= deadline)
            throw UsageError(
                "init method file://" + world.store_file +
                ": another job uses it (its store is at " +
                Endpoint{point->addresses.front(), point->port}.to_string() + ")");
        std::this_thread::sleep_for(waiting_times::rendezvous_attempt_interval);
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

struct HostedLease;

/// What this process hosts, by place. It stays until the process ends: other ranks may already use
/// the same store for the next group when this one has just left the last.
struct HostedHere {
    struct Place {
        std::shared_ptr<Hosted> hosted;
        std::weak_ptr<HostedLease> lease;
    };

    std::mutex mutex;
    std::map<std::string, Place> places;
};

/// Ends the hosted stores when the process ends; not in a forked child, which has no copy of the
/// thread.
struct EndOfProcess {
    explicit EndOfProcess(HostedHere& all) : here(all) {}
    EndOfProcess(const EndOfProcess&) = delete;
    EndOfProcess& operator=(const EndOfProcess&) = delete;
    ~EndOfProcess() {
        if (::getpid() != owner) return;
        std::map<std::string, HostedHere::Place> ending;
        const std::lock_guard lock(here.mutex);
        ending.swap(here.places);
    }

    HostedHere& here;
    const pid_t owner = ::getpid();
};

/// Never destroyed: a static Store of the program may outlive the SDK's static variables.
HostedHere& hosted_here() {
    static auto& here = *new HostedHere;
    static const EndOfProcess end(here);
    return here;
}

/// What the Stores of one place share. When an exception destroys the last of them, the hosted
/// store is closed too, so that the other ranks notice.
struct HostedLease {
    HostedLease(std::string at, std::shared_ptr<Hosted> what)
        : place(std::move(at)),
          hosted(std::move(what)) {}
    HostedLease(const HostedLease&) = delete;
    HostedLease& operator=(const HostedLease&) = delete;
    ~HostedLease() {
        if (std::uncaught_exceptions() == 0) return;
        auto& here = hosted_here();
        const std::lock_guard lock(here.mutex);
        const auto found = here.places.find(place);
        // Another Store may have been created meanwhile.
        if (found != here.places.end() && found->second.lease.expired()) here.places.erase(found);
    }

    const std::string place;
    const std::shared_ptr<Hosted> hosted;
};

/// The Stores of a process with the same place share the store hosted there.
std::shared_ptr<HostedLease> hosted_for(const World& world, Instant deadline) {
    const auto place = world.store_file.empty()
                           ? Endpoint{world.master_addr, world.master_port}.to_string()
                           : world.store_file;
    auto& here = hosted_here();
    const std::lock_guard lock(here.mutex);
    auto& [hosted, known_lease] = here.places[place];
    if (!hosted)
        hosted = world.store_file.empty() ? host_at_address(world) : host_by_file(world, deadline);
    auto lease = known_lease.lock();
    if (!lease) known_lease = lease = std::make_shared<HostedLease>(place, hosted);
    return lease;
}

std::shared_ptr<Connection> open_and_join(const World& world, Instant deadline) {
    const auto lease = hosted_for(world, deadline);
    const auto& hosted = lease->hosted;
    auto store = connect(hosted->own_way, left_until(deadline), lease);
    const auto where = hosted->own_way.to_string();
    try {
        join(*store, world, where, deadline);
    } catch (const RankTaken&) {
        throw UsageError("another process is rank 0 at " + where);
    }
    hosted->world_size = world.world_size;
    return store;
}

struct Found {
    /// Null when no address leads to the right store.
    std::shared_ptr<Connection> store;
    /// A server did not answer in time, and may only be stopped.
    bool may_answer = false;
};

Found connect_to(const MeetingPoint& point) {
    Found found;
    for (const auto& address : point.addresses)
        try {
            const Endpoint endpoint{address, point.port};
            auto store = connect(endpoint, one_attempt);
            if (store->check({token_key}) && store->get(token_key, one_attempt) == point.token)
                return {std::move(store)};
        } catch (const Timeout&) {
            found.may_answer = true;
        } catch (const Error&) {
            // An address that is not reachable from here, or a run that is over.
        }
    return found;
}

Found find_by_file(const World& world) {
    const auto point = read_meeting_file(meeting_file(world.store_file));
    return point ? connect_to(*point) : Found{};
}

/// A store in which this rank's number is claimed, or which closes while this rank joins, belongs
/// to an earlier run that has not ended yet: try again. The last attempt has its full time, even
/// beyond the deadline, since its error is the one reported.
std::shared_ptr<Connection> find_and_join(const World& world, Instant deadline) {
    const Endpoint endpoint{world.master_addr, world.master_port};
    const bool by_file = !world.store_file.empty();
    const auto where = by_file ? meeting_file(world.store_file) : endpoint.to_string();
    for (std::string problem;;
         std::this_thread::sleep_for(waiting_times::rendezvous_attempt_interval)) {
        const auto left = std::max(left_until(deadline), one_attempt);
        const auto [store, may_answer] =
            by_file ? find_by_file(world) : Found{connect(endpoint, left)};
        try {
            if (store) {
                store->set_reply_timeout(left);
                join(*store, world, where, deadline);
                return store;
            }
            // An earlier finding is kept for a server that only does not answer now.
            if (problem.empty() || !may_answer)
                problem = "nothing that rank 0 of this run has written is at " + world.store_file;
        } catch (const RankTaken&) {
            problem = "another process is rank " + std::to_string(world.rank) + " at " + where;
        } catch (const PeerLost& lost) {
            problem = "it went away while rank " + std::to_string(world.rank) +
                      " joined it: " + lost.what();
        }
        if (Clock::now() >= deadline) throw Timeout("store: " + problem);
    }
}

}  // namespace

std::shared_ptr<Connection> connect(const World& world, Milliseconds timeout) {
    if (!world.is_launched()) return in_process();
    if (!world.rank_0_hosts_store) return connect({world.master_addr, world.master_port}, timeout);
    const auto deadline = Clock::now() + timeout;
    auto store = world.rank == 0 ? open_and_join(world, deadline) : find_and_join(world, deadline);
    // The attempts had a shorter timeout; later replies may take longer.
    store->set_reply_timeout(timeout);
    return store;
}

}  // namespace ddprun::store_access
