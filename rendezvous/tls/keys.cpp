// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/keys.hpp"

#include "rendezvous/base/hex.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/tls/start_openssl.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <memory>
#include <span>

namespace ddprun::tls {
namespace {

constexpr std::string_view salt = "ddprun-secret-1";

using Kdf = std::unique_ptr<EVP_KDF, void (*)(EVP_KDF*)>;

Kdf fetch_hkdf(const char* properties) {
    start_openssl();
    return {EVP_KDF_fetch(nullptr, "HKDF", properties), EVP_KDF_free};
}

/// HKDF with SHA-256 (RFC 5869).
bool derive(
    EVP_KDF* kdf, const Secret& secret, const std::string& purpose, std::span<std::uint8_t> out) {
    const std::unique_ptr<EVP_KDF_CTX, void (*)(EVP_KDF_CTX*)> context{
        EVP_KDF_CTX_new(kdf), EVP_KDF_CTX_free};
    auto* digest = const_cast<char*>("SHA256");
    const auto octets = [](const char* name, std::string_view text) {
        // OpenSSL only reads these bytes.
        return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
    };
    const std::array params{
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        octets(OSSL_KDF_PARAM_KEY, secret.characters()),
        octets(OSSL_KDF_PARAM_SALT, salt),
        octets(OSSL_KDF_PARAM_INFO, purpose),
        OSSL_PARAM_construct_end()};
    return context && EVP_KDF_derive(context.get(), out.data(), out.size(), params.data()) == 1;
}

void derive(const Secret& secret, const std::string& purpose, std::span<std::uint8_t> out) {
    // Kept until the process ends.
    static EVP_KDF* const kdf = fetch_hkdf(nullptr).release();
    require(
        kdf != nullptr && derive(kdf, secret, purpose, out), "check_openssl was asked for HKDF");
}

std::string words(const std::string& purpose, const std::string& about) {
    return about.empty() ? purpose : purpose + ' ' + about;
}

std::string identity_of(
    const Secret& secret, const std::string& purpose, const std::string& about = {}) {
    std::array<std::uint8_t, 8> id{};
    derive(secret, "ddprun-1 id " + words(purpose, about), id);
    return "ddprun-1 " + purpose + ' ' + in_hex(id);
}

/// `purpose` is sent as part of the identity, `about` is not sent.
Key key_for(const Secret& secret, const std::string& purpose, const std::string& about = {}) {
    Key key{identity_of(secret, purpose), {}};
    derive(secret, "ddprun-1 key " + words(purpose, about), key.bytes);
    return key;
}

}  // namespace

bool has_key_derivation(const char* properties) {
    const auto kdf = fetch_hkdf(properties);
    std::array<std::uint8_t, 32> key{};
    return kdf && derive(kdf.get(), Secret{"a text of any length"}, "none", key);
}

Key control_key(const Secret& secret) {
    return key_for(secret, "control");
}

Key peer_key(const Secret& secret, const Nonce& callee) {
    return key_for(secret, "peer", callee.to_string());
}

Key vote_key(const Secret& secret, const Nonce& voter) {
    auto key = key_for(secret, "vote", voter.to_string());
    // A process can be several voters, and has to find the key by the identity.
    key.identity = identity_of(secret, "vote", voter.to_string());
    return key;
}

Key store_key(const Secret& secret, std::string_view incarnation, int round) {
    return key_for(secret, "store", std::to_string(round) + ' ' + std::string{incarnation});
}

std::string page_token(const Secret& secret) {
    std::array<std::uint8_t, 32> token{};
    derive(secret, "ddprun-1 token pages", token);
    return in_hex(token);
}

bool are_equal_tokens(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ddprun::tls
