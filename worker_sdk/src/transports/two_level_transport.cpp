// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/two_level_transport.hpp"

#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::groups {

namespace {

using Kind = Collective::Kind;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

/// Calls up to this size are quick over a network with a short round trip.
constexpr std::size_t most_quick_bytes_of_all = 256 * 1024;

int index_of(const std::vector<int>& ranks, int rank) {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

Outcome TwoLevelTransport::connect() {
    if (!is_leader()) return {};
    auto leaders = way("leaders", leaders_, {});
    auto* const error = std::get_if<GroupError>(&leaders);
    if (!error) return {};
    auto reason = settings_.monitor->explain({}, std::move(*error));
    if (host_) host_->fail(reason);
    return reason;
}

TwoLevelTransport::TwoLevelTransport(Settings settings) : settings_(std::move(settings)) {
    for (const auto& ranks : settings_.hosts) {
        leaders_.push_back(ranks.front());
        all_ranks_.insert(all_ranks_.end(), ranks.begin(), ranks.end());
    }
    const auto smallest = std::min_element(
        settings_.hosts.begin(), settings_.hosts.end(), [](const auto& one, const auto& other) {
            return one.size() < other.size();
        });
    is_by_host_ =
        std::is_sorted(all_ranks_.begin(), all_ranks_.end()) && smallest->size() == largest_host();
    std::sort(all_ranks_.begin(), all_ranks_.end());
    if (settings_.segment)
        host_ = std::make_unique<HostTransport>(
            settings_.segment,
            index_of(own_ranks(), settings_.rank),
            own_ranks(),
            settings_.monitor);
}

Outcome TwoLevelTransport::run(const Collective& collective, milliseconds timeout) {
    switch (collective.kind) {
        case Kind::all_reduce: return all_reduce(collective, timeout);
        case Kind::broadcast: return broadcast(collective, timeout);
        case Kind::reduce_scatter: return reduce_scatter(collective, timeout);
        case Kind::barrier: return barrier(collective, timeout);
        case Kind::send:
        case Kind::recv: return move(collective, timeout);
        case Kind::reduce:
        case Kind::all_gather:
        case Kind::all_gather_v:
        case Kind::all_to_all_v:
        case Kind::split:
        case Kind::gather:
        case Kind::scatter:
        case Kind::all_to_all: break;
    }
    return over("all", all_ranks_, collective, collective, timeout);
}

Outcome TwoLevelTransport::all_reduce(const Collective& collective, milliseconds timeout) {
    auto sum = collective;
    if (sum.op == Op::average) sum.op = Op::sum;
    auto step = sum;
    step.kind = Kind::reduce;
    step.root = 0;
    if (auto error = here(step, collective, timeout)) return error;
    if (auto error = between_leaders(sum, collective, timeout)) return error;
    if (is_leader() && collective.op == Op::average)
        divide(
            collective.data,
            collective.count,
            collective.type,
            static_cast<int>(all_ranks_.size()));
    step.kind = Kind::broadcast;
    return from_leader(step, collective, timeout);
}

Outcome TwoLevelTransport::broadcast(const Collective& collective, milliseconds timeout) {
    const auto root_host = host_of(collective.root);
    auto step = collective;
    if (root_host == settings_.own_host) {
        step.root = index_of(own_ranks(), collective.root);
        if (auto error = here(step, collective, timeout)) return error;
    }
    step.root = static_cast<int>(root_host);
    if (auto error = between_leaders(step, collective, timeout)) return error;
    if (root_host == settings_.own_host) return {};
    step.root = 0;
    return from_leader(step, collective, timeout);
}

Outcome TwoLevelTransport::reduce_scatter(const Collective& collective, milliseconds timeout) {
    auto sum = collective;
    if (sum.op == Op::average) sum.op = Op::sum;

    // The sums of the ranks of this host, in the leader's memory.
    const auto* sums = static_cast<const std::byte*>(collective.input);
    if (host_) {
        auto step = sum;
        step.kind = Kind::reduce;
        step.root = 0;
        step.count = collective.count * all_ranks_.size();
        step.data = const_cast<void*>(collective.input);  // a non-root rank of a reduce only sends
        if (is_leader()) {
            auto* const own = sums_.of(step.bytes());
            std::copy_n(sums, step.bytes(), own);
            step.data = own;
            sums = own;
        }
        if (auto error = here(step, collective, timeout)) return error;
    }

    // The parts of this host, from all ranks.
    std::byte* parts = nullptr;
    if (is_leader()) {
        auto between = sum;
        between.count = collective.count * largest_host();
        parts = host_ || largest_host() > 1 ? parts_.of(between.bytes())
                                            : static_cast<std::byte*>(collective.data);
        between.input = by_host(sums, collective.bytes());
        between.data = parts;
        if (auto error = between_leaders(between, collective, timeout)) return error;
        if (collective.op == Op::average)
            divide(parts, between.count, collective.type, static_cast<int>(all_ranks_.size()));
    }

    if (host_) {
        auto step = collective;
        step.kind = Kind::scatter;
        step.root = 0;
        step.input = parts;
        return from_leader(step, collective, timeout);
    }
    if (parts != collective.data)
        std::copy_n(parts, collective.bytes(), static_cast<std::byte*>(collective.data));
    return {};
}

std::size_t TwoLevelTransport::largest_host() const {
    std::size_t largest = 0;
    for (const auto& ranks : settings_.hosts)
        largest = std::max(largest, ranks.size());
    return largest;
}

/// Rearranges `by_rank`, which has one part for each rank in the order of ranks. The result has one
/// part for each host, all equally long, with the parts of that host's ranks.
const std::byte* TwoLevelTransport::by_host(const std::byte* by_rank, std::size_t part_bytes) {
    if (is_by_host_) return by_rank;
    const auto host_bytes = largest_host() * part_bytes;
    auto* const sorted = sorted_.of(settings_.hosts.size() * host_bytes);
    for (std::size_t host = 0; host < settings_.hosts.size(); ++host) {
        auto* to = sorted + host * host_bytes;
        for (const int rank : settings_.hosts[host])
            to = std::copy_n(by_rank + static_cast<std::size_t>(rank) * part_bytes, part_bytes, to);
        // Padding of a smaller host: it is added up but never used.
        std::fill(to, sorted + (host + 1) * host_bytes, std::byte{});
    }
    return sorted;
}

Outcome TwoLevelTransport::barrier(const Collective& collective, milliseconds timeout) {
    if (auto error = here(collective, collective, timeout)) return error;
    if (auto error = between_leaders(collective, collective, timeout)) return error;
    return from_leader(collective, collective, timeout);
}

Outcome TwoLevelTransport::move(const Collective& message, milliseconds timeout) {
    const int other = message.root == settings_.rank ? message.receiver : message.root;
    if (host_of(other) == settings_.own_host) return host_->run(message, timeout);
    const std::vector<int> both{
        std::min(message.root, message.receiver), std::max(message.root, message.receiver)};
    auto step = message;
    step.root = index_of(both, message.root);
    step.receiver = index_of(both, message.receiver);
    const auto name = "pair" + std::to_string(both[0]) + "-" + std::to_string(both[1]);
    return over(name, both, step, message, timeout);
}

Outcome TwoLevelTransport::here(
    const Collective& step, const Collective& whole, milliseconds timeout) {
    if (!host_) return {};
    return host_->run_step(step, whole, timeout);
}

/// The leader already has its input, and waits only for its own ranks.
Outcome TwoLevelTransport::from_leader(
    const Collective& step, const Collective& whole, milliseconds timeout) {
    return here(step, whole, is_leader() ? timeout : timeout + waiting_times::leader_grace);
}

Outcome TwoLevelTransport::between_leaders(
    const Collective& step, const Collective& whole, milliseconds timeout) {
    if (!is_leader()) return {};
    auto tagged = step;
    tagged.tag = tag_of(whole);
    return over("leaders", leaders_, tagged, whole, timeout);
}

Outcome TwoLevelTransport::over(
    const std::string& name,
    const std::vector<int>& ranks,
    const Collective& step,
    const Collective& whole,
    milliseconds timeout) {
    // This may be the only thread of the group that reports this wait.
    const FailureMonitor::Wait wait{queue_of(whole), Clock::now(), whole};
    bool is_long = false;
    const std::function<void()> during_wait = [&] {
        is_long = true;
        if (is_broken() && settings_.monitor->must_break_connections(wait)) abort_ways();
        settings_.monitor->renew(wait);
    };
    auto opened = way(name, ranks, during_wait);
    Outcome outcome;
    if (auto* error = std::get_if<GroupError>(&opened))
        outcome = std::move(*error);
    else
        outcome = std::get<std::shared_ptr<WireTransport>>(opened)->run_step(
            step, whole, timeout + waiting_times::other_host_grace, during_wait);
    if (!outcome) {
        if (is_long) settings_.monitor->end(wait);
        return {};
    }
    // The ranks of this host wait in shared memory and have no connection.
    outcome = settings_.monitor->explain(wait, std::move(*outcome), suspects_of(ranks, whole));
    if (host_) host_->fail(*outcome);
    return outcome;
}

bool TwoLevelTransport::is_quick(const Collective& collective) const {
    if (collective.has_part_counts()) return false;  // its size is not known yet
    return collective.bytes() <= most_quick_bytes_of_all / all_ranks_.size();
}

/// Which ranks may have caused a Timeout: a rank that was waited for may be waiting itself. When
/// only leaders waited, the ranks of this host have arrived. A rank that is late with a message may
/// be waiting for another rank of its host.
std::vector<int> TwoLevelTransport::suspects_of(
    const std::vector<int>& waiting, const Collective& whole) const {
    const bool is_message = whole.is_point_to_point();
    const int other = whole.root == settings_.rank ? whole.receiver : whole.root;
    std::vector<int> suspects;
    for (const int rank : all_ranks_) {
        const auto host = host_of(rank);
        const bool is_elsewhere = is_message ? host == host_of(other) : host != settings_.own_host;
        const bool has_to_come = waiting == all_ranks_ && rank != settings_.rank;
        if (is_elsewhere || has_to_come) suspects.push_back(rank);
    }
    return suspects;
}

std::variant<std::shared_ptr<WireTransport>, GroupError> TwoLevelTransport::way(
    const std::string& name,
    const std::vector<int>& ranks,
    const std::function<void()>& during_wait) {
    std::unique_lock lock(mutex_);
    auto& way = ways_[name];
    lock.unlock();
    const std::lock_guard opening(way.opening);
    if (way.failure) return *way.failure;
    if (way.is_connected) return way.transport;
    auto opened = settings_.open(name, ranks);
    if (auto* error = std::get_if<GroupError>(&opened)) {
        way.failure = *error;
        return std::move(*error);
    }
    lock.lock();
    way.transport = std::get<std::unique_ptr<WireTransport>>(std::move(opened));
    if (is_aborted_) way.transport->abort();
    lock.unlock();
    way.failure = way.transport->connect(during_wait);
    if (way.failure) return *way.failure;
    way.is_connected = true;
    return way.transport;
}

std::vector<std::shared_ptr<WireTransport>> TwoLevelTransport::open_ways() {
    std::vector<std::shared_ptr<WireTransport>> open;
    const std::lock_guard lock(mutex_);
    for (const auto& [name, way] : ways_)
        if (way.transport) open.push_back(way.transport);
    return open;
}

void TwoLevelTransport::abort() {
    {
        const std::lock_guard lock(mutex_);
        is_aborted_ = true;
    }
    if (host_) host_->abort();
    abort_ways();
}

void TwoLevelTransport::abort_ways() {
    for (const auto& transport : open_ways())
        transport->abort();
}

std::vector<int> TwoLevelTransport::missing() {
    if (!host_) return {};
    auto late = host_->missing();
    std::erase(late, own_ranks().front());
    return late;
}

bool TwoLevelTransport::is_broken() {
    const auto ways = open_ways();
    return std::any_of(
        ways.begin(), ways.end(), [](const auto& transport) { return transport->is_broken(); });
}

std::size_t TwoLevelTransport::host_of(int rank) const {
    const auto& hosts = settings_.hosts;
    return static_cast<std::size_t>(
        std::find_if(
            hosts.begin(),
            hosts.end(),
            [rank](const auto& ranks) {
                return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
            }) -
        hosts.begin());
}

}  // namespace ddprun::groups
