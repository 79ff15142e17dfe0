// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/group_context.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::nccl {

namespace {

using groups::Collective;
using groups::FailureDetector;
using groups::FailureMonitor;
using groups::GroupError;
using groups::Outcome;
using std::chrono::milliseconds;

}  // namespace

GroupContext::GroupContext(Settings settings)
    : settings_(std::move(settings)),
      begun_at_(Clock::now()) {}

GroupContext::Wait::Wait(GroupContext& context)
    : context_(context),
      wait_{FailureMonitor::Queue::group, context.begun_at_, {}},
      until_(context.begun_at_ + context.timeout()) {}

GroupContext::Wait::Wait(GroupContext& context, const Collective& collective, milliseconds timeout)
    : context_(context),
      wait_{groups::queue_of(collective), Clock::now(), collective},
      until_(wait_.since + timeout) {}

Deadline GroupContext::Wait::deadline() {
    return {until_, [this] { return has_failed(); }};
}

void GroupContext::Wait::end() {
    if (is_monitored_) context_.settings_.monitor->end(wait_);
}

bool GroupContext::Wait::has_failed() {
    is_monitored_ = true;
    return context_.settings_.monitor->renew(wait_).has_value();
}

bool GroupContext::has_failed() {
    return Wait(*this).has_failed();
}

Outcome GroupContext::set(const std::string& key, const std::string& value, const Wait& wait) {
    return guarded(wait, [&] { settings_.store.set(settings_.prefix + key, value); });
}

std::variant<std::string, GroupError> GroupContext::get(const std::string& key, Wait& wait) {
    std::string value;
    auto error = guarded(wait, [&] {
        const auto name = settings_.prefix + key;
        if (await_key(name, wait))
            value = settings_.store.get(name, waiting_times::known_key_timeout);
    });
    if (error) return *error;
    return value;
}

/// Polls instead of waiting: while a peer waits for this rank's key before it sets its own, another
/// thread of this rank may need the connection to set that key. Returns false when the group has
/// failed.
bool GroupContext::await_key(const std::string& name, Wait& wait) {
    for (auto nap = waiting_times::shortest_key_interval; !settings_.store.check({name});
         nap = std::min(nap * 2, waiting_times::longest_key_interval)) {
        if (wait.has_failed()) return false;
        if (Clock::now() >= wait.until_) throw Timeout("a peer did not come: there is no " + name);
        std::this_thread::sleep_for(nap);
    }
    return true;
}

/// Returns the group's error if it has failed. An error of the store makes the group fail.
template <class Call>
Outcome GroupContext::guarded(const Wait& wait, const Call& call) {
    auto& monitor = *settings_.monitor;
    try {
        call();
    } catch (const Timeout& thrown) {
        monitor.decide(FailureDetector::KeyMissing{wait.wait_.queue, thrown.what()});
    } catch (const std::exception& thrown) {
        monitor.decide(FailureDetector::StoreLost{wait.wait_.queue, thrown.what()});
    }
    return monitor.verdict();
}

GroupError GroupContext::explain(GroupError error) {
    return settings_.monitor->explain(
        {FailureMonitor::Queue::group, begun_at_, {}}, std::move(error));
}

GroupError GroupContext::explain(
    GroupError error, const Collective& collective, milliseconds timeout) {
    std::vector<int> others;
    const bool is_known =
        !collective.is_point_to_point() && timeout >= waiting_times::shortest_named_timeout;
    for (int other = 0; is_known && other < world_size(); ++other)
        if (other != rank()) others.push_back(other);
    const FailureMonitor::Wait wait{groups::queue_of(collective), Clock::now(), collective};
    return settings_.monitor->explain(wait, std::move(error), std::move(others));
}

}  // namespace ddprun::nccl
