// SPDX-License-Identifier: Apache-2.0
#include "launcher/load_secret.hpp"

#include "rendezvous/tls/secret_file.hpp"
#include "rendezvous/tls/session.hpp"

#include <utility>

namespace ddprun::launcher {

Result<std::optional<tls::SecretSource>> load_secret(const SecretChoice& choice) {
    using Place = SecretChoice::Place;
    if (choice.place == Place::none) return std::optional<tls::SecretSource>{};
    // Checked here: otherwise the first handshake of the running process would abort.
    if (auto checked = tls::check_openssl(); !checked)
        return Failure{checked.error().code, choice.origin + ": " + checked.error().context};
    if (choice.place == Place::variable)
        return std::optional{tls::SecretSource{choice.origin, {}, choice.secrets}};
    auto read = choice.place == Place::file
                    ? tls::read_secret_file(choice.origin, choice.path)
                    : tls::read_or_make_secret_file(choice.origin, choice.path);
    if (!read) return read.error();
    return std::optional{std::move(*read)};
}

}  // namespace ddprun::launcher
