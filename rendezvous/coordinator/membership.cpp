// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/membership.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun::coordinator {
namespace membership {
namespace {

/// Sorts new nodes after all others.
int previous_place(const Member& member) {
    return member.group_rank.value_or(std::numeric_limits<int>::max());
}

/// How many nodes are admitted: all nodes without a hold, and held ones only as far as needed.
std::size_t admitted_count(std::size_t free, std::size_t held, std::size_t min) {
    return std::max(free, std::min(free + held, min));
}

std::string value_text(Duration length) {
    return seconds_text(length);
}

std::string value_text(int count) {
    return std::to_string(count);
}

std::string codes_text(const std::vector<int>& codes) {
    std::string text;
    for (const int code : codes)
        text += (text.empty() ? "" : ",") + std::to_string(code);
    return text.empty() ? "none" : text;
}

}  // namespace
}  // namespace membership

std::string Member::name() const {
    return host() + " (pid " + std::to_string(join.node.pid) + ")";
}

std::string_view name_of(Member::State state) {
    switch (state) {
        case Member::State::ready: return "ready";
        case Member::State::starting: return "starting";
        case Member::State::running: return "running";
        case Member::State::succeeded: return "succeeded";
        case Member::State::stopping: return "stopping";
        case Member::State::out: return "out";
    }
    contradiction("a member in no state", __FILE__, __LINE__);
}

void Membership::begin_event() {
    counts();
    for (auto* entry : open_)
        if (entry) entry->open_index.reset();
    open_.clear();
}

Membership::Counts Membership::counts_of(const Member& member) {
    const bool is_candidate = member.is_candidate();
    Counts counts;
    counts.free = is_candidate && !member.hold ? 1 : 0;
    counts.held = is_candidate && member.hold ? 1 : 0;
    counts.starting = member.state == Member::State::starting ? 1 : 0;
    counts.stopping = member.state == Member::State::stopping ? 1 : 0;
    counts.standby = member.group_rank ? 0 : 1;
    counts.connected = member.is_connected ? 1 : 0;
    return counts;
}

Membership::Counts& Membership::Counts::operator+=(const Counts& other) {
    free += other.free;
    held += other.held;
    starting += other.starting;
    stopping += other.stopping;
    standby += other.standby;
    connected += other.connected;
    return *this;
}

Membership::Counts& Membership::Counts::operator-=(const Counts& other) {
    free -= other.free;
    held -= other.held;
    starting -= other.starting;
    stopping -= other.stopping;
    standby -= other.standby;
    connected -= other.connected;
    return *this;
}

void Membership::check() const {
    auto left = counts_;
    for (const auto& [nonce, entry] : by_nonce_) {
        require(
            entry.open_index || entry.counted == counts_of(entry.member),
            "a member that changes was handed out for it");
        left -= entry.counted;
    }
    require(left == Counts{}, "each member is counted once");
}

Member* Membership::open(Entry& entry) {
    if (!entry.open_index) {
        entry.open_index = open_.size();
        open_.push_back(&entry);
    }
    return &entry.member;
}

const Membership::Counts& Membership::counts() {
    for (auto* entry : open_) {
        if (!entry) continue;
        counts_ -= entry->counted;
        entry->counted = counts_of(entry->member);
        counts_ += entry->counted;
    }
    return counts_;
}

Member& Membership::add(Member member) {
    member.arrival = next_arrival_++;
    const auto nonce = member.nonce();
    const auto [place, is_new] =
        by_nonce_.emplace(nonce, Entry{std::move(member), {}, std::nullopt});
    require(is_new, "a node is added once");
    auto& entry = place->second;
    by_arrival_.emplace(entry.member.arrival, &entry);
    return *open(entry);
}

void Membership::remove(const Nonce& nonce) {
    const auto place = by_nonce_.find(nonce);
    require(place != by_nonce_.end(), "only a member is removed");
    auto& entry = place->second;
    counts_ -= entry.counted;
    if (entry.open_index) open_[*entry.open_index] = nullptr;
    by_arrival_.erase(entry.member.arrival);
    by_nonce_.erase(place);
}

