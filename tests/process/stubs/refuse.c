// SPDX-License-Identifier: Apache-2.0
// refuse SYSTEM_CALL PROGRAM [ARGUMENTS...]: runs a program under a filter that refuses this call
// with EPERM, as containers do; clone3 with ENOSYS, clone3-eperm with EPERM.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned number_of(const char* name) {
    if (strcmp(name, "close_range") == 0) return SYS_close_range;
    if (strcmp(name, "pidfd_open") == 0) return SYS_pidfd_open;
    if (strncmp(name, "clone3", 6) == 0) return SYS_clone3;
    return ~0U;
}

int main(int argc, char** argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    if (argc < 3 || number_of(argv[1]) == ~0U) return 98;
    code[1].k = number_of(argv[1]);
    // What glibc itself falls back on, and what newer containers answer for this call.
    if (strcmp(argv[1], "clone3") == 0) code[2].k = SECCOMP_RET_ERRNO | ENOSYS;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 97;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 96;
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 95;
}
