// SPDX-License-Identifier: Apache-2.0
// flood LINES [WIDTH]: writes numbered lines with its rank to stdout and stderr, each WIDTH bytes
// long, as fast as they are taken.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pad(char* line, size_t width, const char* rank, const char* stream, long number) {
    int size = snprintf(line, width, "%s %s %ld ", rank, stream, number);
    memset(line + size, 'x', width - (size_t)size - 1);
    line[width - 1] = '\n';
}

int main(int argc, char** argv) {
    static char buffers[2][1 << 16];
    long lines = argc > 1 ? atol(argv[1]) : 1;
    size_t width = argc > 2 ? (size_t)atol(argv[2]) : 80;
    const char* rank = getenv("RANK");
    char* line = malloc(width);
    long i;
    if (rank == NULL) rank = "-";
    setvbuf(stdout, buffers[0], _IOFBF, sizeof buffers[0]);
    setvbuf(stderr, buffers[1], _IOFBF, sizeof buffers[1]);
    for (i = 0; i < lines; ++i) {
        pad(line, width, rank, "out", i);
        fwrite(line, 1, width, stdout);
        pad(line, width, rank, "err", i);
        fwrite(line, 1, width, stderr);
    }
    free(line);
    return 0;
}
