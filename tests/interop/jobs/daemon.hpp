// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/running.hpp"

#include <cstdint>
#include <string>

namespace ddprun::test {

/// `ddprun-rendezvous` on a free port of the loopback, and what its pages say.
class Daemon {
public:
    Daemon()
        : process_(program("ddprun-rendezvous"), {"--host", "127.0.0.1", "--port", "0"}),
          port_(
              static_cast<std::uint16_t>(process_.wait_for_number("rendezvous.listening port="))) {}

    std::uint16_t port() const { return port_; }
    std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }

    /// One number of `/metrics`; -1 if there is none of this name.
    long metric(const std::string& name) const {
        const auto page = RawClient(port_).say("GET /metrics HTTP/1.1\r\n\r\n").hear_to_the_end();
        const auto line = page.find("\n" + name + " ");
        return line == std::string::npos ? -1 : std::stol(page.substr(line + name.size() + 2));
    }

private:
    Running process_;
    std::uint16_t port_;
};

}  // namespace ddprun::test
