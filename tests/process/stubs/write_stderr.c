// SPDX-License-Identifier: Apache-2.0
// write_stderr LINES [leave]: writes numbered lines to stderr and says "written" on stdout. With
// `leave` a grandchild holds stderr open for ever.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
    long lines = argc > 1 ? atol(argv[1]) : 1;
    long i;
    if (argc > 2 && fork() == 0) {
        for (;;) pause();
    }
    for (i = 0; i < lines; ++i) fprintf(stderr, "line %ld\n", i);
    printf("written\n");
    return 0;
}
