// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/session.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/tls/error.hpp"
#include "rendezvous/tls/start_openssl.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <cerrno>
#include <new>
#include <tuple>
#include <utility>

namespace ddprun::tls {

void start_openssl() {
    constexpr auto options = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT;
    require(OPENSSL_init_ssl(options, nullptr) == 1, "OpenSSL starts");
}

namespace session {
namespace {

constexpr const char* cipher_suites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
/// TLS_AES_128_GCM_SHA256. Only its hash matters here, and the other suite has the same hash.
constexpr std::array<unsigned char, 2> suite_of_key{0x13, 0x01};
constexpr char alert_record = 0x15;
constexpr char handshake_record = 0x16;
constexpr char change_cipher_record = 0x14;

SSL_SESSION* session_of(SSL* ssl, const Key& key) {
    auto* session = SSL_SESSION_new();
    const auto* cipher = SSL_CIPHER_find(ssl, suite_of_key.data());
    const bool is_made =
        session != nullptr && cipher != nullptr &&
        SSL_SESSION_set1_master_key(session, key.bytes.data(), key.bytes.size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
    if (is_made) return session;
    SSL_SESSION_free(session);
    return nullptr;
}

Session::FindKey* finder_of(SSL* ssl) {
    return static_cast<Session::FindKey*>(SSL_get_app_data(ssl));
}

int find_session(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** found) {
    *found = nullptr;
    const auto key =
        (*finder_of(ssl))(std::string_view{reinterpret_cast<const char*>(identity), size});
    // Without a key the handshake continues, and fails because there is no certificate.
    if (key) *found = session_of(ssl, *key);
    return !key || *found != nullptr ? 1 : 0;
}

int use_session(
    SSL* ssl,
    const EVP_MD* digest,
    const unsigned char** identity,
    std::size_t* size,
    SSL_SESSION** used) {
    const auto* key = static_cast<const Key*>(SSL_get_app_data(ssl));
    *used = nullptr;
    if (digest != nullptr && !EVP_MD_is_a(digest, "SHA256")) return 1;
    *identity = reinterpret_cast<const unsigned char*>(key->identity.data());
    *size = key->identity.size();
    *used = session_of(ssl, *key);
    return *used != nullptr ? 1 : 0;
}

using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;

/// Null when OpenSSL does not support TLS 1.3 with X25519.
Context new_context(const SSL_METHOD* method, const char* properties) {
    start_openssl();
    Context context{SSL_CTX_new_ex(nullptr, properties, method), SSL_CTX_free};
    auto* ctx = context.get();
    const bool is_set = ctx != nullptr && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
                        SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
                        SSL_CTX_set_ciphersuites(ctx, cipher_suites) == 1 &&
                        SSL_CTX_set1_groups_list(ctx, "X25519") == 1 &&
                        SSL_CTX_set_num_tickets(ctx, 0) == 1;
    if (!is_set) context.reset();
    return context;
}

/// Kept until the process ends.
SSL_CTX* context_for(const SSL_METHOD* method) {
    auto* ctx = new_context(method, nullptr).release();
    require(ctx != nullptr, "check_openssl was asked for TLS 1.3 with X25519");
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_clear_options(ctx, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_psk_find_session_callback(ctx, find_session);
    SSL_CTX_set_psk_use_session_callback(ctx, use_session);
    return ctx;
}

SSL_CTX* client_context() {
    static SSL_CTX* const context = [] {
        auto* ctx = context_for(TLS_client_method());
        // No certificate is trusted: a server that sends one has not proved that it has the key.
        // (Our servers have none, so that no handshake is complete without the key.)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, nullptr);
        return ctx;
    }();
    return context;
}

SSL_CTX* server_context() {
    static SSL_CTX* const context = context_for(TLS_server_method());
    return context;
}

/// True when the first bytes come from an end without a secret: another protocol, or the alert for
/// that purpose.
bool is_other_protocol(std::string_view first_bytes) {
    if (first_bytes.empty()) return false;
    const char type = first_bytes.front();
    const bool is_record =
        type == alert_record || type == handshake_record || type == change_cipher_record;
    if (!is_record || (first_bytes.size() > 1 && first_bytes[1] != '\x03')) return true;
    return first_bytes == no_encryption_here;
}

}  // namespace
}  // namespace session

struct Session::State {
    enum class Stage : std::uint8_t { handshake, established, over };

    explicit State(SSL_CTX* context);

    Result<> receive(std::string_view bytes, std::string& plain);
    Result<> advance_handshake();
    Result<> read(std::string& plain);
    Result<> fail(Error error, std::string context = {});
    bool wants_more(int result) const;

