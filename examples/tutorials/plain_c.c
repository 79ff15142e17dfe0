/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface: one header, int codes, ddprun_last_error() for the text of an error.
 *   cc plain_c.c -o tutorial_plain_c $(pkg-config --cflags --libs ddprun)
 *   ddprun --standalone --nproc-per-node=2 tutorial_plain_c */
#include "ddprun/ddprun.h"

#include <stdio.h>

static int fail(const char* what) {
    /* For the launcher's report, and for the screen. */
    ddprun_record_error(what, ddprun_last_error());
    ddprun_print_error(what, ddprun_last_error());
    return 1;
}

int main(void) {
    ddprun_world world = {.size = sizeof world};
    ddprun_group* group = NULL;
    if (ddprun_init(NULL, &world) != DDPRUN_OK) return fail("init");
    if (ddprun_group_create(&world, NULL, NULL, &group) != DDPRUN_OK) return fail("group");

    /* One flat array of gradients, as a program without a framework has it. */
    float gradients[1000];
    for (int step = 0; step < 10; ++step) {
        for (int i = 0; i < 1000; ++i)
            gradients[i] = (float)(world.rank + step);

        ddprun_work* work = NULL;
        if (ddprun_all_reduce(group, gradients, 1000, DDPRUN_FLOAT32, DDPRUN_AVERAGE, &work) != 0)
            return fail("all_reduce");
        /* ... something else meanwhile ... */
        if (ddprun_work_wait(work, 0) != DDPRUN_OK) return fail("all_reduce");

        ddprun_report_progress((uint64_t)step + 1);
    }
    printf("rank %d of %d: average %g\n", world.rank, world.world_size, (double)gradients[999]);
    ddprun_group_free(group);
    return 0;
}
