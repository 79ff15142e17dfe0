// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

namespace ddprun::tests {

/// A round's store on a free loopback port, on a separate thread, for the lifetime of this object.
class StoreThread {
public:
    StoreThread();
    ~StoreThread();

    std::uint16_t port() const;

    /// Sends no answers for this long, starting before this returns.
    void pause(std::chrono::milliseconds length);

private:
    class Server;
    std::unique_ptr<Server> server_;
};

}  // namespace ddprun::tests
