// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/store_client.hpp"

#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/client/blocking_client.hpp"
#include "rendezvous/wire/error.hpp"
#include "rendezvous/wire/message.hpp"
#include "rendezvous/wire/text.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <thread>

namespace ddprun::client {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view worker_counter = "init/";
constexpr Duration worker_poll_interval = 10ms;

std::string milliseconds_text(Duration length) {
    return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(length).count()) + "ms";
}

Failure timed_out(std::string what) {
    return {system_code(ETIMEDOUT), std::move(what)};
}

Failure wait_timed_out(Duration timeout, const std::vector<std::string>& keys) {
    constexpr std::size_t longest_list = 16;
    return timed_out(
        "wait timeout after " + milliseconds_text(timeout) +
        ", keys: " + short_list(keys, {longest_list}));
}

// Limits are checked here, since the server closes the connection on a request beyond them.

Result<> check_key(const std::string& key) {
    if (key.size() > limits::max_key_bytes)
        return Failure{wire::Error::key_too_long, wire::in_quotes(key, 40)};
    return {};
}

Result<> check_key_and_value(const std::string& key, const std::string& value) {
    if (value.size() > limits::max_value_bytes)
        return Failure{wire::Error::value_too_long, wire::in_quotes(key, 40)};
    return check_key(key);
}

Result<> check_keys(const std::vector<std::string>& keys) {
    if (keys.size() > limits::max_key_count)
        return Failure{wire::Error::too_many_keys, std::to_string(keys.size())};
    for (const auto& key : keys)
        if (auto fits = check_key(key); !fits) return fits;
    return {};
}

}  // namespace

/// The state that all copies share. The mutex is held for one request, or for one request with the
/// wait before it.
struct StoreClient::Connection {
    explicit Connection(BlockingClient connected) : client(std::move(connected)) {}

    std::mutex mutex;
    BlockingClient client;
};

Result<StoreClient> StoreClient::connect(StoreOptions options) {
    auto client = BlockingClient::connect(options.endpoint, options.timeout);
    if (!client) return client.error();
    if (options.count_as_worker) {
        const wire::Add arrival{std::string{worker_counter}, 1};
        const auto counted = client->ask<wire::Number>(arrival, options.timeout);
        if (!counted) return counted.error();
    }
    return StoreClient(std::make_shared<Connection>(std::move(*client)), std::move(options));
}

StoreClient::StoreClient(std::shared_ptr<Connection> connection, StoreOptions options)
    : connection_(std::move(connection)),
      options_(std::move(options)),
      timeout_(options_.timeout) {}

StoreClient StoreClient::with_prefix(const std::string& prefix) const {
    auto other = *this;
    other.prefix_ += prefix + "/";
    return other;
}

Result<StoreClient> StoreClient::clone() const {
    auto options = options_;
    options.count_as_worker = false;
    auto other = connect(std::move(options));
    if (!other) return other;
    other->prefix_ = prefix_;
    other->timeout_ = timeout_;
    return other;
}

std::vector<std::string> StoreClient::on_wire(const std::vector<std::string>& keys) const {
    std::vector<std::string> result;
    result.reserve(keys.size());
    for (const auto& key : keys)
        result.push_back(on_wire(key));
    return result;
}

Result<> StoreClient::set(const std::string& key, std::string value) {
    wire::Set request{on_wire(key), std::move(value)};
    if (auto fits = check_key_and_value(request.key, request.value); !fits) return fits;
    const std::scoped_lock lock(connection_->mutex);
    return connection_->client.send(std::move(request), timeout_);
}

Result<std::string> StoreClient::get(const std::string& key) {
    return get(key, timeout_);
}

Result<std::string> StoreClient::get(const std::string& key, Duration timeout) {
    const auto name = on_wire(key);
    if (auto fits = check_key(name); !fits) return fits.error();
    const std::scoped_lock lock(connection_->mutex);
    const auto is_there = connection_->client.wait(wire::Wait{{name}}, timeout);
    if (!is_there) return is_there.error();
    if (!*is_there) return wait_timed_out(timeout, {name});
    auto reply = connection_->client.ask<wire::Value>(wire::Get{name}, timeout_);
    if (!reply) return reply.error();
    return std::move(reply->value).take();
}

Result<std::int64_t> StoreClient::add(const std::string& key, std::int64_t delta) {
    const wire::Add request{on_wire(key), delta};
    if (auto fits = check_key(request.key); !fits) return fits.error();
    const std::scoped_lock lock(connection_->mutex);
    const auto reply = connection_->client.ask<wire::Number>(request, timeout_);
    if (!reply) return reply.error();
    return reply->number;
}

