// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/certified_session.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/tls/error.hpp"
#include "rendezvous/tls/start_openssl.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <cerrno>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

namespace ddprun::tls {
namespace certified_session {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Failure wrong(const PemFile& file, const std::string& what) {
    ERR_clear_error();
    return {system_code(EINVAL), file.name + ": " + what};
}

std::string openssl_reason() {
    const auto* reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason == nullptr ? "an error of OpenSSL" : reason;
}

Bio reader_of(const PemFile& file) {
    Bio bio{BIO_new_mem_buf(file.text.data(), static_cast<int>(file.text.size())), BIO_free};
    if (!bio) throw std::bad_alloc{};
    return bio;
}

/// Without this callback, OpenSSL would ask for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) {
    return -1;
}

Result<std::vector<Certificate>> read_certificates(const PemFile& file) {
    const auto bio = reader_of(file);
    std::vector<Certificate> all;
    ERR_clear_error();
    while (auto* one = PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr))
        all.emplace_back(one, X509_free);
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return wrong(file, "certificate " + std::to_string(all.size() + 1) + " is damaged");
    if (all.empty()) return wrong(file, "no certificate in it (PEM)");
    ERR_clear_error();
    return all;
}

Result<> trust(SSL_CTX* context, const PemFile& file) {
    const auto all = read_certificates(file);
    if (!all) return all.error();
    auto* store = SSL_CTX_get_cert_store(context);
    for (const auto& one : *all)
        if (X509_STORE_add_cert(store, one.get()) != 1) return wrong(file, openssl_reason());
    return {};
}

Result<> show(SSL_CTX* context, const PemFile& own, const PemFile& key_file) {
    const auto all = read_certificates(own);
    if (!all) return all.error();
    if (SSL_CTX_use_certificate(context, all->front().get()) != 1)
        return wrong(own, openssl_reason());
    for (std::size_t i = 1; i < all->size(); ++i)
        if (SSL_CTX_add1_chain_cert(context, (*all)[i].get()) != 1)
            return wrong(own, openssl_reason());
    const auto bio = reader_of(key_file);
    const PrivateKey key{
        PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free};
    if (!key) return wrong(key_file, "no private key in it (PEM, without a passphrase)");
    ERR_clear_error();
    // Only the explicit check detects a key of another kind than the certificate's.
    if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
        return wrong(key_file, "is not the key of the certificate in " + own.name);
    return {};
}

std::shared_ptr<SSL_CTX> new_context() {
    start_openssl();
    std::shared_ptr<SSL_CTX> context{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
    auto* ctx = context.get();
    if (ctx == nullptr) throw std::bad_alloc{};
    require(SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1, "every OpenSSL has TLS 1.2");
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, nullptr);
    // As in etcd's own clients, a chain may end at any listed certificate, whether it is a root or
    // not.
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_PARTIAL_CHAIN);
    return context;
}

/// Sets the host that the certificate must name. A dot at the end of the name is removed.
bool expect(SSL* ssl, std::string host) {
    if (host.ends_with('.')) host.pop_back();
    auto* param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(
        param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str()) == 1) return true;
    ERR_clear_error();
    return X509_VERIFY_PARAM_set1_host(param, host.data(), host.size()) == 1 &&
           SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

/// True unless the bytes begin a TLS record.
bool is_other_protocol(std::string_view first_bytes) {
    constexpr char first_type = 0x14;
    constexpr char last_type = 0x17;
    const char type = first_bytes.front();
    return type < first_type || type > last_type ||
           (first_bytes.size() > 1 && first_bytes[1] != '\x03');
}

/// True when the server's alert is about this end's certificate, or about a missing one.
bool is_about_own_certificate(int reason) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
           alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED ||
           alert == SSL_AD_CERTIFICATE_REQUIRED;
}

}  // namespace
}  // namespace certified_session

Result<Credentials> Credentials::read(const Certificates& files) {
    auto context = certified_session::new_context();
    if (auto trusted = certified_session::trust(context.get(), files.authorities); !trusted)
        return trusted.error();
    if (files.own) {
        const auto& key = files.key ? *files.key : *files.own;
        if (auto shown = certified_session::show(context.get(), *files.own, key); !shown)
            return shown.error();
    }
    return Credentials{std::move(context)};
}

struct CertifiedSession::State {
    State(SSL_CTX* context, std::string server);

    Result<> receive(std::string_view bytes, std::string& plain);
    Result<> advance_handshake();
    Result<> read(std::string& plain);
    Result<> fail(Error error, std::string context);
    Result<> fail();

    std::string host;
    std::unique_ptr<SSL, void (*)(SSL*)> ssl;
    /// Owned by `ssl`.
    BIO* input = BIO_new(BIO_s_mem());
    BIO* output = BIO_new(BIO_s_mem());
    bool has_received = false;
    bool is_over = false;
};

