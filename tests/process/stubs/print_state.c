// SPDX-License-Identifier: Apache-2.0
// Prints what a process is given at its start, one a line.
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
    int number;
    int death_signal = 0;
    char directory[4096];
    sigset_t blocked;
    struct rlimit limit;
    mode_t mask;

    printf("pid %d\nsession %d\ngroup %d\n", getpid(), getsid(0), getpgrp());
    prctl(PR_GET_PDEATHSIG, &death_signal);
    printf("death signal %d\n", death_signal);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    printf("blocked:");
    for (number = 1; number < NSIG; ++number)
        if (sigismember(&blocked, number) == 1) printf(" %d", number);
    printf("\nignored:");
    for (number = 1; number < NSIG; ++number) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            printf(" %d", number);
    }
    mask = umask(0);
    printf("\numask %o\n", (unsigned)mask);
    printf("directory %s\n", getcwd(directory, sizeof directory));
    getrlimit(RLIMIT_NOFILE, &limit);
    printf("descriptors %lu\n", (unsigned long)limit.rlim_cur);
    return 0;
}
