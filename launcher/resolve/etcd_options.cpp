// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/etcd_options.hpp"

#include "launcher/grammar/env_defaults.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/escaped.hpp"

#include <utility>

namespace ddprun::launcher {
namespace {

using File = EtcdAccessChoice::File;

std::optional<File> file_of(
    const std::optional<std::string>& path, const std::string& conf_origin, const char* key) {
    if (!path) return std::nullopt;
    return File{conf_origin + " " + key, *path};
}

/// Without https certificates would have no effect, and all traffic could be read.
Result<> check_certificates(const EtcdAccessChoice& choice) {
    for (const auto* file : {&choice.authorities, &choice.own, &choice.key})
        if (*file && !choice.is_encrypted)
            return usage((*file)->origin, (*file)->path, "it is for https: add protocol=https");
    if (choice.key && !choice.own)
        return usage(
            choice.key->origin,
            choice.key->path,
            "give the certificate of this key too, cert=FILE");
    return {};
}

/// No message contains the variable's value.
Result<> read_login(
    EtcdAccessChoice& choice,
    const RdzvConf& conf,
    const std::string& conf_origin,
    const Environment& environment) {
    const auto variable = value_of(environment, etcd_password_variable);
    choice.password_file = file_of(conf.etcd_password_file, conf_origin, "etcd_password_file");
    if (!conf.etcd_user) {
        if (!choice.password_file && !variable) return {};
        return Failure{
            system_code(EINVAL),
            (choice.password_file ? choice.password_file->origin : etcd_password_variable) +
                ": give the user of this password too, etcd_user=NAME in --rdzv-conf"};
    }
    choice.user = *conf.etcd_user;
    if (!control::is_escaped_whole(choice.user, limits::max_name_bytes))
        return usage(conf_origin + " etcd_user", choice.user, "accepted is UTF-8 text");
    if (choice.password_file) return {};
    if (!variable || variable->empty())
        return usage(
            conf_origin + " etcd_user",
            choice.user,
            "give the password of this user, by etcd_password_file=FILE in --rdzv-conf or by the "
            "variable " +
                etcd_password_variable);
    choice.password = *variable;
    return {};
}

}  // namespace

Result<EtcdAccessChoice> choose_etcd_access(
    const RdzvConf& conf,
    const std::string& conf_origin,
    const Environment& environment,
    bool is_encrypted) {
    EtcdAccessChoice choice;
    choice.is_encrypted = is_encrypted;
    choice.authorities = file_of(conf.cacert, conf_origin, "cacert");
    choice.own = file_of(conf.cert, conf_origin, "cert");
    choice.key = file_of(conf.key, conf_origin, "key");
    if (auto checked = check_certificates(choice); !checked) return checked.error();
    if (auto read = read_login(choice, conf, conf_origin, environment); !read) return read.error();
    return choice;
}

}  // namespace ddprun::launcher
