// SPDX-License-Identifier: Apache-2.0
// eat_memory MEBIBYTES: uses that much, then ends with 0.
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
    const long count = argc == 2 ? atol(argv[1]) : 0;
    for (long i = 0; i < count; ++i) {
        char* piece = malloc(1 << 20);
        if (piece == NULL) return 1;
        memset(piece, 1, 1 << 20);
    }
    return 0;
}
