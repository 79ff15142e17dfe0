/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the C interface once, as one rank of any world. Exits 0 when each did what the
 * header says; otherwise the line that did not. */
#include "ddprun/ddprun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                              \
    do {                                               \
        if (!(condition)) {                            \
            fprintf(                                   \
                stderr,                                \
                "c_worker.c:%d: %s; last error: %s\n", \
                __LINE__,                              \
                #condition,                            \
                ddprun_last_error());                  \
            exit(1);                                   \
        }                                              \
    } while (0)
#define WORKS(call) EXPECT((call) == DDPRUN_OK)

static void use_store(ddprun_store* store, const ddprun_world* world) {
    char* value = NULL;
    size_t bytes = 0;
    int64_t sum = 0;
    int flag = -1;
    const char* keys[] = {"c/blob", "c/counter"};

    if (world->rank == 0) WORKS(ddprun_store_set(store, "c/blob", "a\0b", 3));
    WORKS(ddprun_store_get(store, "c/blob", 30000, &value, &bytes));
    EXPECT(bytes == 3 && memcmp(value, "a\0b", 4) == 0);
    ddprun_free(value);
    WORKS(ddprun_store_add(store, "c/counter", 2, &sum));
    EXPECT(sum >= 2 && sum <= 2 * world->world_size);
    WORKS(ddprun_store_wait(store, keys, 2, 30000));
    WORKS(ddprun_store_check(store, keys, 2, &flag));
    EXPECT(flag == 1);
    WORKS(ddprun_store_compare_set(store, "c/first", NULL, 0, "x", 1, &value, NULL));
    EXPECT(strcmp(value, "x") == 0);
    ddprun_free(value);
    WORKS(ddprun_store_delete_key(store, "c/never", &flag));
    EXPECT(flag == 0);

    EXPECT(ddprun_store_get(store, "c/never", 10, &value, &bytes) == DDPRUN_TIMEOUT);
    EXPECT(strstr(ddprun_last_error(), "c/never") != NULL);
    EXPECT(ddprun_store_get(NULL, "c/never", 10, &value, &bytes) == DDPRUN_USAGE);
    EXPECT(strcmp(ddprun_last_error(), "store is NULL") == 0);
    EXPECT(ddprun_store_set(store, NULL, "", 0) == DDPRUN_USAGE);

    ddprun_store* other = NULL;
    WORKS(ddprun_store_reconnect(store, 30000, &other));
    EXPECT(strcmp(ddprun_store_local_address(other), ddprun_store_local_address(store)) == 0);
    ddprun_store_free(other);
    WORKS(ddprun_store_share(store, &other));
    WORKS(ddprun_store_set(other, "c/shared", "", 0));
    ddprun_store_free(other);
}

/* The last rank alone gives a number to all; then each gives one to every other rank. */
static void use_parts(ddprun_group* group, int64_t* room) {
    const int rank = ddprun_group_rank(group);
    const int size = ddprun_group_size(group);
    int64_t mine[64];
    size_t counts[64];
    for (int i = 0; i < size; ++i)
        counts[i] = i == size - 1 ? 1 : 0;
    mine[0] = rank;
    WORKS(ddprun_all_gather_v(group, mine, room, counts, DDPRUN_INT64, NULL));
    EXPECT(room[0] == size - 1);
    for (int i = 0; i < size; ++i)
        counts[i] = i == rank ? 0 : 1;
    for (int i = 0; i + 1 < size; ++i)
        mine[i] = rank * 100 + (i < rank ? i : i + 1);
    WORKS(ddprun_all_to_all_v(group, mine, counts, room, counts, DDPRUN_INT64, NULL));
    if (size > 1) EXPECT(room[size - 2] == (rank == size - 1 ? size - 2 : size - 1) * 100 + rank);
}

