// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/sha256.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/hex.hpp"
#include "rendezvous/tls/start_openssl.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstdint>

namespace ddprun::tls {

std::string sha256_hex(std::string_view bytes) {
    start_openssl();
    std::array<std::uint8_t, 32> digest{};
    const bool is_done = EVP_Q_digest(
                             nullptr, "SHA256", nullptr, bytes.data(), bytes.size(), digest.data(),
                             nullptr) == 1;
    require(is_done, "every OpenSSL has SHA-256");
    return in_hex(digest);
}

}  // namespace ddprun::tls
