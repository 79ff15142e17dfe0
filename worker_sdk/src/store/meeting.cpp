// SPDX-License-Identifier: Apache-2.0
// How the ranks of a world find its store, and how rank 0 makes one where no launcher does.
#include "ddprun/error.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/random.hpp"
#include "worker_sdk/src/store/connection.hpp"
#include "worker_sdk/src/store/host.hpp"
#include "worker_sdk/src/store/local_address.hpp"
#include "worker_sdk/src/store/meeting_file.hpp"

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
/// At one of several addresses, perhaps of a run that is over; the file is read again after it.
constexpr Milliseconds one_attempt = 300ms;
constexpr Milliseconds between_attempts = 50ms;
constexpr Milliseconds patience_with_the_living = 3s;
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
            if (keys.empty()) return;
            connect(own_way, longest_wait_for_all)->wait(keys, longest_wait_for_all);
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
struct RankTaken {};

/// What all ranks but the first check before they believe to be in the right store, and what the
/// first one lays down there.
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

/// Asks for a while: who does not answer may just stand still. Who refuses is over.
bool is_alive(const MeetingPoint& point) {
    const auto until = Clock::now() + patience_with_the_living;
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
                // That is its answer.
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

struct HostedLease;

/// What this process hosts, by place. It stays until the process ends: other ranks may be in the
/// next group already, in the same store, when this one has just left the last.
struct HostedHere {
    struct Place {
        std::shared_ptr<Hosted> hosted;
        std::weak_ptr<HostedLease> lease;
    };

    std::mutex mutex;
    std::map<std::string, Place> places;
};

/// Ends what is hosted when the process ends; not in a child, which has it without its thread.
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

/// Never destroyed: a Store may be a variable of the program's that outlives all of ours.
HostedHere& hosted_here() {
    static auto& here = *new HostedHere;
    static const EndOfProcess end(here);
    return here;
}

/// What the Stores of one place share. When an exception takes the last of them with it, so it does
/// what is hosted: the other ranks are to hear of it.
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
        // Another Store may have come meanwhile.
        if (found != here.places.end() && found->second.lease.expired()) here.places.erase(found);
    }

    const std::string place;
    const std::shared_ptr<Hosted> hosted;
};

/// The Stores of a process that mean the same place share what it hosts there.
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
    /// Null when no address leads to the store that was meant.
    std::shared_ptr<Connection> store;
    /// Somebody there did not answer in time, and may just stand still.
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

/// A store in which this rank is taken, or which goes away while it is joined, is an earlier run's
/// that has not ended yet: ask again. The last attempt has its time too, though the deadline be
/// past then: it tells what is wrong.
std::shared_ptr<Connection> find_and_join(const World& world, Instant deadline) {
    const Endpoint endpoint{world.master_addr, world.master_port};
    const bool by_file = !world.store_file.empty();
    const auto where = by_file ? meeting_file(world.store_file) : endpoint.to_string();
    for (std::string trouble;; std::this_thread::sleep_for(between_attempts)) {
        const auto left = std::max(left_until(deadline), one_attempt);
        const auto [store, may_answer] =
            by_file ? find_by_file(world) : Found{connect(endpoint, left)};
        try {
            if (store) {
                store->set_reply_timeout(left);
                join(*store, world, where, deadline);
                return store;
            }
            // What was found out before still holds of one that only does not answer now.
            if (trouble.empty() || !may_answer)
                trouble = "nothing that rank 0 of this run has written is at " + world.store_file;
        } catch (const RankTaken&) {
            trouble = "another process is rank " + std::to_string(world.rank) + " at " + where;
        } catch (const PeerLost& lost) {
            trouble = "it went away while rank " + std::to_string(world.rank) +
                      " joined it: " + lost.what();
        }
        if (Clock::now() >= deadline) throw Timeout("store: " + trouble);
    }
}

}  // namespace

std::shared_ptr<Connection> connect(const World& world, Milliseconds timeout) {
    if (!world.is_launched()) return in_process();
    if (!world.rank_0_hosts_store) return connect({world.master_addr, world.master_port}, timeout);
    const auto deadline = Clock::now() + timeout;
    auto store = world.rank == 0 ? open_and_join(world, deadline) : find_and_join(world, deadline);
    // The attempts had less; the program's store may well be slow now and then.
    store->set_reply_timeout(timeout);
    return store;
}

}  // namespace ddprun::store_access
