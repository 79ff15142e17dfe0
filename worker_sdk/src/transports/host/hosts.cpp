// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/hosts.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/record/stop.hpp"
#include "worker_sdk/src/transports/host/handover.hpp"
#include "worker_sdk/src/transports/host/peers.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <climits>

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using Clock = Hosts::Clock;
using std::chrono::milliseconds;

const std::string shared_verdict = "shared";

std::string id_key(const std::string& prefix, int rank) {
    return prefix + "host_of/" + std::to_string(rank);
}

std::string link_target(const char* path) {
    std::array<char, PATH_MAX> text{};
    const auto size = ::readlink(path, text.data(), text.size());
    return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "?";
}

/// The ranks of one host while they set up shared memory.
class Joining {
public:
    Joining(
        Hosts::Rendezvous& rendezvous, std::string prefix, const std::vector<int>& ranks, int rank)
        : rendezvous_(rendezvous),
          store_(rendezvous.store),
          prefix_(std::move(prefix)),
          ranks_(ranks),
          seat_(static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin())) {}

    /// Null when memory cannot be shared here; the store then has the reason.
    std::shared_ptr<Segment> join() {
        auto segment = seat_ == 0 ? lead() : follow();
        if (segment) segment->close_descriptor();
        return segment;
    }

private:
    int size() const { return static_cast<int>(ranks_.size()); }

    std::shared_ptr<Segment> lead() {
        auto opened = Handover::open();
        auto created = Segment::create(size());
        if (const auto* error = std::get_if<GroupError>(&opened)) return refuse(error->text);
        if (const auto* error = std::get_if<GroupError>(&created)) return refuse(error->text);
        auto& handover = std::get<Handover>(opened);
        auto segment = std::get<std::shared_ptr<Segment>>(std::move(created));
        take_seat(*segment);
        store_.set(prefix_ + "socket", handover.name());
        for (int given = 1; given < size();) {
            if (handover.give(
                    segment->descriptor(), Clock::now() + waiting_times::seat_check_interval))
                ++given;
            else if (is_refused())
                return abandon(*segment);
            else
                check_still_possible();
        }
        while (!is_full(*segment)) {
            if (is_refused()) return abandon(*segment);
            await_seats(*segment);
        }
        store_.set(prefix_ + "verdict", shared_verdict);
        return segment;
    }

    std::shared_ptr<Segment> follow() {
        const auto name = rendezvous_.await(prefix_ + "socket");
        if (name.empty()) return nullptr;
        auto taken = Handover::take(name, rendezvous_.until);
        if (const auto* error = std::get_if<GroupError>(&taken)) return refuse(error->text);
        auto opened = Segment::open(std::get<int>(taken), size());
        if (const auto* error = std::get_if<GroupError>(&opened)) return refuse(error->text);
        auto segment = std::get<std::shared_ptr<Segment>>(std::move(opened));
        take_seat(*segment);
        while (!is_full(*segment)) {
            // The leader of a complete host has created its group, which may have failed since.
            if (segment->has_failed() && !is_full(*segment)) return nullptr;
            await_seats(*segment);
        }
        return segment;
    }

    void take_seat(Segment& segment) const {
        auto& seat = segment.seat(seat_);
        seat.pid.store(::getpid());
        post_processors(seat);
        seat.arrived.set(1);
    }

    static bool is_full(const Segment& segment) {
        for (int rank = 0; rank < segment.ranks(); ++rank)
            if (!segment.seat(rank).arrived.has_reached(1)) return false;
        return true;
    }

    void await_seats(Segment& segment) {
        check_still_possible();
        for (int rank = 0; rank < segment.ranks(); ++rank)
            if (!segment.seat(rank).arrived.has_reached(1))
                return segment.seat(rank).arrived.sleep(1, waiting_times::seat_check_interval);
    }

    /// Throws as Rendezvous does, and when the deadline has passed.
    void check_still_possible() {
        rendezvous_.require_still_possible();
        if (Clock::now() < rendezvous_.until) return;
        throw Timeout(
            text_of({ranks_[static_cast<std::size_t>(seat_)]}) +
            " could not share memory with its peers on this host: not all of " + text_of(ranks_) +
            " came in time");
    }

    bool is_refused() { return store_.check({prefix_ + "refused"}); }

    std::shared_ptr<Segment> refuse(const std::string& why) {
        store_.set(prefix_ + "refused", why);
        if (seat_ == 0) {
            store_.set(prefix_ + "socket", "");
            store_.set(prefix_ + "verdict", why);
        }
        return nullptr;
    }

    std::shared_ptr<Segment> abandon(Segment& segment) {
        segment.fail(seat_, {GroupError::Kind::other, "memory cannot be shared on this host"});
        store_.set(prefix_ + "verdict", rendezvous_.await(prefix_ + "refused"));
        return nullptr;
    }

    Hosts::Rendezvous& rendezvous_;
    Store& store_;
    std::string prefix_;
    const std::vector<int>& ranks_;
    int seat_;
};

}  // namespace

