// SPDX-License-Identifier: Apache-2.0
// Prints the CPUs it may run on ("cpus 0 1"), its memory policy and that policy's nodes.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    static unsigned long mask[1024];
    unsigned long nodes[16] = {0};
    int policy = -1;
    long size = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    long bit;

    printf("cpus");
    for (bit = 0; bit < size * 8; ++bit)
        if (mask[bit / 64] >> (bit % 64) & 1) printf(" %ld", bit);
    if (syscall(SYS_get_mempolicy, &policy, nodes, sizeof nodes * 8, NULL, 0UL) != 0) policy = -1;
    printf("\npolicy %d nodes %lx\n", policy, nodes[0]);
    return 0;
}
