/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DDPRUN_DDPRUN_H
#define DDPRUN_DDPRUN_H

#include <stddef.h>
#include <stdint.h>

/* The worker SDK for C, and for every language that can call C. The C++ headers beside this one
 * say the same with exceptions and types, over these functions.
 *
 *   ddprun_world world;
 *   ddprun_group *group;
 *   int failed = ddprun_init(NULL, &world);
 *   if (!failed) failed = ddprun_group_create(&world, NULL, DDPRUN_AUTOMATIC, 0, &group);
 *   if (failed) return complain(ddprun_last_error());
 *   ddprun_all_reduce(group, gradients, count, DDPRUN_FLOAT32, DDPRUN_AVERAGE, NULL);
 *
 * Codes. Functions that can fail return a ddprun_status: 0, or what went wrong; the words are in
 * ddprun_last_error(). Results are written only when 0 is returned. No function ends the program,
 * no exception leaves one.
 *
 * Threads. Any thread may call anything, with two exceptions: a handle is freed once, when no other
 * thread uses it; and the collectives of one group are called in the same order on every rank, in
 * practice by one thread. ddprun_last_error() is the calling thread's own.
 *
 * Text is UTF-8 and ends with a zero; a NULL where a text or handle is needed is DDPRUN_USAGE.
 */