CertifiedSession::State::State(SSL_CTX* context, std::string server)
    : host(std::move(server)),
      ssl(SSL_new(context), SSL_free) {
    if (!ssl || input == nullptr || output == nullptr) throw std::bad_alloc{};
    SSL_set_bio(ssl.get(), input, output);
    SSL_set_connect_state(ssl.get());
    if (!certified_session::expect(ssl.get(), host)) throw std::bad_alloc{};
}

Result<> CertifiedSession::State::fail(Error error, std::string context) {
    is_over = true;
    ERR_clear_error();
    return Failure{make_error_code(error), std::move(context)};
}

/// Returns the failure for OpenSSL's error of the last step.
Result<> CertifiedSession::State::fail() {
    const auto verdict = SSL_get_verify_result(ssl.get());
    if (verdict != X509_V_OK) {
        const bool is_name =
            verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH;
        return fail(
            Error::not_trusted,
            "its certificate is not accepted: " +
                std::string{X509_verify_cert_error_string(verdict)} +
                (is_name ? ", it is not for " + host : ""));
    }
    const auto reason = certified_session::openssl_reason();
    if (!certified_session::is_about_own_certificate(ERR_GET_REASON(ERR_peek_last_error())))
        return fail(Error::refused, "no TLS connection: " + reason);
    return fail(
        Error::refused,
        SSL_get_certificate(ssl.get()) == nullptr
            ? "it requires a certificate of this node (" + reason + ")"
            : "it does not accept the certificate of this node (" + reason + ")");
}

Result<> CertifiedSession::State::receive(std::string_view bytes, std::string& plain) {
    if (is_over) return fail(Error::refused, "the session is over");
    if (bytes.empty()) return {};
    if (!std::exchange(has_received, true) && certified_session::is_other_protocol(bytes))
        return fail(Error::not_encrypted, "it answers without TLS");
    const auto size = static_cast<int>(bytes.size());
    if (BIO_write(input, bytes.data(), size) != size) throw std::bad_alloc{};
    ERR_clear_error();
    if (SSL_is_init_finished(ssl.get()) != 1)
        if (auto advanced = advance_handshake(); !advanced) return advanced;
    return SSL_is_init_finished(ssl.get()) == 1 ? read(plain) : Result<>{};
}

Result<> CertifiedSession::State::advance_handshake() {
    const int result = SSL_do_handshake(ssl.get());
    if (result != 1)
        return SSL_get_error(ssl.get(), result) == SSL_ERROR_WANT_READ ? Result<>{} : fail();
    // A redundant check: no handshake completes without a valid certificate.
    return SSL_get_verify_result(ssl.get()) == X509_V_OK ? Result<>{} : fail();
}

Result<> CertifiedSession::State::read(std::string& plain) {
    std::array<char, 4096> chunk{};
    for (;;) {
        std::size_t size = 0;
        ERR_clear_error();
        const int result = SSL_read_ex(ssl.get(), chunk.data(), chunk.size(), &size);
        if (result == 1) {
            plain.append(chunk.data(), size);
            continue;
        }
        const int error = SSL_get_error(ssl.get(), result);
        if (error == SSL_ERROR_WANT_READ) return {};
        return error == SSL_ERROR_ZERO_RETURN ? fail(Error::closed, "it has ended the connection")
                                              : fail();
    }
}

CertifiedSession::CertifiedSession(const Credentials& credentials, const std::string& host)
    : state_(std::make_unique<State>(credentials.context_.get(), host)) {
    ERR_clear_error();
    std::ignore = state_->advance_handshake();
}
CertifiedSession::~CertifiedSession() = default;
CertifiedSession::CertifiedSession(CertifiedSession&&) noexcept = default;

Result<> CertifiedSession::receive(std::string_view bytes, std::string& plain) {
    return state_->receive(bytes, plain);
}

void CertifiedSession::send(std::string_view text) {
    require(is_established(), "nothing is sent before the server's certificate is accepted");
    if (text.empty()) return;
    ERR_clear_error();
    std::size_t size = 0;
    if (SSL_write_ex(state_->ssl.get(), text.data(), text.size(), &size) != 1)
        throw std::bad_alloc{};
}

std::string CertifiedSession::take_output() {
    std::string bytes(static_cast<std::size_t>(BIO_pending(state_->output)), '\0');
    if (!bytes.empty()) BIO_read(state_->output, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
}

bool CertifiedSession::is_established() const {
    return !state_->is_over && SSL_is_init_finished(state_->ssl.get()) == 1;
}

bool CertifiedSession::has_own_certificate() const {
    return SSL_get_certificate(state_->ssl.get()) != nullptr;
}

}  // namespace ddprun::tls
