// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/certified_session.hpp"

#include "rendezvous/tls/error.hpp"

#include <doctest/doctest.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun;
using tls::CertifiedSession;
using tls::Credentials;

namespace {

template <class T>
using Owned = std::shared_ptr<T>;

constexpr long day_s = 24L * 60 * 60;

std::string text_of(BIO* bio) {
    char* data = nullptr;
    const auto size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return text;
}

struct Identity {
    Owned<X509> certificate;
    Owned<EVP_PKEY> key;

    std::string pem() const {
        auto* bio = BIO_new(BIO_s_mem());
        PEM_write_bio_X509(bio, certificate.get());
        return text_of(bio);
    }
    std::string key_pem(const char* passphrase = nullptr) const {
        auto* bio = BIO_new(BIO_s_mem());
        PEM_write_bio_PKCS8PrivateKey(
            bio,
            key.get(),
            passphrase == nullptr ? nullptr : EVP_aes_128_cbc(),
            passphrase,
            passphrase == nullptr ? 0 : 4,
            nullptr,
            nullptr);
        return text_of(bio);
    }
};

struct Wanted {
    /// In the syntax of OpenSSL's configuration files; empty: none.
    std::string alternatives = "DNS:etcd1,IP:127.0.0.1";
    std::string common_name;
    long lasts_s = day_s;
    const Identity* signer = nullptr;
};

void add_extension(X509* certificate, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
    auto* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    REQUIRE(extension != nullptr);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

void add_name(X509_NAME* name, const std::string& text) {
    X509_NAME_add_entry_by_txt(
        name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0);
}

/// Without a signer it is an authority.
Identity make(const Wanted& wanted) {
    static long number = 1;
    Identity made{{X509_new(), X509_free}, {EVP_EC_gen("P-256"), EVP_PKEY_free}};
    auto* certificate = made.certificate.get();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), number++);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * day_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wanted.lasts_s);
    X509_set_pubkey(certificate, made.key.get());
    if (!wanted.common_name.empty())
        add_name(X509_get_subject_name(certificate), wanted.common_name);
    const auto& signer = wanted.signer == nullptr ? made : *wanted.signer;
    X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate.get()));
    add_extension(
        certificate,
        NID_basic_constraints,
        wanted.signer == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (wanted.signer != nullptr && !wanted.alternatives.empty())
        add_extension(certificate, NID_subject_alt_name, wanted.alternatives);
    X509_sign(certificate, signer.key.get(), EVP_sha256());
    return made;
}

Identity an_authority(const std::string& name = "authority") {
    return make({"", name});
}

Credentials trusting(const Identity& authority, const Identity* own = nullptr) {
    tls::Certificates files{{"cacert", authority.pem()}};
    if (own != nullptr) files.own = tls::PemFile{"cert", own->pem() + own->key_pem()};
    auto read = Credentials::read(files);
    REQUIRE(read.has_value());
    return *read;
}

/// A server of OpenSSL alone.
class Server {
public:
    explicit Server(const Identity& identity, int newest = TLS1_3_VERSION)
        : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free) {
        SSL_CTX_set_max_proto_version(context_.get(), newest);
        SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
        // Old versions need it for their hashes.
        SSL_CTX_set_security_level(context_.get(), newest < TLS1_2_VERSION ? 0 : 1);
        SSL_CTX_use_certificate(context_.get(), identity.certificate.get());
        SSL_CTX_use_PrivateKey(context_.get(), identity.key.get());
    }
    void require_certificates_of(const Identity& authority) {
        X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority.certificate.get());
        SSL_CTX_set_verify(
            context_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }

    /// Returns its answer to these bytes; the text that it reads is in `heard`.
    std::string answer(const std::string& bytes) {
        if (!ssl_) begin();
        if (!bytes.empty())
            BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size()));
        if (SSL_is_init_finished(ssl_.get()) != 1) SSL_do_handshake(ssl_.get());
        char text[4096];
        for (int size = 0; (size = SSL_read(ssl_.get(), text, sizeof text)) > 0;)
            heard.append(text, static_cast<std::size_t>(size));
        return output();
    }
    std::string say(const std::string& text) {
        SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size()));
        return output();
    }
    std::string close() {
        SSL_shutdown(ssl_.get());
        return output();
    }

    std::string heard;

