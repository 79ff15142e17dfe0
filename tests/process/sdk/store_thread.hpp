// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace ddprun::tests {

/// A round's store on a free loopback port, on a thread of its own, as long as this lives.
class StoreThread {
public:
    StoreThread();
    ~StoreThread();

    std::uint16_t port() const;

private:
    class Server;
    std::unique_ptr<Server> server_;
};

}  // namespace ddprun::tests
