// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/c/guard.hpp"
#include "worker_sdk/src/store/connection.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

struct ddprun_store {
    explicit ddprun_store(std::shared_ptr<ddprun::store_access::Connection> opened)
        : connection(std::move(opened)),
          local_address(connection->local_address()) {}

    std::shared_ptr<ddprun::store_access::Connection> connection;
    std::string local_address;
};

namespace {

using ddprun::c::guarded;
using ddprun::c::need;
using ddprun::store_access::Milliseconds;

ddprun::store_access::Connection& of(const ddprun_store* store) {
    need(store, "store");
    return *store->connection;
}

std::string key_of(const char* key) {
    need(key, "key");
    return key;
}

std::string bytes_of(const void* data, std::size_t size) {
    if (size > 0) need(data, "value");
    return {static_cast<const char*>(data), size};
}

std::vector<std::string> keys_of(const char* const* keys, std::size_t count) {
    if (count > 0) need(keys, "keys");
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < count; ++i)
        texts.push_back(key_of(keys[i]));
    return texts;
}

void hand_out(const std::string& from, char** value, std::size_t* size) {
    auto* copy = static_cast<char*>(std::malloc(from.size() + 1));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, from.data(), from.size());
    copy[from.size()] = '\0';
    *value = copy;
    if (size) *size = from.size();
}

}  // namespace

extern "C" {

int ddprun_store_connect(const ddprun_world* world, int64_t timeout_ms, ddprun_store** store) {
    return guarded([&] {
        const auto known = ddprun::c::known_part(world, "world");
        need(store, "store");
        *store = new ddprun_store(
            ddprun::store_access::connect(ddprun::World::from_c(known), Milliseconds{timeout_ms}));
    });
}

int ddprun_store_reconnect(const ddprun_store* store, int64_t timeout_ms, ddprun_store** other) {
    return guarded([&] {
        need(other, "other");
        *other = new ddprun_store(of(store).reconnect(Milliseconds{timeout_ms}));
    });
}

int ddprun_store_share(const ddprun_store* store, ddprun_store** other) {
    return guarded([&] {
        need(store, "store");
        need(other, "other");
        *other = new ddprun_store(*store);
    });
}

void ddprun_store_free(ddprun_store* store) {
    delete store;
}

int ddprun_store_set(ddprun_store* store, const char* key, const void* value, size_t bytes) {
    return guarded([&] { of(store).set(key_of(key), bytes_of(value, bytes)); });
}

int ddprun_store_get(
    ddprun_store* store, const char* key, int64_t timeout_ms, char** value, size_t* bytes) {
    return guarded([&] {
        need(value, "value");
        hand_out(of(store).get(key_of(key), Milliseconds{timeout_ms}), value, bytes);
    });
}

int ddprun_store_add(ddprun_store* store, const char* key, int64_t amount, int64_t* sum) {
    return guarded([&] {
        const auto total = of(store).add(key_of(key), amount);
        if (sum) *sum = total;
    });
}

int ddprun_store_compare_set(
    ddprun_store* store,
    const char* key,
    const void* expected,
    size_t expected_bytes,
    const void* desired,
    size_t desired_bytes,
    char** value,
    size_t* bytes) {
    return guarded([&] {
        need(value, "value");
        const auto now = of(store).compare_set(
            key_of(key), bytes_of(expected, expected_bytes), bytes_of(desired, desired_bytes));
        hand_out(now, value, bytes);
    });
}

int ddprun_store_wait(
    ddprun_store* store, const char* const* keys, size_t count, int64_t timeout_ms) {
    return guarded([&] { of(store).wait(keys_of(keys, count), Milliseconds{timeout_ms}); });
}

int ddprun_store_check(ddprun_store* store, const char* const* keys, size_t count, int* exist) {
    return guarded([&] {
        need(exist, "exist");
        *exist = of(store).check(keys_of(keys, count)) ? 1 : 0;
    });
}

int ddprun_store_delete_key(ddprun_store* store, const char* key, int* existed) {
    return guarded([&] {
        const bool was_there = of(store).delete_key(key_of(key));
        if (existed) *existed = was_there ? 1 : 0;
    });
}

const char* ddprun_store_local_address(const ddprun_store* store) {
    return store ? store->local_address.c_str() : "";
}

void ddprun_free(void* value) {
    std::free(value);
}

}  // extern "C"