Result<bool> StoreClient::check(const std::vector<std::string>& keys) {
    const wire::Check request{on_wire(keys)};
    if (auto fits = check_keys(request.keys); !fits) return fits.error();
    const std::scoped_lock lock(connection_->mutex);
    const auto reply = connection_->client.ask<wire::Checked>(request, timeout_);
    if (!reply) return reply.error();
    return reply->is_ready;
}

Result<> StoreClient::wait(const std::vector<std::string>& keys) {
    return wait(keys, timeout_);
}

Result<> StoreClient::wait(const std::vector<std::string>& keys, Duration timeout) {
    const wire::Wait request{on_wire(keys)};
    if (auto fits = check_keys(request.keys); !fits) return fits;
    const std::scoped_lock lock(connection_->mutex);
    const auto is_over = connection_->client.wait(request, timeout);
    if (!is_over) return is_over.error();
    if (!*is_over) return wait_timed_out(timeout, request.keys);
    return {};
}

Result<std::string> StoreClient::compare_set(
    const std::string& key, std::string expected, std::string desired) {
    wire::CompareSet request{on_wire(key), std::move(expected), std::move(desired)};
    if (auto fits = check_key_and_value(request.key, request.expected); !fits) return fits.error();
    if (auto fits = check_key_and_value(request.key, request.desired); !fits) return fits.error();
    const std::scoped_lock lock(connection_->mutex);
    auto reply = connection_->client.ask<wire::Value>(std::move(request), timeout_);
    if (!reply) return reply.error();
    return std::move(reply->value).take();
}

Result<> StoreClient::append(const std::string& key, std::string value) {
    wire::Append request{on_wire(key), std::move(value)};
    if (auto fits = check_key_and_value(request.key, request.value); !fits) return fits;
    const std::scoped_lock lock(connection_->mutex);
    return connection_->client.send(std::move(request), timeout_);
}

Result<std::vector<std::string>> StoreClient::multi_get(const std::vector<std::string>& keys) {
    if (keys.empty()) return std::vector<std::string>{};
    wire::MultiGet request{on_wire(keys)};
    if (auto fits = check_keys(request.keys); !fits) return fits.error();
    const std::scoped_lock lock(connection_->mutex);
    const auto are_there = connection_->client.wait(wire::Wait{request.keys}, timeout_);
    if (!are_there) return are_there.error();
    if (!*are_there) return wait_timed_out(timeout_, request.keys);
    auto reply = connection_->client.ask<wire::Values>(std::move(request), timeout_);
    if (!reply) return reply.error();
    std::vector<std::string> values;
    values.reserve(reply->values.size());
    for (auto& value : reply->values)
        values.push_back(std::move(value).take());
    return values;
}

Result<> StoreClient::multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
    if (pairs.size() > limits::max_key_count)
        return Failure{wire::Error::too_many_keys, std::to_string(pairs.size())};
    wire::MultiSet request;
    for (const auto& [key, value] : pairs) {
        request.pairs.push_back({on_wire(key), value});
        if (auto fits = check_key_and_value(request.pairs.back().key, value); !fits) return fits;
    }
    const std::scoped_lock lock(connection_->mutex);
    return connection_->client.send(std::move(request), timeout_);
}

Result<bool> StoreClient::delete_key(const std::string& key) {
    const wire::DeleteKey request{on_wire(key)};
    if (auto fits = check_key(request.key); !fits) return fits.error();
    const std::scoped_lock lock(connection_->mutex);
    const auto reply = connection_->client.ask<wire::Number>(request, timeout_);
    if (!reply) return reply.error();
    return reply->number == 1;
}

Result<std::int64_t> StoreClient::num_keys() {
    const std::scoped_lock lock(connection_->mutex);
    const auto reply = connection_->client.ask<wire::Number>(wire::NumKeys{}, timeout_);
    if (!reply) return reply.error();
    return reply->number;
}

Result<std::vector<std::string>> StoreClient::list_keys() {
    const std::scoped_lock lock(connection_->mutex);
    const auto reply = connection_->client.ask<wire::Keys>(wire::ListKeys{}, timeout_);
    if (!reply) return reply.error();
    std::vector<std::string> names;
    for (const auto& key : reply->keys)
        if (key.compare(0, prefix_.size(), prefix_) == 0)
            names.push_back(key.substr(prefix_.size()));
    return names;
}

