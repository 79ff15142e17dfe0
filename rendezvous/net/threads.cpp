// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/threads.hpp"

#include "rendezvous/base/log.hpp"
#include "rendezvous/base/start_failure.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>

namespace ddprun::net {
namespace {

/// Without arguments the kernel itself answers EINVAL.
bool is_clone3_refused() {
    return ::syscall(SYS_clone3, nullptr, 0) < 0 && errno == EPERM;
}

/// When several filters refuse a call, the last added one sets the error number.
bool answer_clone3_with_enosys() {
    std::array code{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{static_cast<unsigned short>(code.size()), code.data()};
    const auto add = [&] { return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0; };
    return add() || (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && add());
}

}  // namespace

void prepare_threads() {
    if (!is_clone3_refused()) return;
    const bool is_prepared = answer_clone3_with_enosys();
    log::info(
        "threads.prepared",
        {{"reason", "a container's filter refuses clone3 with EPERM"},
         {"outcome", is_prepared ? "a filter answers ENOSYS" : "no filter could be added"}});
}

std::string describe_fatal(const std::exception& error) {
    const auto* of_system = dynamic_cast<const std::system_error*>(&error);
    return describe_start_failure(
        of_system != nullptr ? of_system->code() : std::error_code{},
        std::string{"internal error: "} + error.what());
}

}  // namespace ddprun::net