private:
    void begin() {
        ssl_.reset(SSL_new(context_.get()), SSL_free);
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        SSL_set_accept_state(ssl_.get());
    }
    std::string output() {
        auto* bio = SSL_get_wbio(ssl_.get());
        std::string bytes(BIO_ctrl_pending(bio), '\0');
        if (!bytes.empty()) BIO_read(bio, bytes.data(), static_cast<int>(bytes.size()));
        return bytes;
    }

    Owned<SSL_CTX> context_;
    Owned<SSL> ssl_;
};

/// The bytes in pieces of this size.
Result<> receive(
    CertifiedSession& client, const std::string& bytes, std::string& plain, std::size_t piece) {
    for (std::size_t at = 0; at < bytes.size(); at += piece)
        if (auto received = client.receive(bytes.substr(at, piece), plain); !received)
            return received;
    return {};
}

/// Continues until neither end has output.
Result<> shake_hands(CertifiedSession& client, Server& server, std::size_t piece = 1'000'000) {
    std::string plain;
    for (auto bytes = client.take_output(); !bytes.empty(); bytes = client.take_output())
        if (auto received = receive(client, server.answer(bytes), plain, piece); !received)
            return received;
    return {};
}

/// "" or why the server is not trusted.
std::string verdict(const Wanted& wanted, const Identity& trusted, const std::string& host) {
    Server server{make(wanted)};
    CertifiedSession client{trusting(trusted), host};
    const auto done = shake_hands(client, server);
    CHECK(client.is_established() == done.has_value());
    if (done) return "";
    CHECK(done.error().code == tls::Error::not_trusted);
    const std::string beginning = "its certificate is not accepted: ";
    CHECK(done.error().context.starts_with(beginning));
    return done.error().context.substr(beginning.size());
}

}  // namespace

TEST_CASE("a server with a certificate of an authority is trusted, however the bytes arrive") {
    const auto authority = an_authority();
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION})
        for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1'000'000}}) {
            Server server{make({"DNS:etcd1", "", day_s, &authority}), version};
            CertifiedSession client{trusting(authority), "etcd1"};
            CHECK_FALSE(client.is_established());
            REQUIRE(shake_hands(client, server, piece).has_value());
            REQUIRE(client.is_established());

            client.send("a question");
            std::string plain;
            CHECK(client.receive(server.answer(client.take_output()), plain).has_value());
            CHECK(server.heard == "a question");
            CHECK(receive(client, server.say("an answer"), plain, piece).has_value());
            CHECK(plain == "an answer");
            const auto end = receive(client, server.close(), plain, piece);
            REQUIRE_FALSE(end.has_value());
            CHECK(end.error().code == tls::Error::closed);
        }
}

TEST_CASE("a certificate of another name, time or authority is not accepted") {
    const auto authority = an_authority();
    const auto other = an_authority("other");
    const auto by = [&](const std::string& alternatives, const std::string& common_name = "") {
        return Wanted{alternatives, common_name, day_s, &authority};
    };
    CHECK(verdict(by("DNS:etcd1,IP:127.0.0.1"), authority, "127.0.0.1").empty());
    CHECK(verdict(by("IP:::1"), authority, "::1").empty());
    CHECK(verdict(by("DNS:*.etcd.local"), authority, "a.etcd.local").empty());
    CHECK(verdict(by("DNS:etcd1"), authority, "etcd2") == "hostname mismatch, it is not for etcd2");
    CHECK(
        verdict(by("DNS:127.0.0.1"), authority, "127.0.0.1") ==
        "IP address mismatch, it is not for 127.0.0.1");
    CHECK(verdict(by("DNS:*.etcd.local"), authority, "a.b.etcd.local")
              .starts_with("hostname mismatch"));
    // The common name is no name of a host.
    CHECK(verdict(by("", "etcd1"), authority, "etcd1").starts_with("hostname mismatch"));
    CHECK(
        verdict({"DNS:etcd1", "", -day_s, &authority}, authority, "etcd1") ==
        "certificate has expired");
    CHECK_FALSE(verdict(by("DNS:etcd1"), other, "etcd1").empty());
    // Its own certificate in the list is enough, as for etcd's own clients.
    const auto itself = make(by("DNS:etcd1"));
    Server server{itself};
    CertifiedSession client{trusting(itself), "etcd1"};
    CHECK(shake_hands(client, server).has_value());
}