Result<> StoreClient::queue_push(const std::string& key, std::string value) {
    wire::QueuePush request{on_wire(key), std::move(value)};
    if (auto fits = check_key_and_value(request.key, request.value); !fits) return fits;
    const std::scoped_lock lock(connection_->mutex);
    return connection_->client.send(std::move(request), timeout_);
}

Result<std::string> StoreClient::queue_pop(const std::string& key) {
    return queue_pop(key, timeout_);
}

Result<std::string> StoreClient::queue_pop(const std::string& key, Duration timeout) {
    const auto name = on_wire(key);
    if (auto fits = check_key(name); !fits) return fits.error();
    const auto deadline = Clock::now() + std::min(timeout, Duration{std::chrono::hours{24 * 365}});
    const std::scoped_lock lock(connection_->mutex);
    for (;;) {
        const auto left = std::max(deadline - Clock::now(), Duration::zero());
        const auto is_there = connection_->client.wait(wire::Wait{{name}}, left);
        if (!is_there) return is_there.error();
        if (!*is_there) return wait_timed_out(timeout, {name});
        auto reply = connection_->client.ask<wire::Popped>(wire::QueuePop{name}, timeout_);
        if (!reply) return reply.error();
        if (reply->value) return std::move(*reply->value).take();
        // At PyTorch's server another client may take the element first: then wait for the next
        // one. If a key has the queue's name, every wait ends at once, so this loop must not spin.
        std::this_thread::sleep_for(worker_poll_interval);
        if (left == Duration::zero()) return wait_timed_out(timeout, {name});
    }
}

Result<std::optional<std::string>> StoreClient::try_queue_pop(const std::string& key) {
    const wire::QueuePop request{on_wire(key)};
    if (auto fits = check_key(request.key); !fits) return fits.error();
    const std::scoped_lock lock(connection_->mutex);
    auto reply = connection_->client.ask<wire::Popped>(request, timeout_);
    if (!reply) return reply.error();
    if (!reply->value) return std::optional<std::string>{};
    return std::optional{std::move(*reply->value).take()};
}

Result<std::int64_t> StoreClient::queue_len(const std::string& key) {
    const wire::QueueLen request{on_wire(key)};
    if (auto fits = check_key(request.key); !fits) return fits.error();
    const std::scoped_lock lock(connection_->mutex);
    const auto reply = connection_->client.ask<wire::Number>(request, timeout_);
    if (!reply) return reply.error();
    return reply->number;
}

Result<> StoreClient::barrier(const std::string& key, std::int64_t world_size) {
    return barrier(key, world_size, timeout_);
}

Result<> StoreClient::barrier(const std::string& key, std::int64_t world_size, Duration timeout) {
    if (prefix_ != "/") {
        const auto arrived = add(key + "/num_members", 1);
        if (!arrived) return arrived.error();
        const auto last = key + "/last_member";
        if (*arrived == world_size)
            if (auto done = set(last, "1"); !done) return done;
        return wait({last}, timeout);
    }
    const wire::Barrier request{on_wire(key), world_size};
    if (auto fits = check_key(request.key); !fits) return fits;
    const std::scoped_lock lock(connection_->mutex);
    const auto is_over = connection_->client.wait(request, timeout);
    if (!is_over) return is_over.error();
    if (!*is_over)
        return timed_out("barrier timeout after " + milliseconds_text(timeout) + ", key: " + key);
    return {};
}

Result<> StoreClient::ping() {
    constexpr std::uint32_t nonce = 0x70696e67;
    const std::scoped_lock lock(connection_->mutex);
    const auto reply = connection_->client.ask<wire::Pong>(wire::Ping{nonce}, timeout_);
    if (!reply) return reply.error();
    if (reply->nonce != nonce) return Failure{wire::Error::unexpected_reply, "PING"};
    return {};
}

Result<> StoreClient::wait_for_workers(std::int64_t world_size, Duration timeout) {
    const auto deadline = Clock::now() + std::min(timeout, Duration{std::chrono::hours{24 * 365}});
    for (;;) {
        std::int64_t joined = 0;
        {
            const std::scoped_lock lock(connection_->mutex);
            const wire::Add question{std::string{worker_counter}, 0};
            const auto reply = connection_->client.ask<wire::Number>(question, timeout_);
            if (!reply) return reply.error();
            joined = reply->number;
        }
        if (joined >= world_size) return {};
        if (Clock::now() >= deadline)
            return timed_out(
                "waited " + milliseconds_text(timeout) + " for workers, " + std::to_string(joined) +
                " of " + std::to_string(world_size) + " have come");
        std::this_thread::sleep_for(worker_poll_interval);
    }
}

}  // namespace ddprun::client
