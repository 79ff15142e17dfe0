// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/hosts.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/environment_names.hpp"
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

std::string link_target(const char* path) {
    std::array<char, PATH_MAX> text{};
    const auto size = ::readlink(path, text.data(), text.size());
    return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "?";
}

/// The ranks of one host while they set up shared memory.
class Joining {
public:
    Joining(Hosts::Meeting& meeting, std::string prefix, const std::vector<int>& ranks, int rank)
        : meeting_(meeting),
          store_(meeting.store),
          prefix_(std::move(prefix)),
          ranks_(ranks),
          seat_(static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin())) {}

    /// Null when memory cannot be shared here; the reason is in the store then.
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
        sit_down(*segment);
        store_.set(prefix_ + "socket", handover.name());
        for (int given = 1; given < size();) {
            if (handover.give(
                    segment->descriptor(), Clock::now() + waiting_times::seat_check_interval))
                ++given;
            else if (is_refused())
                return give_up(*segment);
            else
                require_hope();
        }
        while (!is_full(*segment)) {
            if (is_refused()) return give_up(*segment);
            await_seats(*segment);
        }
        store_.set(prefix_ + "verdict", shared_verdict);
        return segment;
    }

    std::shared_ptr<Segment> follow() {
        const auto name = meeting_.await(prefix_ + "socket");
        if (name.empty()) return nullptr;
        auto taken = Handover::take(name, meeting_.until);
        if (const auto* error = std::get_if<GroupError>(&taken)) return refuse(error->text);
        auto opened = Segment::open(std::get<int>(taken), size());
        if (const auto* error = std::get_if<GroupError>(&opened)) return refuse(error->text);
        auto segment = std::get<std::shared_ptr<Segment>>(std::move(opened));
        sit_down(*segment);
        while (!is_full(*segment)) {
            // The leader of a complete host has created its group, which may have failed since.
            if (segment->has_failed() && !is_full(*segment)) return nullptr;
            await_seats(*segment);
        }
        return segment;
    }

    void sit_down(Segment& segment) const {
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
        require_hope();
        for (int rank = 0; rank < segment.ranks(); ++rank)
            if (!segment.seat(rank).arrived.has_reached(1))
                return segment.seat(rank).arrived.sleep(1, waiting_times::seat_check_interval);
    }

    /// Throws when waiting is pointless.
    void require_hope() {
        meeting_.deaths.require_nobody_died(store_);
        if (Clock::now() < meeting_.until) return;
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

    std::shared_ptr<Segment> give_up(Segment& segment) {
        segment.fail(seat_, {GroupError::Kind::other, "memory cannot be shared on this host"});
        store_.set(prefix_ + "verdict", meeting_.await(prefix_ + "refused"));
        return nullptr;
    }

    Hosts::Meeting& meeting_;
    Store& store_;
    std::string prefix_;
    const std::vector<int>& ranks_;
    int seat_;
};

}  // namespace

std::string Hosts::own_id() {
    if (const char* given = ::getenv(environment::host_id); given && *given) return given;
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    // Unix sockets reach as far as the network namespace, pids as far as theirs.
    return boot + " " + link_target("/proc/self/ns/net") + " " + link_target("/proc/self/ns/pid") +
           " " + std::to_string(::geteuid());
}

Hosts Hosts::find(Meeting meeting, const std::string& prefix, int rank, int world_size) {
    const auto id_key = [&](int of) { return prefix + "host_of/" + std::to_string(of); };
    meeting.store.set(id_key(rank), own_id());
    if (rank == 0) {
        // One rank reads all ids for the others.
        std::vector<std::string> ids;
        for (int other = 0; other < world_size; ++other)
            ids.push_back(meeting.await(id_key(other)));
        meeting.store.set(prefix + "hosts", host_numbers(ids));
    }
    const auto numbers = meeting.await(prefix + "hosts");
    const auto candidates = ranks_by_host(numbers, static_cast<std::size_t>(world_size));
    if (candidates.empty())
        throw Error("what the store has about hosts makes no sense: " + numbers);

    const auto prefix_of = [&](const std::vector<int>& ranks) {
        return prefix + "host" + std::to_string(ranks.front()) + "/";
    };
    Hosts hosts;
    for (const auto& ranks : candidates)
        if (ranks.size() > 1 && std::count(ranks.begin(), ranks.end(), rank) > 0)
            hosts.segment_ = Joining(meeting, prefix_of(ranks), ranks, rank).join();
    for (const auto& ranks : candidates) {
        const bool is_host =
            ranks.size() == 1 || meeting.await(prefix_of(ranks) + "verdict") == shared_verdict;
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
