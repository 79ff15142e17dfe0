// SPDX-License-Identifier: Apache-2.0
// stamped_exec FILE PROGRAM ARGUMENTS...: notes CLOCK_MONOTONIC in FILE, then becomes PROGRAM. The
// time stands for the moment at which a person presses return, without the cost of the program that
// measures.
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    FILE* out = fopen(argv[1], "ae");
    if (!out) return 3;
    fprintf(out, "command - %lld\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec);
    fclose(out);
    execv(argv[2], argv + 2);
    return 4;
}
