// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/ids.hpp"

#include "rendezvous/base/hex.hpp"

namespace ddprun {

std::optional<Nonce> Nonce::parse(std::string_view hex) {
    const auto bytes = from_hex<16>(hex);
    if (!bytes) return std::nullopt;
    return Nonce{*bytes};
}

std::string Nonce::to_string() const { return in_hex(bytes_); }

}  // namespace ddprun