    std::unique_ptr<SSL, void (*)(SSL*)> ssl;
    /// Owned by `ssl`.
    BIO* input = BIO_new(BIO_s_mem());
    BIO* output = BIO_new(BIO_s_mem());
    Key key;
    /// Set in a server's session.
    FindKey find_key;
    /// The first bytes, as many as identify the other end's protocol.
    std::string first_bytes;
    std::size_t handshake_bytes = 0;
    Stage stage = Stage::handshake;
};

Session::State::State(SSL_CTX* context) : ssl(SSL_new(context), SSL_free) {
    if (!ssl || input == nullptr || output == nullptr) throw std::bad_alloc{};
    SSL_set_bio(ssl.get(), input, output);
}

Result<> Session::State::fail(Error error, std::string context) {
    stage = Stage::over;
    return Failure{make_error_code(error), std::move(context)};
}

bool Session::State::wants_more(int result) const {
    return SSL_get_error(ssl.get(), result) == SSL_ERROR_WANT_READ;
}

Result<> Session::State::receive(std::string_view bytes, std::string& plain) {
    if (stage == Stage::over) return fail(Error::not_authentic, "the session is over");
    if (stage == Stage::handshake) {
        handshake_bytes += bytes.size();
        if (handshake_bytes > limits::max_tls_handshake_bytes)
            return fail(Error::wrong_secret, "the handshake is too long");
        first_bytes += bytes.substr(0, no_encryption_here.size() - first_bytes.size());
        if (!find_key && session::is_other_protocol(first_bytes)) return fail(Error::not_encrypted);
    }
    const auto size = static_cast<int>(bytes.size());
    if (size > 0 && BIO_write(input, bytes.data(), size) != size) throw std::bad_alloc{};
    ERR_clear_error();
    if (stage == Stage::handshake)
        if (auto advanced = advance_handshake(); !advanced) return advanced;
    return stage == Stage::established ? read(plain) : Result<>{};
}

Result<> Session::State::advance_handshake() {
    const int result = SSL_do_handshake(ssl.get());
    if (result != 1) return wants_more(result) ? Result<>{} : fail(Error::wrong_secret);
    // A redundant check: no handshake completes without the key.
    if (SSL_session_reused(ssl.get()) != 1) return fail(Error::wrong_secret);
    stage = Stage::established;
    return {};
}

Result<> Session::State::read(std::string& plain) {
    std::array<char, 4096> chunk{};
    for (;;) {
        std::size_t size = 0;
        ERR_clear_error();
        const int result = SSL_read_ex(ssl.get(), chunk.data(), chunk.size(), &size);
        if (result != 1) {
            if (SSL_get_error(ssl.get(), result) == SSL_ERROR_ZERO_RETURN)
                return fail(Error::closed);
            return wants_more(result) ? Result<>{} : fail(Error::not_authentic);
        }
        plain.append(chunk.data(), size);
    }
}

Result<> check_openssl(const char* properties) {
    const bool has_all = has_key_derivation(properties) &&
                         session::new_context(TLS_client_method(), properties) &&
                         session::new_context(TLS_server_method(), properties);
    ERR_clear_error();
    if (has_all) return {};
    return Failure{
        system_code(EINVAL),
        "OpenSSL on this machine has no TLS 1.3 with X25519 or no HKDF (as where only what FIPS "
        "allows is there): programs that were built with -DDDPRUN_STATIC=ON do not use it"};
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;

Session Session::for_client(const Key& key) {
    auto state = std::make_unique<State>(session::client_context());
    state->key = key;
    SSL_set_app_data(state->ssl.get(), &state->key);
    SSL_set_connect_state(state->ssl.get());
    ERR_clear_error();
    std::ignore = state->advance_handshake();
    return Session(std::move(state));
}

Session Session::for_server(FindKey find_key) {
    auto state = std::make_unique<State>(session::server_context());
    state->find_key = std::move(find_key);
    SSL_set_app_data(state->ssl.get(), &state->find_key);
    SSL_set_accept_state(state->ssl.get());
    return Session(std::move(state));
}

Result<> Session::receive(std::string_view bytes, std::string& plain) {
    return state_->receive(bytes, plain);
}

void Session::send(std::string_view text) {
    require(is_established(), "nothing is sent before the other end has proved the secret");
    if (text.empty()) return;
    ERR_clear_error();
    std::size_t size = 0;
    if (SSL_write_ex(state_->ssl.get(), text.data(), text.size(), &size) != 1)
        throw std::bad_alloc{};
}

std::string Session::take_output() {
    std::string bytes(static_cast<std::size_t>(BIO_pending(state_->output)), '\0');
    if (!bytes.empty()) BIO_read(state_->output, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
}

bool Session::has_output() const {
    return BIO_pending(state_->output) > 0;
}

std::size_t Session::held_bytes() const {
    // OpenSSL takes all available input, and keeps an incomplete record in a buffer of this size.
    // A session that is over waits for no record: OpenSSL 3.5 counts what followed its end.
    const bool waits = state_->stage != State::Stage::over;
    const std::size_t incomplete =
        waits && SSL_has_pending(state_->ssl.get()) == 1 ? SSL3_RT_MAX_ENCRYPTED_LENGTH : 0;
    return incomplete + BIO_ctrl_pending(state_->input) + BIO_ctrl_pending(state_->output);
}

bool Session::is_established() const {
    return state_->stage == State::Stage::established;
}

}  // namespace ddprun::tls