static void use_collectives(ddprun_group* group) {
    const int rank = ddprun_group_rank(group);
    const int size = ddprun_group_size(group);
    const size_t n = (size_t)size;
    int32_t one = 0;
    int64_t* all = ddprun_allocate(group, n * n * sizeof *all);
    int64_t* mine = ddprun_allocate(group, n * sizeof *mine);
    ddprun_work* work = NULL;
    EXPECT(all != NULL && mine != NULL && all[0] == 0);

    one = rank + 1;
    WORKS(ddprun_all_reduce(group, &one, 1, DDPRUN_INT32, DDPRUN_SUM, NULL));
    EXPECT(one == size * (size + 1) / 2);
    one = rank;
    WORKS(ddprun_all_reduce(group, &one, 1, DDPRUN_INT32, DDPRUN_MAX, &work));
    WORKS(ddprun_work_wait(work, 30000));
    EXPECT(one == size - 1);
    one = 1;
    WORKS(ddprun_reduce(group, &one, 1, DDPRUN_INT32, 0, DDPRUN_SUM, NULL));
    EXPECT(one == (rank == 0 ? size : 1));
    one = rank;
    WORKS(ddprun_broadcast(group, &one, 1, DDPRUN_INT32, size - 1, NULL));
    EXPECT(one == size - 1);

    mine[0] = rank;
    WORKS(ddprun_all_gather(group, mine, all, 1, DDPRUN_INT64, NULL));
    EXPECT(all[size - 1] == size - 1);
    for (int i = 0; i < size; ++i)
        all[i] = i;
    WORKS(ddprun_reduce_scatter(group, all, mine, 1, DDPRUN_INT64, DDPRUN_SUM, NULL));
    EXPECT(mine[0] == (int64_t)rank * size);
    mine[0] = rank;
    WORKS(ddprun_gather(group, mine, all, 1, DDPRUN_INT64, 0, NULL));
    if (rank == 0) EXPECT(all[size - 1] == size - 1);
    WORKS(ddprun_scatter(group, all, mine, 1, DDPRUN_INT64, 0, NULL));
    EXPECT(mine[0] == rank);
    for (int i = 0; i < size; ++i)
        all[i] = rank * 100 + i;
    WORKS(ddprun_all_to_all(group, all, mine, 1, DDPRUN_INT64, NULL));
    EXPECT(mine[size - 1] == (size - 1) * 100 + rank);

    WORKS(ddprun_all_reduce_to(group, mine, all, n, DDPRUN_INT64, DDPRUN_MAX, NULL));
    EXPECT(mine[0] == rank && all[0] == size - 1);
    use_parts(group, all);

    if (size > 1) {
        ddprun_work* sending = NULL;
        mine[0] = rank;
        WORKS(ddprun_send(group, mine, 1, DDPRUN_INT64, (rank + 1) % size, &sending));
        WORKS(ddprun_recv(group, all, 1, DDPRUN_INT64, (rank + size - 1) % size, NULL));
        WORKS(ddprun_work_wait(sending, 0));
        EXPECT(all[0] == (rank + size - 1) % size);
    }
    one = 1;
    WORKS(ddprun_all_reduce(group, &one, 1, DDPRUN_INT32, DDPRUN_SUM, &work));
    WORKS(ddprun_work_wait_in(work, NULL)); /* in host memory: a wait */
    EXPECT(one == size);
    WORKS(ddprun_barrier(group, &work));
    while (!ddprun_work_is_done(work)) {
    }
    WORKS(ddprun_work_wait(work, 0));
    ddprun_deallocate(all);
    ddprun_deallocate(mine);
    ddprun_deallocate(NULL);
}

