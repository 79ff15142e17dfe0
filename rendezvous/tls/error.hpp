// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <boost/system/error_category.hpp>

#include <type_traits>

namespace ddprun::tls {

/// Why an encrypted connection cannot continue.
enum class Error {
    /// The other end's first bytes are not TLS: that end would parse encrypted bytes as its own
    /// protocol.
    not_encrypted = 1,
    /// The other end does not accept the secret, or has not proved that it has it.
    wrong_secret,
    /// After the handshake: bytes arrived that were not encrypted with the keys of this connection.
    not_authentic,
    /// After the handshake: the other end has announced that it sends no more.
    closed,
    /// This end does not accept the certificate of the other end.
    not_trusted,
    /// The other end has ended the handshake, or does not accept this end's certificate.
    refused,
};

const boost::system::error_category& error_category();

inline error_code make_error_code(Error error) {
    return {static_cast<int>(error), error_category()};
}

}  // namespace ddprun::tls

template <>
struct boost::system::is_error_code_enum<ddprun::tls::Error> : std::true_type {};
