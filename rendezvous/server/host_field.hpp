// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun::server {

/// Whether the `Host` field of a request names this machine: an address, `localhost`, or the
/// machine's name. A page of another site whose name was made to resolve to this machine (DNS
/// rebinding) has that site's name in it. True without the field, since each browser sends it.
/// Pure.
bool names_this_machine(std::string_view host, std::string_view machine);

}  // namespace ddprun::server
