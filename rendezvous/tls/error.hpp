// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <boost/system/error_category.hpp>

#include <type_traits>

namespace ddprun::tls {

/// Why an encrypted connection cannot go on.
enum class Error {
    /// The first bytes of the other end are not of TLS: it would read what it is sent.
    not_encrypted = 1,
    /// The other end does not accept the secret, or has not proved it itself.
    wrong_secret,
    /// After the handshake: bytes that were not made with the keys of this connection.
    not_authentic,
    /// After the handshake: the other end has said that nothing more comes.
    closed,
    /// The certificate of the other end is not accepted here.
    not_trusted,
    /// The other end ends the handshake, or does not accept the certificate of this one.
    refused,
};

const boost::system::error_category& error_category();

inline error_code make_error_code(Error error) {
    return {static_cast<int>(error), error_category()};
}

}  // namespace ddprun::tls

template <>
struct boost::system::is_error_code_enum<ddprun::tls::Error> : std::true_type {};
