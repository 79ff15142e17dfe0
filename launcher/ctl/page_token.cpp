// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/page_token.hpp"

#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/secret_file.hpp"
#include "rendezvous/tls/session.hpp"

#include <cerrno>
#include <cstdlib>
#include <vector>

namespace ddprun::launcher::ctl {
namespace {

Result<std::vector<tls::Secret>> secrets_in(const std::string& origin, const std::string& path) {
    auto source = tls::read_secret_file(origin, path);
    if (!source) return source.error();
    return std::move(source->secrets);
}

Result<std::vector<tls::Secret>> find_secrets(const std::optional<std::string>& secret_file) {
    if (secret_file) return secrets_in("--secret-file", *secret_file);
    if (const char* const variable = std::getenv(tls::secret_variable)) {
        auto secrets = tls::parse_secrets(variable);
        if (!secrets)
            return Failure{
                secrets.error().code,
                std::string{tls::secret_variable} + ": " + secrets.error().context};
        return secrets;
    }
    const char* const home = std::getenv("HOME");
    if (home == nullptr)
        return Failure{
            system_code(EINVAL), "HOME is not set: give --secret-file=PATH"};
    return secrets_in("the file of --secure", tls::own_secret_file(home));
}

}  // namespace

Result<std::string> page_token(const std::optional<std::string>& secret_file) {
    if (auto checked = tls::check_openssl(); !checked) return checked.error();
    const auto secrets = find_secrets(secret_file);
    if (!secrets) return secrets.error();
    return tls::page_token(secrets->front());
}

}  // namespace ddprun::launcher::ctl