#ifdef __cplusplus
extern "C" {
#endif

typedef enum ddprun_status {
    DDPRUN_OK = 0,
    DDPRUN_PEER_LOST = 1, /* a peer or the store is gone: end, the launcher decides what is next */
    DDPRUN_TIMEOUT = 2,   /* nobody is known to be gone, but it took too long: the same */
    DDPRUN_MISMATCH = 3,  /* ranks made different calls; the text has both sides */
    DDPRUN_USAGE = 4,     /* a call, or a variable, that makes no sense; nothing was done */
    DDPRUN_ERROR = 5,     /* anything else: the text says what */
    DDPRUN_NO_MEMORY = 6
} ddprun_status;

/* What this thread's last failing call said: one or two lines. Valid until its next one. */
const char* ddprun_last_error(void);

/* What else is known of it; each is about this thread's last failing call, too.
 *
 * Which ranks of the group are gone (DDPRUN_PEER_LOST) or late (DDPRUN_TIMEOUT): writes up to
 * `room` of them and returns how many there are, 1024 at most; 0 when that cannot be told. */
size_t ddprun_last_error_ranks(int* ranks, size_t room);
/* DDPRUN_PEER_LOST: the round of the group; -1 when it is the store that is gone. */
int ddprun_last_error_round(void);
/* DDPRUN_TIMEOUT: what was waited in, "call 7: all_reduce (sum) of 1000 float32"; "" for the store.
 */
const char* ddprun_last_error_operation(void);
/* DDPRUN_MISMATCH of a collective: "rank 0 is at call 7: barrier", and what another rank is at. */
const char* ddprun_last_error_one_side(void);
const char* ddprun_last_error_other_side(void);

/* "0.1.0" */
const char* ddprun_version(void);

/* ---- Who am I ---------------------------------------------------------------------------- */

/* A plain value: copy it, fill one by hand. See ddprun/world.hpp for each field. */
typedef struct ddprun_world {
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
    int group_rank;
    int restart_count;
    int round;
    int rank_0_hosts_store; /* 1: no launcher serves the store, so rank 0 does */
    int master_port;        /* 0: nobody launched this world, or store_file says it */
    char master_addr[256];
    char incarnation[256];
    char node_addr[256];
    char store_file[4096];
} ddprun_world;

/* `init_method`: NULL or "env://" (the launcher's variables; none of them: a world of one),
 * "tcp://HOST:PORT?rank=R&world_size=W", "file:///SHARED/PATH?rank=R&world_size=W". Without rank
 * and world_size the environment has them: the launcher's, mpirun's or srun's. */
int ddprun_init(const char* init_method, ddprun_world* world);

/* ---- Store ------------------------------------------------------------------------------- */

/* The round's key-value store: ours or PyTorch's TCPStore. Values are bytes. A get that waits holds
 * up other calls on the same handle. Keys that begin with "ddprun/" are the SDK's own. */
typedef struct ddprun_store ddprun_store;

/* Tries for `timeout_ms`. In a world that nobody launched: a store inside this process. */
int ddprun_store_connect(const ddprun_world* world, int64_t timeout_ms, ddprun_store** store);
/* Another connection to the same store, for a thread of its own. */
int ddprun_store_reconnect(const ddprun_store* store, int64_t timeout_ms, ddprun_store** other);
/* Another handle to the same connection. */
int ddprun_store_share(const ddprun_store* store, ddprun_store** other);
void ddprun_store_free(ddprun_store* store);

int ddprun_store_set(ddprun_store* store, const char* key, const void* value, size_t bytes);
/* Waits for the key. The value is for ddprun_free, and has a zero behind it. */
int ddprun_store_get(
    ddprun_store* store, const char* key, int64_t timeout_ms, char** value, size_t* bytes);
/* Adds to a counter that starts at 0. `sum` may be NULL. */
int ddprun_store_add(ddprun_store* store, const char* key, int64_t amount, int64_t* sum);
/* Sets `desired` if the value is `expected` (no bytes: if there is none). `value` is what the key
 * then has; it is for ddprun_free. */
int ddprun_store_compare_set(
    ddprun_store* store,
    const char* key,
    const void* expected,
    size_t expected_bytes,
    const void* desired,
    size_t desired_bytes,
    char** value,
    size_t* bytes);
/* Waits until all keys exist. */
int ddprun_store_wait(
    ddprun_store* store, const char* const* keys, size_t count, int64_t timeout_ms);
/* `exist` becomes 1 when all keys exist, else 0. Never waits. */
int ddprun_store_check(ddprun_store* store, const char* const* keys, size_t count, int* exist);
/* `existed` may be NULL. */
int ddprun_store_delete_key(ddprun_store* store, const char* key, int* existed);
/* The address of this end of the connection, "" inside one process. Valid as long as the handle. */
const char* ddprun_store_local_address(const ddprun_store* store);

/* Frees what the functions above handed out. NULL is fine. */
void ddprun_free(void* value);

/* ---- Groups and collectives ---------------------------------------------------------------- */

/* All ranks of a world, or some of them. ddprun/process_group.hpp says more about each call. */
typedef struct ddprun_group ddprun_group;

enum {
    DDPRUN_AUTOMATIC = 0,
    DDPRUN_CPU = 1,
    DDPRUN_LOOPBACK = 2, /* a world of one */
    DDPRUN_GLOO = 3,     /* TCP for everything: to compare with */
    DDPRUN_NCCL = 4      /* between GPUs; buffers are in the memory of this rank's GPU */
};
typedef int ddprun_backend;

enum {
    DDPRUN_FLOAT32 = 0,
    DDPRUN_FLOAT64 = 1,
    DDPRUN_FLOAT16 = 2,
    DDPRUN_BFLOAT16 = 3,
    DDPRUN_INT32 = 4,
    DDPRUN_INT64 = 5,
    DDPRUN_UINT8 = 6
};
typedef int ddprun_type;

enum { DDPRUN_SUM = 0, DDPRUN_AVERAGE = 1, DDPRUN_MIN = 2, DDPRUN_MAX = 3, DDPRUN_PRODUCT = 4 };
typedef int ddprun_op;

/* Every rank of the world calls it. `store`: of the same round, or NULL for a connection of its
 * own. `timeout_ms`: for finding the peers, and for each collective; 0 is ten minutes. */
int ddprun_group_create(
    const ddprun_world* world,
    const ddprun_store* store,
    ddprun_backend backend,
    int64_t timeout_ms,
    ddprun_group** group);
/* A group of some ranks of another, called by these and no other. */
int ddprun_group_create_sub(
    const ddprun_group* group, const int* ranks, size_t count, ddprun_group** sub_group);
/* Parts a group by color, as MPI_Comm_split: every rank of it calls this, when all that it launched
 * has been waited for, and those with the same color of 0 or more are a group, in the order of
 * `key`, then of their ranks. With a negative color `part` becomes NULL. On DDPRUN_NCCL a peer that
 * is lost or late in it ends the group too. */
int ddprun_group_split(const ddprun_group* group, int color, int key, ddprun_group** part);
void ddprun_group_free(ddprun_group* group);

int ddprun_group_rank(const ddprun_group* group);
int ddprun_group_size(const ddprun_group* group);
/* The backend in use, never DDPRUN_AUTOMATIC. These three are -1 for NULL. */
ddprun_backend ddprun_group_backend(const ddprun_group* group);
/* Ends the group at once on this rank; what is in flight fails here and on the peers. */
void ddprun_group_abort(ddprun_group* group);

/* The GPU that buffers are on, as cudaSetDevice counts; -1 where they are in the machine's memory.
 */
int ddprun_group_device(const ddprun_group* group);
/* On DDPRUN_NCCL: what is launched from now on begins when everything is done that is in this
 * cudaStream_t by then. NULL, as at first: it begins at once, so buffers must be ready. */
int ddprun_group_use_stream(ddprun_group* group, void* stream);

/* Zeroed memory of the kind that the backend likes best, whole pages; it may outlive the group.
 * NULL: none left, or `bytes` is 0. */
void* ddprun_allocate(const ddprun_group* group, size_t bytes);
/* NULL is fine; memory of any other kind is not. */
void ddprun_deallocate(void* memory);

/* A collective that was launched. With NULL for `work` the call waits for the end itself. Otherwise
 * the buffers belong to the group until ddprun_work_wait has returned, and every work is waited for
 * once: that also frees it, whatever it returns. */
typedef struct ddprun_work ddprun_work;

/* At most `timeout_ms`, or as long as the group's timeout allows when that is 0. When it passes,
 * the group is aborted, since a collective cannot be called back alone; the peers see
 * DDPRUN_PEER_LOST, or the same DDPRUN_TIMEOUT, which names them.
 */
int ddprun_work_wait(ddprun_work* work, int64_t timeout_ms);
/* 1 when ddprun_work_wait would not wait. */
int ddprun_work_is_done(const ddprun_work* work);

/* `count` is in elements: what one rank gives to one other. */
int ddprun_all_reduce(
    ddprun_group* group,
    void* data,
    size_t count,
    ddprun_type type,
    ddprun_op op,
    ddprun_work** work);
int ddprun_reduce(
    ddprun_group* group,
    void* data,
    size_t count,
    ddprun_type type,
    int root,
    ddprun_op op,
    ddprun_work** work);
int ddprun_broadcast(
    ddprun_group* group, void* data, size_t count, ddprun_type type, int root, ddprun_work** work);
int ddprun_all_gather(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_work** work);
int ddprun_reduce_scatter(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_op op,
    ddprun_work** work);
int ddprun_gather(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    int root,
    ddprun_work** work);
int ddprun_scatter(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    int root,
    ddprun_work** work);
int ddprun_all_to_all(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_work** work);
int ddprun_send(
    ddprun_group* group,
    const void* data,
    size_t count,
    ddprun_type type,
    int peer,
    ddprun_work** work);
int ddprun_recv(
    ddprun_group* group, void* data, size_t count, ddprun_type type, int peer, ddprun_work** work);
int ddprun_barrier(ddprun_group* group, ddprun_work** work);

/* ---- Stop and progress -------------------------------------------------------------------- */

/* 1 when a stop was announced (see ddprun/stop.hpp), else 0. `left_ms`, unless NULL: how long until
 * the launcher kills this process, 0 when that is due, -1 when nobody said. */
int ddprun_should_stop(int64_t* left_ms);

/* Says how far this worker is, for whoever asks from outside (see ddprun/progress.hpp). Costs some
 * tens of nanoseconds. */
void ddprun_report_progress(uint64_t step);

/* ---- Errors for the launcher's report ------------------------------------------------------ */

/* From now on a fatal signal and std::terminate leave the reason in the launcher's error file
 * before their usual action. See ddprun/record.hpp. */
int ddprun_record_fatal_errors(void);
/* Writes the error file: "TYPE: text". For a program that is about to end with an error. TYPE may
 * be a name as C++ compilers mangle it. */
int ddprun_record_error(const char* type, const char* text);
/* The same words on standard error. */
void ddprun_print_error(const char* type, const char* text);

#ifdef __cplusplus
}
#endif

#endif
