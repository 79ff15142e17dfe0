// SPDX-License-Identifier: Apache-2.0
#include "ddprun/error.hpp"
#include "rendezvous/client/client_error.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/wire/error.hpp"
#include "worker_sdk/src/store/connection.hpp"
#include "worker_sdk/src/store/local_address.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <boost/system/errc.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::store_access {

namespace {

[[noreturn]] void throw_failure(const Failure& failure) {
    const auto text = "store: " + failure.describe();
    if (failure.code == boost::system::errc::timed_out) throw Timeout(text);
    if (failure.code == client::Error::no_answer) throw Timeout(text);
    // A key or value beyond the limits; nothing was sent.
    if (failure.code.category() == wire::error_category()) throw UsageError(text);
    throw PeerLost(text);
}

template <class T>
T value_of(Result<T> result) {
    if (!result) throw_failure(result.error());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// The round's store over one connection.
class RemoteStore : public Connection {
public:
    RemoteStore(std::shared_ptr<void> keeps, client::StoreClient client, Endpoint server)
        : keeps_(std::move(keeps)),
          client_(std::move(client)),
          server_(std::move(server)) {}

    void set(const std::string& key, const std::string& value) override {
        value_of(client_.set(key, value));
    }
    std::string get(const std::string& key, Milliseconds timeout) override {
        return value_of(client_.get(key, timeout));
    }
    std::int64_t add(const std::string& key, std::int64_t amount) override {
        return value_of(client_.add(key, amount));
    }
    std::string compare_set(
        const std::string& key, const std::string& expected, const std::string& desired) override {
        return value_of(client_.compare_set(key, expected, desired));
    }
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override {
        value_of(client_.wait(keys, timeout));
    }
    bool check(const std::vector<std::string>& keys) override {
        return value_of(client_.check(keys));
    }
    bool delete_key(const std::string& key) override { return value_of(client_.delete_key(key)); }

    void set_reply_timeout(Milliseconds timeout) override {
        client_.set_timeout(std::min(timeout, waiting_times::longest_reply));
    }

    std::string local_address() const override { return local_address_towards(server_); }
    std::shared_ptr<Connection> reconnect(Milliseconds timeout) override {
        return connect(server_, timeout, keeps_);
    }

private:
    std::shared_ptr<void> keeps_;  // first: it is released after the connection is closed
    client::StoreClient client_;
    Endpoint server_;
};

}  // namespace

std::shared_ptr<Connection> connect(
    const Endpoint& server, Milliseconds timeout, std::shared_ptr<void> keeps) {
    auto client = client::StoreClient::connect({.endpoint = server, .timeout = timeout});
    if (!client) throw_failure(client.error());
    auto store = std::make_shared<RemoteStore>(std::move(keeps), std::move(*client), server);
    store->set_reply_timeout(timeout);
    return store;
}

}  // namespace ddprun::store_access
