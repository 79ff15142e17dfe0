// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct ssl_ctx_st;

namespace ddprun::tls {

/// The text of a PEM file, and its name for messages.
struct PemFile {
    std::string name;
    std::string text;
};

struct Certificates {
    /// The authorities; one of them must have signed a server's certificate.
    PemFile authorities;
    /// This end's certificate, if it has one, with the intermediate certificates.
    std::optional<PemFile> own = std::nullopt;
    /// The key of that certificate; may be in the same file.
    std::optional<PemFile> key = std::nullopt;
};

/// A client's trusted authorities and own certificate. Copies share it.
class Credentials {
public:
    /// On error the code is EINVAL and the context names the file and the error.
    static Result<Credentials> read(const Certificates& files);

private:
    friend class CertifiedSession;
    explicit Credentials(std::shared_ptr<ssl_ctx_st> context) : context_(std::move(context)) {}

    std::shared_ptr<ssl_ctx_st> context_;
};

/// The client's end of a connection to a server that has a certificate. As in `Session`, the caller
/// passes the bytes between it and the connection. TLS 1.2 or newer. The certificate is always
/// verified: it must be signed by an authority, unexpired, and name `host` (a name or an IP
/// address) among its alternative names; its common name does not count.
///
/// The code of a failure is an `Error`, the context a sentence about the server: "its certificate
/// is not accepted: certificate has expired". Used by one thread at a time.
class CertifiedSession {
public:
    /// The session's first output is available at once.
    CertifiedSession(const Credentials& credentials, const std::string& host);
    ~CertifiedSession();
    CertifiedSession(CertifiedSession&&) noexcept;
    CertifiedSession& operator=(CertifiedSession&&) = delete;

    /// Appends the decrypted bytes to `plain`. After a failure the session is over, but there may
    /// be output that reports it to the server. `Error::closed`: the server sends no more.
    Result<> receive(std::string_view bytes, std::string& plain);
    /// Requires: `is_established`, and no failure before.
    void send(std::string_view text);
    std::string take_output();
    /// The server's certificate was accepted. The server may still refuse this end's.
    bool is_established() const;
    bool has_own_certificate() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ddprun::tls
