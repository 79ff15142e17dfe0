// SPDX-License-Identifier: Apache-2.0
// refuse SYSTEM_CALL PROGRAM [ARGUMENTS...]: runs a program under a filter that refuses this call
// with EPERM, as containers do; clone3 with ENOSYS. SYSTEM_CALL-eperm and SYSTEM_CALL-enosys select
// the error. SYSTEM_CALL inet6 refuses sockets of that family, as a kernel without IPv6 does.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned number_of(const char* name) {
    static const struct {
        const char* name;
        unsigned number;
    } calls[] = {
        {"clone3", SYS_clone3},
        {"close_range", SYS_close_range},
        {"inet6", SYS_socket},
        {"pidfd_open", SYS_pidfd_open},
        {"pidfd_send_signal", SYS_pidfd_send_signal},
        {"set_mempolicy", SYS_set_mempolicy},
    };
    const size_t length = strcspn(name, "-");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i)
        if (strlen(calls[i].name) == length && strncmp(name, calls[i].name, length) == 0)
            return calls[i].number;
    return ~0U;
}

static unsigned error_of(const char* name) {
    const char* error = strchr(name, '-');
    // glibc falls back on another call only after ENOSYS, and newer containers return it for this
    // call.
    if (error == NULL) return strcmp(name, "clone3") == 0 ? ENOSYS : EPERM;
    return strcmp(error, "-enosys") == 0 ? ENOSYS : EPERM;
}

int main(int argc, char** argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
        // Loads the call's first argument for inet6; otherwise the call's number again.
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    const int is_inet6 = argc > 1 && strcmp(argv[1], "inet6") == 0;
    if (argc < 3 || number_of(argv[1]) == ~0U) return 98;
    code[1].k = code[3].k = number_of(argv[1]);
    code[4].k |= error_of(argv[1]);
    if (is_inet6) {
        code[2].k = offsetof(struct seccomp_data, args[0]);
        code[3].k = AF_INET6;
        code[4].k = SECCOMP_RET_ERRNO | EAFNOSUPPORT;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 97;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 96;
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 95;
}