static void misuse(ddprun_group* group, const ddprun_world* world) {
    float number = 1;
    ddprun_group* none = NULL;
    EXPECT(ddprun_all_reduce(NULL, &number, 1, DDPRUN_FLOAT32, DDPRUN_SUM, NULL) == DDPRUN_USAGE);
    EXPECT(ddprun_all_reduce(group, NULL, 1, DDPRUN_FLOAT32, DDPRUN_SUM, NULL) == DDPRUN_USAGE);
    EXPECT(ddprun_all_reduce(group, &number, 1, (ddprun_type)77, DDPRUN_SUM, NULL) == DDPRUN_USAGE);
    EXPECT(strstr(ddprun_last_error(), "element type 77: expected 0 to 12") != NULL);
    EXPECT(
        ddprun_all_reduce_to(group, NULL, &number, 1, DDPRUN_FLOAT32, DDPRUN_SUM, NULL) ==
        DDPRUN_USAGE);
    EXPECT(ddprun_all_reduce(group, &number, 1, DDPRUN_BOOL, DDPRUN_AVERAGE, NULL) == DDPRUN_USAGE);
    EXPECT(
        ddprun_all_gather_v(group, &number, &number, NULL, DDPRUN_FLOAT32, NULL) == DDPRUN_USAGE);
    ddprun_group_options options = {.size = sizeof options, .backend = 9};
    EXPECT(ddprun_group_create(world, NULL, &options, &none) == DDPRUN_USAGE);
    options.backend = 3;
    EXPECT(ddprun_group_create(world, NULL, &options, &none) == DDPRUN_USAGE);
    options.backend = DDPRUN_CPU;
    options.size = 0;
    EXPECT(ddprun_group_create(world, NULL, &options, &none) == DDPRUN_USAGE);
    EXPECT(strstr(ddprun_last_error(), "options->size is 0: set it to") != NULL);
    options.size = sizeof options;
    options.reserved = 1;
    EXPECT(ddprun_group_create(world, NULL, &options, &none) == DDPRUN_USAGE);
    EXPECT(strstr(ddprun_last_error(), "options has a value in a field that ddprun ") != NULL);
    EXPECT(ddprun_work_wait(NULL, 0) == DDPRUN_USAGE);
    EXPECT(ddprun_work_wait_in(NULL, NULL) == DDPRUN_USAGE);
    EXPECT(ddprun_last_error_ranks(NULL, 0) == 0);
    EXPECT(ddprun_group_rank(NULL) == -1 && ddprun_group_backend(NULL) == -1);
    EXPECT(ddprun_allocate(group, 0) == NULL);
}

/* Splits in the opposite order of ranks, and then into groups of one rank or none. */
static void use_splits(ddprun_group* group, const ddprun_world* world) {
    ddprun_group* part = NULL;
    WORKS(ddprun_group_split(group, 5, -world->rank, &part));
    EXPECT(ddprun_group_size(part) == world->world_size);
    EXPECT(ddprun_group_rank(part) == world->world_size - 1 - world->rank);
    WORKS(ddprun_barrier(part, NULL));
    ddprun_group_free(part);
    WORKS(ddprun_group_split(group, world->rank == 0 ? -1 : world->rank, 0, &part));
    EXPECT((part == NULL) == (world->rank == 0));
    EXPECT(!part || ddprun_group_size(part) == 1);
    ddprun_group_free(part);
    EXPECT(ddprun_group_split(group, 0, 0, NULL) == DDPRUN_USAGE);
    EXPECT(ddprun_group_split(NULL, 0, 0, &part) == DDPRUN_USAGE);
}

/* A group of all ranks, for one use that ends it. */
static ddprun_group* another(ddprun_group* group) {
    int all_ranks[64];
    ddprun_group* same = NULL;
    for (int i = 0; i < ddprun_group_size(group); ++i)
        all_ranks[i] = i;
    WORKS(ddprun_group_create_sub(group, all_ranks, (size_t)ddprun_group_size(group), &same));
    return same;
}

static void give_up(ddprun_group* group, const ddprun_world* world) {
    int rank = -1;
    ddprun_group* same = another(group);
    if (world->rank == 0) ddprun_group_abort(same);
    EXPECT(ddprun_barrier(same, NULL) == DDPRUN_PEER_LOST);
    EXPECT(ddprun_last_error_ranks(&rank, 1) == 1 && rank == 0);
    EXPECT(ddprun_last_error_round() == world->round);
    EXPECT(strcmp(ddprun_last_error_operation(), "") == 0);
    ddprun_group_free(same);
}

static void disagree(ddprun_group* group) {
    float number = 1;
    ddprun_group* same = another(group);
    if (ddprun_group_rank(group) == 0)
        EXPECT(ddprun_barrier(same, NULL) == DDPRUN_MISMATCH);
    else
        EXPECT(
            ddprun_all_reduce(same, &number, 1, DDPRUN_FLOAT32, DDPRUN_SUM, NULL) ==
            DDPRUN_MISMATCH);
    EXPECT(strstr(ddprun_last_error(), ddprun_last_error_one_side()) != NULL);
    EXPECT(strstr(ddprun_last_error(), ddprun_last_error_other_side()) != NULL);
    EXPECT(
        strstr(ddprun_last_error_one_side(), " is at call 1: ") != NULL &&
        strstr(ddprun_last_error_other_side(), " is at call 1: ") != NULL);
    EXPECT(strcmp(ddprun_last_error_operation(), "") == 0 && ddprun_last_error_round() == -1);
    ddprun_group_free(same);
}

