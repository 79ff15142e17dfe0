// SPDX-License-Identifier: Apache-2.0
#include "launcher/load_etcd_access.hpp"

#include "launcher/grammar/env_defaults.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/escaped.hpp"
#include "rendezvous/tls/secret_file.hpp"

#include <unistd.h>

#include <array>
#include <utility>

namespace ddprun::launcher {
namespace {

using File = EtcdAccessChoice::File;

/// The lists of Debian, Fedora, openSUSE and Alpine. OpenSSL's built-in path is not used, since a
/// static program is started on all of them.
constexpr std::array<const char*, 5> lists_of_authorities{
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem"};

Result<tls::PemFile> read(const File& file, bool has_key = false) {
    auto text = tls::read_certificate_file(file.origin, file.path, has_key);
    if (!text) return text.error();
    return tls::PemFile{file.origin + ": '" + file.path + "'", std::move(*text)};
}

Result<tls::PemFile> authorities_of(
    const EtcdAccessChoice& choice, const Environment& environment) {
    if (choice.authorities) return read(*choice.authorities);
    // OpenSSL's own programs read this variable too.
    if (const auto file = value_of(environment, "SSL_CERT_FILE"); file && !file->empty())
        return read({"SSL_CERT_FILE", std::string{*file}});
    for (const auto* path : lists_of_authorities)
        if (::access(path, F_OK) == 0) return read({"https to etcd", path});
    return Failure{
        system_code(EINVAL),
        "https to etcd: this machine has no list of certificate authorities (" +
            std::string{lists_of_authorities.front()} +
            " and others): give the one that has signed etcd's certificate, cacert=FILE in "
            "--rdzv-conf"};
}

Result<tls::Credentials> credentials_of(
    const EtcdAccessChoice& choice, const Environment& environment) {
    tls::Certificates files;
    auto authorities = authorities_of(choice, environment);
    if (!authorities) return authorities.error();
    files.authorities = std::move(*authorities);
    if (choice.own) {
        auto own = read(*choice.own, !choice.key);
        if (!own) return own.error();
        files.own = std::move(*own);
    }
    if (choice.key) {
        auto key = read(*choice.key, true);
        if (!key) return key.error();
        files.key = std::move(*key);
    }
    return tls::Credentials::read(files);
}

Result<witness::EngineAccess::Login> login_of(const EtcdAccessChoice& choice) {
    witness::EngineAccess::Login login{choice.user, choice.password};
    std::string origin = etcd_password_variable;
    if (const auto& file = choice.password_file) {
        auto password = tls::read_password_file(file->origin, file->path);
        if (!password) return password.error();
        login.password = std::move(*password);
        origin = file->origin + ": '" + file->path + "'";
    }
    constexpr std::size_t most_per_byte = 6;
    if (!control::is_escaped_whole(login.password, most_per_byte * limits::max_secret_file_bytes))
        return Failure{system_code(EINVAL), origin + ": accepted is UTF-8 text"};
    return login;
}

}  // namespace

Result<witness::EngineAccess> load_etcd_access(
    const EtcdAccessChoice& choice, const Environment& environment) {
    witness::EngineAccess access;
    if (choice.is_encrypted) {
        auto credentials = credentials_of(choice, environment);
        if (!credentials) return credentials.error();
        access.credentials = std::move(*credentials);
    }
    if (!choice.user.empty()) {
        auto login = login_of(choice);
        if (!login) return login.error();
        access.login = std::move(*login);
    }
    return access;
}

}  // namespace ddprun::launcher