Member* Membership::find(const Nonce& nonce) {
    const auto place = by_nonce_.find(nonce);
    return place == by_nonce_.end() ? nullptr : open(place->second);
}

const Member* Membership::find(const Nonce& nonce) const {
    const auto place = by_nonce_.find(nonce);
    return place == by_nonce_.end() ? nullptr : &place->second.member;
}

std::size_t Membership::candidate_count(std::size_t min) {
    const auto& now = counts();
    return membership::admitted_count(now.free, now.held, min);
}

std::size_t Membership::starting_count() {
    return counts().starting;
}

std::size_t Membership::stopping_count() {
    return counts().stopping;
}

std::size_t Membership::standby_count() {
    return counts().standby;
}

std::size_t Membership::connected_count() {
    return counts().connected;
}

bool Membership::has_staying() const {
    return std::any_of(by_nonce_.begin(), by_nonce_.end(), [](const auto& entry) {
        return entry.second.member.stays();
    });
}

std::size_t Membership::staying_count() const {
    return static_cast<std::size_t>(
        std::count_if(by_nonce_.begin(), by_nonce_.end(), [](const auto& entry) {
            return entry.second.member.stays();
        }));
}

std::vector<Member*> Membership::standbys() {
    auto found = by_arrival();
    std::erase_if(found, [](const Member* member) { return member->group_rank.has_value(); });
    return found;
}

std::vector<Member*> Membership::by_arrival() {
    std::vector<Member*> members;
    members.reserve(by_arrival_.size());
    for (const auto& [arrival, entry] : by_arrival_)
        members.push_back(open(*entry));
    return members;
}

std::vector<const Member*> Membership::by_arrival() const {
    std::vector<const Member*> members;
    members.reserve(by_arrival_.size());
    for (const auto& [arrival, entry] : by_arrival_)
        members.push_back(&entry->member);
    return members;
}

std::vector<Member*> choose_members(Membership& members, std::size_t min, std::size_t most) {
    std::vector<Member*> chosen;
    for (auto* member : members.by_arrival())
        if (member->is_candidate()) chosen.push_back(member);
    const auto first_held = std::stable_partition(
        chosen.begin(), chosen.end(), [](const Member* member) { return !member->hold; });
    std::stable_sort(chosen.begin(), first_held, [](const Member* a, const Member* b) {
        return membership::previous_place(*a) < membership::previous_place(*b);
    });
    std::stable_sort(first_held, chosen.end(), [](const Member* a, const Member* b) {
        return a->hold->ends_at < b->hold->ends_at;
    });
    const auto free = static_cast<std::size_t>(first_held - chosen.begin());
    chosen.resize(std::min(most, membership::admitted_count(free, chosen.size() - free, min)));
    return chosen;
}