/* Rank 0 waits in vain; after its timeout the others make the call. */
static void come_late(ddprun_group* group, ddprun_store* store, const ddprun_world* world) {
    int ranks[64] = {0};
    char* value = NULL;
    size_t bytes = 0;
    ddprun_work* work = NULL;
    ddprun_group* same = another(group);
    if (world->rank == 0) {
        WORKS(ddprun_barrier(same, &work));
        EXPECT(ddprun_work_wait(work, 50) == DDPRUN_TIMEOUT);
        EXPECT(strcmp(ddprun_last_error_operation(), "call 1: barrier") == 0);
        EXPECT(ddprun_last_error_ranks(ranks, 64) == (size_t)world->world_size - 1);
        EXPECT(ranks[0] == 1);
        EXPECT(ddprun_barrier(same, NULL) == DDPRUN_TIMEOUT);
        WORKS(ddprun_store_set(store, "c/timed out", "", 0));
    } else {
        WORKS(ddprun_store_get(store, "c/timed out", 30000, &value, &bytes));
        ddprun_free(value);
        /* The reason of rank 0 when rank 0 itself waited in the call. Otherwise only that it has
         * timed out, because another of its threads was in the call at that time. */
        const int code = ddprun_barrier(same, NULL);
        EXPECT(code == DDPRUN_TIMEOUT || code == DDPRUN_PEER_LOST);
        EXPECT(
            strcmp(
                ddprun_last_error_operation(), code == DDPRUN_TIMEOUT ? "call 1: barrier" : "") ==
            0);
    }
    ddprun_group_free(same);
}

int main(void) {
    /* As if the program were newer than the library. */
    struct {
        ddprun_world known;
        int64_t newer;
    } place = {{.size = sizeof place}, 7};
    ddprun_world world = {.size = sizeof world};
    ddprun_world small = {.size = sizeof small - 1};
    ddprun_store* store = NULL;
    ddprun_group* group = NULL;
    ddprun_group* alone = NULL;

    WORKS(ddprun_record_fatal_errors());
    EXPECT(ddprun_init("nowhere://", &world) == DDPRUN_USAGE);
    EXPECT(ddprun_init(NULL, NULL) == DDPRUN_USAGE);
    EXPECT(ddprun_init(NULL, &small) == DDPRUN_USAGE);
    EXPECT(strstr(ddprun_last_error(), "world->size is ") != NULL);
    WORKS(ddprun_init(NULL, &place.known));
    EXPECT(place.known.size == sizeof place && place.newer == 7);
    EXPECT(ddprun_store_connect(&place.known, 60000, &store) == DDPRUN_USAGE);
    place.newer = 0;
    WORKS(ddprun_store_connect(&place.known, 60000, &store));
    ddprun_store_free(store);
    WORKS(ddprun_init(NULL, &world));
    WORKS(ddprun_store_connect(&world, 60000, &store));
    use_store(store, &world);

    const ddprun_group_options options = {.size = sizeof options, .timeout_ms = 60000};
    WORKS(ddprun_group_create(&world, store, &options, &group));
    EXPECT(ddprun_group_rank(group) == world.rank && ddprun_group_size(group) == world.world_size);
    EXPECT(ddprun_group_backend(group) == (world.world_size > 1 ? DDPRUN_CPU : DDPRUN_LOOPBACK));
    use_collectives(group);
    misuse(group, &world);
    WORKS(ddprun_group_create_sub(group, &world.rank, 1, &alone));
    EXPECT(ddprun_group_size(alone) == 1);
    use_collectives(alone);
    ddprun_group_free(alone);
    use_splits(group, &world);
    if (world.world_size > 1) {
        give_up(group, &world);
        disagree(group);
        come_late(group, store, &world);
    }

    EXPECT(ddprun_should_stop(NULL) == 0);
    ddprun_report_progress(1);
    printf("rank %d of %d, ddprun %s: all well\n", world.rank, world.world_size, ddprun_version());
    WORKS(ddprun_barrier(group, NULL));
    ddprun_group_free(group);
    ddprun_store_free(store);
    return 0;
}
