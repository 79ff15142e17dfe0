// SPDX-License-Identifier: Apache-2.0
// contain PROGRAM [ARGUMENTS...]: runs a program as process 1 of a pid namespace, forwards the
// signals that this process gets, as `docker run` and `docker stop` do, and ends as the program
// does.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_as_one(const sigset_t* mask, char** command) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 97;
    if (mount("proc", "/proc", "proc", 0, NULL) != 0) return 96;
    sigprocmask(SIG_SETMASK, mask, NULL);
    execv(command[0], command);
    perror(command[0]);
    return 95;
}

static int end_as(int status) {
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const int number = WTERMSIG(status);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    return 128 + number;
}

int main(int argc, char** argv) {
    if (argc < 2 || unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return 98;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t child = fork();
    if (child == 0) return run_as_one(&before, argv + 1);
    for (;;) {
        const int number = sigwaitinfo(&all, NULL);
        if (number < 0 && errno == EINTR) continue;
        if (number != SIGCHLD) {
            kill(child, number);
            continue;
        }
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child && !WIFSTOPPED(status)) return end_as(status);
    }
}
