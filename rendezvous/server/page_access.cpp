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

std::optional<coordinator::Scope> readable_jobs(
    const net::Tcp::socket& caller, const HttpRequest& request, const ServerSecrets& secrets) {
    if (!secrets.is_required()) return coordinator::Scope::everything();
    // Checked first: a token limits also a caller that could read about every job.
    if (auto scope = secrets.scope_of_token(request.token)) return scope;
    // The token of a tenant that is gone must not show the jobs of all others.
    if (!request.token.empty()) return std::nullopt;
    error_code failed;
    const bool is_own = is_on_this_machine(caller) &&
                        names_this_machine(request.host, boost::asio::ip::host_name(failed)) &&
                        net::peer_owner(caller).kind == net::PeerOwner::Kind::this_user;
    if (!is_own) return std::nullopt;
    return coordinator::Scope::everything();
}

}  // namespace ddprun::server
