// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace ddprun::store_access {

/// The store that rank 0 serves to its world when no launcher does: the same state machine as the
/// launcher's (rendezvous/store), on one thread that polls. No Asio: trainers link this. All
/// signals are blocked on that thread.
///
/// Meant for worlds of a few hundred ranks, mostly during start-up.
class StoreHost {
public:
    /// `host`: a numeric address, or empty for all addresses of this machine. Port 0 takes a free
    /// one.
    static Result<std::shared_ptr<StoreHost>> listen(const std::string& host, std::uint16_t port);

    StoreHost(const StoreHost&) = delete;
    StoreHost& operator=(const StoreHost&) = delete;
    /// Lets the clients end first: waits until none is connected, ten seconds at most. During
    /// exception handling it does not wait.
    ~StoreHost();

    std::uint16_t port() const { return port_; }

private:
    StoreHost(int listener, int wake, std::uint16_t port);

    class Loop;

    const int listener_;
    const int wake_;
    const std::uint16_t port_;
    std::atomic<bool> is_stopping_ = false;
    std::atomic<bool> closes_at_once_ = false;
    std::thread thread_;  // last: it uses everything above
};

}  // namespace ddprun::store_access
