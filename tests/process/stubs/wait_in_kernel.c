// SPDX-License-Identifier: Apache-2.0
// Prints "waiting PID" and is in state D from then on: the parent of a vfork waits, and only a
// fatal signal interrupts it, until the child has ended.
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <unistd.h>

int main(void) {
    printf("waiting %d\n", getpid());
    fflush(stdout);
    if (vfork() == 0) {
        for (;;) pause();
    }
    return 0;
}