TEST_CASE("there is nothing below TLS 1.2") {
    const auto authority = an_authority();
    Server server{make({"DNS:etcd1", "", day_s, &authority}), TLS1_1_VERSION};
    CertifiedSession client{trusting(authority), "etcd1"};
    const auto done = shake_hands(client, server);
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code == tls::Error::refused);

    CertifiedSession other{trusting(authority), "etcd1"};
    std::string plain;
    const auto received = other.receive("HTTP/1.1 400 Bad Request\r\n\r\n", plain);
    REQUIRE_FALSE(received.has_value());
    CHECK(received.error().code == tls::Error::not_encrypted);
    CHECK(plain.empty());
}

TEST_CASE("a server that wants a certificate gets the own one, or says that it is missing") {
    const auto authority = an_authority();
    const auto other = an_authority("other");
    const auto own = make({"DNS:a-node", "", day_s, &authority});
    const auto strange = make({"DNS:a-node", "", day_s, &other});
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        const auto outcome = [&](const Identity* shown) {
            Server server{make({"DNS:etcd1", "", day_s, &authority}), version};
            server.require_certificates_of(authority);
            CertifiedSession client{trusting(authority, shown), "etcd1"};
            CHECK(client.has_own_certificate() == (shown != nullptr));
            const auto done = shake_hands(client, server);
            return done ? std::string{} : done.error().context;
        };
        CHECK(outcome(&own).empty());
        // With TLS 1.2, OpenSSL's server sends no specific alert for this; etcd's does.
        CHECK(outcome(nullptr).starts_with(
            version == TLS1_3_VERSION ? "it requires a certificate of this node ("
                                      : "no TLS connection: "));
        CHECK(outcome(&strange).starts_with("it does not accept the certificate of this node ("));
    }
}

TEST_CASE("a file of certificates that cannot be used is named") {
    const auto authority = an_authority();
    const auto own = make({"DNS:a-node", "", day_s, &authority});
    const auto other = make({"DNS:a-node", "", day_s, &authority});
    const auto refusal = [](const tls::Certificates& files) {
        const auto read = Credentials::read(files);
        REQUIRE_FALSE(read.has_value());
        CHECK(read.error().code == system_code(EINVAL));
        return read.error().context;
    };
    const tls::PemFile trusted{"cacert", authority.pem()};
    const tls::PemFile shown{"cert", own.pem()};
    CHECK(refusal({{"cacert", ""}}) == "cacert: no certificate in it (PEM)");
    CHECK(refusal({{"cacert", own.key_pem()}}) == "cacert: no certificate in it (PEM)");
    const auto cut = authority.pem() + authority.pem().substr(0, 100);
    CHECK(refusal({{"cacert", cut}}) == "cacert: certificate 2 is damaged");
    CHECK(refusal({trusted, shown}).starts_with("cert: no private key in it"));
    CHECK(
        refusal({trusted, shown, tls::PemFile{"key", other.key_pem()}}) ==
        "key: is not the key of the certificate in cert");
    const Identity of_another_kind{{X509_new(), X509_free}, {EVP_RSA_gen(2048), EVP_PKEY_free}};
    CHECK(
        refusal({trusted, shown, tls::PemFile{"key", of_another_kind.key_pem()}}) ==
        "key: is not the key of the certificate in cert");
    CHECK(refusal({trusted, shown, tls::PemFile{"key", own.key_pem("word")}})
              .starts_with("key: no private key in it"));
    CHECK(Credentials::read({trusted, shown, tls::PemFile{"key", own.key_pem()}}).has_value());
}
