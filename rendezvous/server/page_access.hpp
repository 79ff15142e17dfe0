// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/scope.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/http_request.hpp"
#include "rendezvous/server/server_secrets.hpp"

#include <optional>

namespace ddprun::server {

/// The jobs whose pages a caller may read; none: no page about jobs. Without a secret every caller
/// may read about every job. With a secret, a request with the token of a valid secret may read
/// about the jobs of that secret's tenant. A request without a token may read about every job if it
/// comes from a process of this user or root on this machine, which can read the tenants' files,
/// and not from a browser there that got the page under a foreign name (host_field.hpp).
std::optional<coordinator::Scope> readable_jobs(
    const net::Tcp::socket& caller, const HttpRequest& request, const ServerSecrets& secrets);

}  // namespace ddprun::server
