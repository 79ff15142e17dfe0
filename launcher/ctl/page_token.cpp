// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/page_token.hpp"

#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/secret_file.hpp"
#include "rendezvous/tls/session.hpp"

#include <cerrno>
#include <cstdlib>

namespace ddprun::launcher::ctl {

Result<tls::SecretSource> find_secrets(
    const std::string& option, const std::optional<std::string>& secret_file) {
    if (auto checked = tls::check_openssl(); !checked) return checked.error();
    if (secret_file) return tls::read_secret_file(option, *secret_file);
    if (const char* const variable = std::getenv(tls::secret_variable))
        return tls::secrets_of_variable(variable);
    const char* const home = std::getenv("HOME");
    if (home == nullptr)
        return Failure{system_code(EINVAL), "HOME is not set: give " + option + "=PATH"};
    return tls::read_secret_file("the file of --secure", tls::own_secret_file(home));
}

Result<std::string> page_token(const std::optional<std::string>& secret_file) {
    const auto source = find_secrets("--secret-file", secret_file);
    if (!source) return source.error();
    return tls::page_token(source->secrets.front());
}

}  // namespace ddprun::launcher::ctl
