// SPDX-License-Identifier: Apache-2.0
#include "ddprun/store.hpp"

#include "worker_sdk/src/store/shared.hpp"

#include <utility>

namespace ddprun {

namespace {

/// What a plain `get` waits at most: longer than any start-up, shorter than a lost weekend.
constexpr std::chrono::minutes longest_get{30};

}  // namespace

Store Store::connect(const World& world, Milliseconds timeout) {
    if (!world.is_launched()) return Store(Shared::in_process());
    return Store(Shared::connect(world.master_addr, world.master_port, timeout));
}

Store::Store(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

Store::Store(const Store&) = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(const Store&) = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

void Store::set(const std::string& key, const std::string& value) {
    shared_->set(key, value);
}

std::string Store::get(const std::string& key) {
    return shared_->get(key, longest_get);
}

std::string Store::get(const std::string& key, Milliseconds timeout) {
    return shared_->get(key, timeout);
}

std::int64_t Store::add(const std::string& key, std::int64_t amount) {
    return shared_->add(key, amount);
}

std::string Store::compare_set(
    const std::string& key, const std::string& expected, const std::string& desired) {
    return shared_->compare_set(key, expected, desired);
}

void Store::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
    shared_->wait(keys, timeout);
}

bool Store::check(const std::vector<std::string>& keys) {
    return shared_->check(keys);
}

bool Store::delete_key(const std::string& key) {
    return shared_->delete_key(key);
}

Store Store::reconnect(Milliseconds timeout) const {
    return Store(shared_->reconnect(timeout));
}

std::string Store::local_address() const {
    return shared_->local_address();
}

}  // namespace ddprun
