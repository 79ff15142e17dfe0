// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/machine.hpp"

#include <cstdio>
#include <cstdlib>

namespace ddprun {

void contradiction(const char* what, const char* file, int line) {
    std::fprintf(stderr, "ddprun: internal error: %s (%s:%d)\n", what, file, line);
    std::abort();
}

}  // namespace ddprun
