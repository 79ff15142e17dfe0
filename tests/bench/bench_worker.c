// SPDX-License-Identifier: Apache-2.0
// The worker that the benches launch: it first notes the time, then does what its arguments say.
//
//   bench_worker FILE exit           note, exit 0
//   bench_worker FILE wait           note, sleep until a signal ends it
//   bench_worker FILE die MICROSECONDS
//       rank 0 of the first round notes the time of its death after that long and dies of SIGKILL;
//       its siblings wait for their end; every later worker notes and exits 0
//   bench_worker FILE say LINES      note, write so many lines of 100 bytes to stdout, exit 0
//
// A note is one line: "EVENT RANK NANOSECONDS" of CLOCK_MONOTONIC, in one write to a file opened
// for appending.
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void note(const char* file, const char* event, const char* rank, int64_t when) {
    char line[128];
    const int size = snprintf(line, sizeof line, "%s %s %lld\n", event, rank, (long long)when);
    const int out = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (out < 0 || write(out, line, (size_t)size) != size) _exit(3);
    close(out);
}

static void say(long lines) {
    enum { line_bytes = 100, lines_at_once = 40 };
    static char text[line_bytes * lines_at_once];
    memset(text, 'x', sizeof text);
    for (long i = 1; i <= lines_at_once; ++i)
        text[i * line_bytes - 1] = '\n';
    while (lines > 0) {
        const long count = lines < lines_at_once ? lines : lines_at_once;
        size_t left = (size_t)(count * line_bytes);
        while (left > 0) {
            const ssize_t size =
                write(STDOUT_FILENO, text + (size_t)(count * line_bytes) - left, left);
            if (size <= 0) _exit(3);
            left -= (size_t)size;
        }
        lines -= count;
    }
}

int main(int argc, char** argv) {
    const int64_t begun_at = now();
    if (argc < 3) return 2;
    const char* rank = getenv("RANK");
    const char* life = getenv("TORCHELASTIC_RESTART_COUNT");
    if (!rank) rank = "-";
    const int is_first_life = !life || strcmp(life, "0") == 0;

    note(argv[1], is_first_life ? "begun" : "begun_again", rank, begun_at);
    if (strcmp(argv[2], "wait") == 0) pause();
    if (strcmp(argv[2], "say") == 0 && argc > 3) say(atol(argv[3]));
    if (strcmp(argv[2], "die") == 0 && is_first_life) {
        if (strcmp(rank, "0") == 0 && argc > 3) {
            usleep((useconds_t)atoi(argv[3]));
            note(argv[1], "died", rank, now());
            kill(getpid(), SIGKILL);
        }
        pause();
    }
    return 0;
}