std::string disagreement(const control::Join& job, const control::Join& node) {
    using namespace membership;
    // Both hosts are named: the text is in the refused node's report and in the server's log.
    const auto on = [is_same_host = job.node.host == node.node.host](const control::Node& one) {
        return one.host + (is_same_host ? " (pid " + std::to_string(one.pid) + ")" : "");
    };
    const auto differs = [&](const char* what, const std::string& ours, const std::string& theirs) {
        return std::string{what} + " is " + theirs + " on " + on(node.node) + " and " + ours +
               " in the job started on " + on(job.node);
    };
    // `otherwise`: the text for a node without the option.
    const auto differs_optionally =
        [&](const char* what, const auto& a, const auto& b, const char* otherwise) {
            const auto shown = [&](const auto& given) {
                return given ? value_text(*given) : std::string{otherwise};
            };
            return differs(what, shown(a), shown(b));
        };
    const auto& ours = job.settings;
    const auto& theirs = node.settings;
    const auto kind = [](bool is_static) { return std::string{is_static ? "static" : "c10d"}; };
    if (ours.is_static != theirs.is_static)
        return differs("--rdzv-backend", kind(ours.is_static), kind(theirs.is_static));
    if (job.node.user != node.node.user)
        return differs(
            "the user id", std::to_string(job.node.user), std::to_string(node.node.user));
    if (job.nodes.unit != node.nodes.unit)
        return differs(
            "--node-unit",
            std::to_string(job.nodes.unit.value_or(1)),
            std::to_string(node.nodes.unit.value_or(1)));
    if (job.nodes != node.nodes)
        return differs("--nnodes", control::describe(job.nodes), control::describe(node.nodes));
    if (job.max_restarts != node.max_restarts)
        return differs(
            "--max-restarts", std::to_string(job.max_restarts), std::to_string(node.max_restarts));
    const std::array limits{
        std::pair{"join_timeout", &control::Settings::join_timeout},
        std::pair{"last_call_timeout", &control::Settings::last_call_timeout},
        std::pair{"the lease", &control::Settings::lease},
        std::pair{"--shutdown-timeout", &control::Settings::grace}};
    for (const auto& [name, limit] : limits)
        if (ours.*limit != theirs.*limit)
            return differs(name, seconds_text(ours.*limit), seconds_text(theirs.*limit));
    if (ours.replacement_timeout != theirs.replacement_timeout)
        return differs_optionally(
            "--replacement-timeout",
            ours.replacement_timeout,
            theirs.replacement_timeout,
            "as join_timeout");
    if (ours.late_nodes != theirs.late_nodes)
        return differs(
            "--late-nodes",
            std::string{control::name_of(ours.late_nodes)},
            std::string{control::name_of(theirs.late_nodes)});
    if (ours.store_access != theirs.store_access) {
        // The node's workers could not use the other nodes' stores, and other workers could not use
        // its store.
        const auto name = [](control::StoreAccess access) {
            return std::string{control::name_of(access)} +
                   (access == control::StoreAccess::direct ? " (as of an older ddprun)" : "");
        };
        return differs("--store-access", name(ours.store_access), name(theirs.store_access));
    }
    if (ours.hang_after != theirs.hang_after)
        return differs_optionally("--hang-after", ours.hang_after, theirs.hang_after, "not given");
    if (ours.health_timeout != theirs.health_timeout)
        return differs_optionally(
            "--health-timeout",
            ours.health_timeout,
            theirs.health_timeout,
            "none, without --health-check,");
    if (ours.on_hang != theirs.on_hang)
        return differs(
            "--on-hang",
            std::string{control::name_of(ours.on_hang)},
            std::string{control::name_of(theirs.on_hang)});
    if (ours.recovery != theirs.recovery)
        return differs(
            "--recovery",
            std::string{control::name_of(ours.recovery)},
            std::string{control::name_of(theirs.recovery)});
    if (ours.time_to_hold() != theirs.time_to_hold())
        return differs(
            "--recovery-timeout",
            seconds_text(ours.time_to_hold()),
            seconds_text(theirs.time_to_hold()));
    if (ours.max_losses != theirs.max_losses)
        return differs(
            "--max-losses", std::to_string(ours.max_losses), std::to_string(theirs.max_losses));
    const std::array pauses{
        std::pair{"--restart-delay", &control::RestartPolicy::shortest_delay},
        std::pair{"the longest --restart-delay", &control::RestartPolicy::longest_delay},
        std::pair{"--restart-refill", &control::RestartPolicy::refill_after}};
    for (const auto& [name, pause] : pauses)
        if (ours.restart.*pause != theirs.restart.*pause)
            return differs(
                name, seconds_text(ours.restart.*pause), seconds_text(theirs.restart.*pause));
    if (ours.restart.rounds_without_progress != theirs.restart.rounds_without_progress)
        return differs_optionally(
            "--stop-without-progress",
            ours.restart.rounds_without_progress,
            theirs.restart.rounds_without_progress,
            "not given");
    if (ours.restart.final_codes != theirs.restart.final_codes)
        return differs(
            "--no-restart-on",
            codes_text(ours.restart.final_codes),
            codes_text(theirs.restart.final_codes));
    return {};
}

}  // namespace ddprun::coordinator
