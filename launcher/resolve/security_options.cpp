// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/security_options.hpp"

#include "launcher/grammar/from.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/control/text.hpp"

#include <utility>

namespace ddprun::launcher {
namespace {

Result<SecretChoice> of_variable(std::string_view value) {
    auto source = tls::secrets_of_variable(value);
    if (!source) return source.error();
    return SecretChoice{
        SecretChoice::Place::variable, source->origin, {}, std::move(source->secrets), false};
}

Result<SecretChoice> of_own_file(const Environment& environment, const Given& secure) {
    const auto home = value_of(environment, "HOME");
    if (!home)
        return Failure{
            system_code(EINVAL),
            secure.origin +
                ": HOME is not set, and the secret is in ~/.config/ddprun/secret; use "
                "--rdzv-secret-file=PATH"};
    return SecretChoice{
        SecretChoice::Place::own_file, secure.origin, tls::own_secret_file(*home), {}, false};
}

}  // namespace

Result<SecretChoice> choose_secret(const Options& options, const Environment& environment) {
    if (const auto file = options.find("rdzv-secret-file"))
        return SecretChoice{SecretChoice::Place::file, file->origin, file->text, {}, false};
    if (const auto variable = value_of(environment, secret_variable)) return of_variable(*variable);
    if (options.has_flag("secure")) return of_own_file(environment, *options.find("secure"));
    return SecretChoice{};
}

Result<> resolve_secret(Resolving& job) {
    // Workers and their children do not need them.
    job.spec.environment.erase(secret_variable);
    job.spec.environment.erase(etcd_password_variable);
    const auto& nodes = job.spec.nodes.value;
    const auto file = job.options.find("rdzv-secret-file");
    const auto variable = value_of(job.system.environment, secret_variable);
    const bool is_secure = job.options.has_flag("secure");
    const bool has_secret = file || variable || is_secure;
    const bool is_insecure = job.options.has_flag("insecure");
    if (is_insecure && has_secret)
        return Failure{
            system_code(EINVAL),
            job.options.find("insecure")->origin + ": leave it out beside " +
                (file        ? file->origin
                 : is_secure ? job.options.find("secure")->origin
                             : secret_variable)};
    if (is_secure && (file || variable))
        job.note(
            log::Level::warning,
            "option.ignored",
            job.options.find("secure")->origin + ": the secret of " +
                (file ? file->origin : secret_variable) + " is used");
    if (file && variable)
        job.note(
            log::Level::warning,
            "option.ignored",
            secret_variable + ": the secret of " + file->origin + " is used");
    auto choice = choose_secret(job.options, job.system.environment);
    if (!choice) return choice.error();
    job.spec.secret = std::move(*choice);
    if (!has_secret) job.spec.secret.is_missed = !is_insecure && nodes.max + nodes.spares > 1;
    return {};
}

Result<> resolve_store_access(Resolving& job) {
    using control::StoreAccess;
    auto& spec = job.spec;
    const bool has_secret = spec.secret.place != SecretChoice::Place::none;
    const bool may_be_members = has_secret && spec.shares_store.value;
    const auto usual = may_be_members ? StoreAccess::members : StoreAccess::direct;
    const auto given = given_or(job.options, "store-access", std::string{control::name_of(usual)});
    if (given.text != "direct" && given.text != "members")
        return usage(given.origin, given.text, "accepted are direct and members");
    const auto access = given.text == "members" ? StoreAccess::members : StoreAccess::direct;
    if (access == StoreAccess::members && !has_secret)
        return usage(
            given.origin, given.text, "members have a secret: add --secure or --rdzv-secret-file");
    if (access == StoreAccess::members && !may_be_members)
        return usage(
            given.origin,
            given.text,
            "with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 worker rank 0 serves the store itself, to "
            "every caller");
    spec.store_access = {access, given.origin};
    if (has_secret && access == StoreAccess::direct)
        job.note(
            log::Level::warning,
            "security.store_open",
            (spec.shares_store.value ? given.origin
                                     : std::string{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE"}) +
                ": the secret does not protect the workers' store: every program that reaches it "
                "can read and write it");
    return {};
}

}  // namespace ddprun::launcher