std::string Hosts::Rendezvous::await(const std::string& key) {
    return deaths.await(store, key, until, [this] { require_no_stop(); });
}

void Hosts::Rendezvous::require_still_possible() {
    deaths.require_no_deaths(store);
    require_no_stop();
}

void Hosts::Rendezvous::require_no_stop() {
    if (!is_stop_announced()) return;
    const auto now = Clock::now();
    if (!stop_seen_at) stop_seen_at = now;
    if (now - *stop_seen_at >= waiting_times::creation_after_stop)
        throw PeerLost("a stop was announced, and not all peers are there to create a group");
}

std::string Hosts::own_id() {
    if (const char* given = ::getenv(environment::host_id); given && *given) return given;
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    // Unix sockets are limited to a network namespace, pids to a pid namespace.
    return boot + " " + link_target("/proc/self/ns/net") + " " + link_target("/proc/self/ns/pid") +
           " " + std::to_string(::geteuid());
}

std::vector<int> Hosts::missing(Store& store, const std::string& prefix, int world_size) {
    std::vector<int> ranks;
    try {
        for (int rank = 0; rank < world_size; ++rank)
            if (!store.check({id_key(prefix, rank)})) ranks.push_back(rank);
    } catch (const Error&) {
        ranks.clear();
    }
    return ranks;
}

Hosts Hosts::find(Rendezvous rendezvous, const std::string& prefix, int rank, int world_size) {
    rendezvous.store.set(id_key(prefix, rank), own_id());
    if (rank == 0) {
        // One rank reads all ids and publishes them for the others.
        std::vector<std::string> ids;
        for (int other = 0; other < world_size; ++other)
            ids.push_back(rendezvous.await(id_key(prefix, other)));
        rendezvous.store.set(prefix + "hosts", host_numbers(ids));
    }
    const auto numbers = rendezvous.await(prefix + "hosts");
    const auto candidates = ranks_by_host(numbers, static_cast<std::size_t>(world_size));
    if (candidates.empty())
        throw Error("what the store has about hosts makes no sense: " + numbers);

    const auto prefix_of = [&](const std::vector<int>& ranks) {
        return prefix + "host" + std::to_string(ranks.front()) + "/";
    };
    Hosts hosts;
    for (const auto& ranks : candidates)
        if (ranks.size() > 1 && std::count(ranks.begin(), ranks.end(), rank) > 0)
            hosts.segment_ = Joining(rendezvous, prefix_of(ranks), ranks, rank).join();
    for (const auto& ranks : candidates) {
        const bool is_host =
            ranks.size() == 1 || rendezvous.await(prefix_of(ranks) + "verdict") == shared_verdict;
        if (is_host) hosts.hosts_.push_back(ranks);
        for (const int one : ranks)
            if (!is_host) hosts.hosts_.push_back({one});
    }
    std::sort(hosts.hosts_.begin(), hosts.hosts_.end());
    for (std::size_t i = 0; i < hosts.hosts_.size(); ++i)
        if (std::count(hosts.hosts_[i].begin(), hosts.hosts_[i].end(), rank) > 0) hosts.own_ = i;
    return hosts;
}

}  // namespace ddprun::groups
