// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/page_access.hpp"

#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/server/host_field.hpp"

#include <boost/asio/ip/host_name.hpp>

namespace ddprun::server {
namespace {

/// A caller with an address of this machine is on this machine: the kernel would not send answers
/// for such an address to another machine.
bool is_on_this_machine(const net::Tcp::socket& caller) {
    error_code remote_failed;
    error_code local_failed;
    const auto remote = caller.remote_endpoint(remote_failed).address();
    const auto local = caller.local_endpoint(local_failed).address();
    if (remote_failed || local_failed) return false;
    return remote.is_loopback() || remote == local;
}

}  // namespace

bool may_read_pages(
    const net::Tcp::socket& caller, const HttpRequest& request, const tls::Secrets* secrets) {
    if (secrets == nullptr || secrets->accepts_page_token(request.token)) return true;
    error_code failed;
    return is_on_this_machine(caller) &&
           names_this_machine(request.host, boost::asio::ip::host_name(failed)) &&
           net::peer_owner(caller).kind == net::PeerOwner::Kind::this_user;
}

}  // namespace ddprun::server
