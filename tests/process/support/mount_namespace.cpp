// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/mount_namespace.hpp"

#include "tests/process/support/running.hpp"

#include <unistd.h>

#include <stdexcept>

namespace ddprun::test {

std::string why_no_mount_namespace() {
    if (::geteuid() != 0) return "a mount namespace needs root";
    try {
        Running command("unshare", {"--mount", "true"});
        if (command.wait_for_code() == 0) return {};
        const auto said = command.err();
        return "no mount namespace can be made here: " + said.substr(0, said.find('\n'));
    } catch (const std::runtime_error& error) {
        return error.what();
    }
}

}  // namespace ddprun::test
