// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/version_text.hpp"

#include "rendezvous/base/version.hpp"
#include "rendezvous/control/versions.hpp"

namespace ddprun::control {
namespace {

#if defined(__x86_64__)
constexpr std::string_view processor = "x86_64";
#elif defined(__aarch64__)
constexpr std::string_view processor = "aarch64";
#else
constexpr std::string_view processor = "another processor";
#endif

}  // namespace

std::string version_text(std::string_view program) {
    std::string text{program};
    text += ' ';
    text += build::version;
    text += '\n';
    if (!build::commit.empty()) {
        text += "commit ";
        text += build::commit;
        text += ", ";
    }
    text += processor;
    text += ", ";
    text += build::linkage;
    text += ", ";
    text += build::compiler;
    text += "\ncontrol protocol DDPRUN/" + std::to_string(first_version) + ", versions " +
            std::to_string(own_versions().front()) + " to " +
            std::to_string(own_versions().back()) +
            ", store protocol c10d (PyTorch 2.2 and newer)\n"
            "features: TLS 1.3, etcd, Kubernetes Lease, voting nodes\n";
    return text;
}

}  // namespace ddprun::control
