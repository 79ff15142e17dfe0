// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/clock.hpp"
#include "rendezvous/client/blocking_socket.hpp"
#include "rendezvous/client/client_error.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::test {

/// A TCP connection to the loopback that sends exactly the bytes a test gives it.
class RawClient {
public:
    explicit RawClient(std::uint16_t port) : socket_(connect(port)) {}

    void say(std::string_view bytes) { socket_.send(bytes, soon()).value(); }
    /// The same, but ignores whether the server still listens.
    void try_to_say(std::string_view bytes) {
        if (const auto sent = socket_.send(bytes, soon()); !sent) return;
    }

    /// Exactly that many bytes, or fewer if the server closes before.
    std::string hear(std::size_t size) {
        while (heard_.size() < size) {
            const auto bytes = socket_.receive(soon());
            if (!bytes || bytes->empty()) break;
            heard_ += *bytes;
        }
        auto result = heard_.substr(0, size);
        heard_.erase(0, result.size());
        return result;
    }

    /// Returns true if the server closes without sending anything.
    bool hears_the_end() {
        if (!heard_.empty()) return false;
        const auto bytes = socket_.receive(soon());
        return !bytes && bytes.error().code == client::Error::server_closed;
    }

private:
    static Instant soon() { return Clock::now() + std::chrono::seconds{30}; }

    static client::BlockingSocket connect(std::uint16_t port) {
        const auto addresses = client::BlockingSocket::resolve({"127.0.0.1", port}).value();
        return client::BlockingSocket::connect(addresses.front(), soon()).value();
    }

    client::BlockingSocket socket_;
    std::string heard_;
};

}  // namespace ddprun::test
