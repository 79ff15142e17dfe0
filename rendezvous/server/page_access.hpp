// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/http_request.hpp"
#include "rendezvous/tls/secret_file.hpp"

namespace ddprun::server {

/// Whether a caller may read pages about jobs. Without a secret every caller may. With a secret two
/// kinds may: a process of this user or root on this machine, unless a browser there got the page
/// under a foreign name (host_field.hpp), and a request with the token of a valid secret. `secrets`
/// is null when there is none.
bool may_read_pages(
    const net::Tcp::socket& caller, const HttpRequest& request, const tls::Secrets* secrets);

}  // namespace ddprun::server
