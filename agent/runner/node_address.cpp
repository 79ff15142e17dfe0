// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/node_address.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/interfaces.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

namespace ddprun::agent {

std::string own_address_towards(const std::string& other) {
    boost::system::error_code ec;
    const auto address = boost::asio::ip::make_address(other, ec);
    if (ec) return {};
    // Connecting a datagram socket sends nothing; it only selects the route.
    boost::asio::io_context unused;
    boost::asio::ip::udp::socket socket(unused);
    const boost::asio::ip::udp::endpoint there(address, limits::default_rendezvous_port);
    socket.open(there.protocol(), ec);
    if (!ec) socket.connect(there, ec);
    if (ec) return {};
    const auto here = socket.local_endpoint(ec);
    return ec ? std::string{} : unwrap_mapped(here.address().to_string());
}

std::string NodeAddress::towards(const control::Assignment& assignment, std::string own) {
    if (!is_loopback(own) || assignment.neighbours.empty()) return own;
    auto address = own_address_towards(assignment.neighbours.front().addr);
    return address.empty() ? own : address;
}

std::string NodeAddress::gloo_interface(const std::string& node_addr) {
    if (own_name_problem_.empty() || is_loopback(node_addr)) return {};
    auto interface = server::interface_with(node_addr);
    if (interface.empty() || has_announced_) return interface;
    has_announced_ = true;
    log::warning(
        "interface.chosen",
        {{"reason", own_name_problem_},
         {"next_step",
          "workers get GLOO_SOCKET_IFNAME=" + interface +
              ", which reaches the other nodes; set it, or correct /etc/hosts, for another"}});
    return interface;
}

}  // namespace ddprun::agent
