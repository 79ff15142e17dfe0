// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/reach.hpp"

#include "rendezvous/base/endpoint.hpp"

namespace ddprun::coordinator {

Result<Reach> reach_of(const control::Join& join, const Connected& connection) {
    if (!join.addr.empty()) return Reach{unwrap_mapped(join.addr), false};
    auto own_end = connection.peer_addr;
    if (!join.socket_addr.empty()) {
        const auto parsed = parse_endpoint(join.socket_addr, 0);
        if (!parsed) return parsed.error();
        own_end = unwrap_mapped(parsed->host);
    }
    if (!is_loopback(own_end)) return Reach{own_end, false};
    if (join.socket_addr.empty() || join.socket_addr == connection.peer_socket)
        return Reach{own_end, true};
    return Failure{
        system_code(EADDRNOTAVAIL),
        "this node reaches the rendezvous through " + join.socket_addr +
            ", which the server sees as " + connection.peer_socket +
            ": other nodes cannot know where it is; give --local-addr=ADDRESS"};
}

const std::string& address_for(const Reach& node, const Connected& member) {
    return node.is_beside_server ? member.local_addr : node.addr;
}

bool is_endpoint_host(const Reach& node, const Connected& connection) {
    return node.is_beside_server || connection.peer_addr == connection.local_addr;
}

}  // namespace ddprun::coordinator
