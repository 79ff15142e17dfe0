/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DDPRUN_DDPRUN_H
#define DDPRUN_DDPRUN_H

#include <stddef.h>
#include <stdint.h>

/* The worker SDK for C, and for every language that can call C. The C++ headers beside this one are
 * wrappers of these functions, with exceptions and types.
 *
 *   ddprun_world world = {.size = sizeof world};
 *   ddprun_group *group;
 *   int failed = ddprun_init(NULL, &world);
 *   if (!failed) failed = ddprun_group_create(&world, NULL, NULL, &group);
 *   if (failed) return complain(ddprun_last_error());
 *   ddprun_all_reduce(group, gradients, count, DDPRUN_FLOAT32, DDPRUN_AVERAGE, NULL);
 *
 * Codes. Functions that can fail return a ddprun_status: 0, or the kind of the error; its text is
 * ddprun_last_error(). Results are written only when 0 is returned. No function ends the program,
 * and none lets an exception out.
 *
 * Threads. Any thread may call anything, with two exceptions: a handle is freed once, when no other
 * thread uses it; and the collectives of one group are called in the same order on every rank, in
 * practice by one thread. ddprun_last_error() is the calling thread's own.
 *
 * Text is UTF-8 and ends with a zero; NULL where a text or a handle is required is DDPRUN_USAGE.
 *
 * Structures begin with their size in bytes, which the caller sets before each use: a library that
 * is newer or older than the program then reads and writes only the fields that both have. Fields
 * are only ever added, at the end, and 0 in them means what was before. A structure that is smaller
 * than the first release's, or has a value where the library has no field, is DDPRUN_USAGE. */
#ifdef __cplusplus
extern "C" {
#endif

typedef enum ddprun_status {
    DDPRUN_OK = 0,
    DDPRUN_PEER_LOST = 1, /* a peer or the store is gone: end the process, the launcher decides */
    DDPRUN_TIMEOUT = 2,   /* no rank is known to be gone, but it took too long: the same */
    DDPRUN_MISMATCH = 3,  /* ranks made different calls; the text has both sides */
    DDPRUN_USAGE = 4,     /* an invalid call or variable; nothing was done */
    DDPRUN_ERROR = 5,     /* any other error: see the text */
    DDPRUN_NO_MEMORY = 6
} ddprun_status;

/* The text of this thread's last error: one or two lines. Valid until its next error. */
const char* ddprun_last_error(void);

/* More about the last error of this thread.
 *
 * Which ranks of the group are gone (DDPRUN_PEER_LOST) or late (DDPRUN_TIMEOUT). Writes up to
 * `room` ranks and returns how many there are, 1024 at most; 0 when they are not known. */
size_t ddprun_last_error_ranks(int* ranks, size_t room);
/* DDPRUN_PEER_LOST: the round of the group; -1 when it is the store that is gone. */
int ddprun_last_error_round(void);
/* DDPRUN_TIMEOUT: the operation that timed out, "call 7: all_reduce (sum) of 1000 float32"; "" for
 * the store. */
const char* ddprun_last_error_operation(void);
/* DDPRUN_MISMATCH of a collective: "rank 0 is at call 7: barrier", and the same for the other rank.
 */
const char* ddprun_last_error_one_side(void);
const char* ddprun_last_error_other_side(void);

/* "0.1.0" */
const char* ddprun_version(void);

/* ---- World ------------------------------------------------------------------------------- */

/* A plain value: copy it, fill one by hand. See ddprun/world.hpp for each field. */
typedef struct ddprun_world {
    size_t size; /* sizeof(ddprun_world) */
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
    int group_rank;
    int restart_count;
    int round;
    int rank_0_hosts_store; /* 1: no launcher serves the store, so rank 0 does */
    int master_port;        /* 0: no launcher, or store_file is used instead */
    char master_addr[256];
    char incarnation[256];
    char node_addr[256];
    char store_file[4096];
    int reserved; /* 0 */
} ddprun_world;

/* `init_method`: NULL or "env://" (reads the launcher's variables; if none is set, the world has
 * one rank), "tcp://HOST:PORT?rank=R&world_size=W", "file:///SHARED/PATH?rank=R&world_size=W".
 * Without rank and world_size they are read from the environment: the launcher's, mpirun's or
 * srun's variables. */
int ddprun_init(const char* init_method, ddprun_world* world);

/* ---- Store ------------------------------------------------------------------------------- */

/* The round's key-value store: ours or PyTorch's TCPStore. Values are bytes. A get that waits
 * delays other calls on the same handle. Keys that begin with "ddprun/" are reserved for the SDK.
 */
typedef struct ddprun_store ddprun_store;

/* Tries to connect for `timeout_ms`. Without a launcher the store is inside this process. */
int ddprun_store_connect(const ddprun_world* world, int64_t timeout_ms, ddprun_store** store);
/* Opens another connection to the same store, for use by another thread. */
int ddprun_store_reconnect(const ddprun_store* store, int64_t timeout_ms, ddprun_store** other);
/* Another handle to the same connection. */
int ddprun_store_share(const ddprun_store* store, ddprun_store** other);
void ddprun_store_free(ddprun_store* store);

int ddprun_store_set(ddprun_store* store, const char* key, const void* value, size_t bytes);
/* Waits for the key. The caller frees the value with ddprun_free; a zero byte follows it. */
int ddprun_store_get(
    ddprun_store* store, const char* key, int64_t timeout_ms, char** value, size_t* bytes);
/* Adds to a counter that starts at 0. `sum` may be NULL. */
int ddprun_store_add(ddprun_store* store, const char* key, int64_t amount, int64_t* sum);
/* Sets `desired` if the value is `expected` (no bytes: if there is none). `value` is the key's
 * value after the call; the caller frees it with ddprun_free. */
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

/* Frees a value that a function above returned. NULL is allowed. */
void ddprun_free(void* value);

/* ---- Groups and collectives ---------------------------------------------------------------- */

/* All ranks of a world, or some of them. ddprun/process_group.hpp describes each call. */
typedef struct ddprun_group ddprun_group;

enum {
    DDPRUN_AUTOMATIC = 0,
    DDPRUN_CPU = 1,
    DDPRUN_LOOPBACK = 2, /* a world of one */
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
    DDPRUN_UINT8 = 6,
    DDPRUN_INT8 = 7,
    DDPRUN_UINT32 = 8,
    DDPRUN_UINT64 = 9,
    DDPRUN_BOOL = 10,        /* a byte, 0 or 1; no average */
    DDPRUN_FLOAT8_E4M3 = 11, /* see ddprun/float8.hpp */
    DDPRUN_FLOAT8_E5M2 = 12
};
typedef int ddprun_type;

enum { DDPRUN_SUM = 0, DDPRUN_AVERAGE = 1, DDPRUN_MIN = 2, DDPRUN_MAX = 3, DDPRUN_PRODUCT = 4 };
typedef int ddprun_op;

typedef struct ddprun_group_options {
    size_t size; /* sizeof(ddprun_group_options) */
    ddprun_backend backend;
    int reserved; /* 0 */
    /* Limits the time to connect to the peers, and each collective; 0 means ten minutes. */
    int64_t timeout_ms;
} ddprun_group_options;

/* Every rank of the world calls it. `store` is a store of the same round, or NULL; then the group
 * opens its own connection. With NULL for `options` all of them are 0. */
int ddprun_group_create(
    const ddprun_world* world,
    const ddprun_store* store,
    const ddprun_group_options* options,
    ddprun_group** group);
/* A group of some ranks of another group. Called by exactly these ranks. */
int ddprun_group_create_sub(
    const ddprun_group* group, const int* ranks, size_t count, ddprun_group** sub_group);
/* Splits a group by color, as MPI_Comm_split does. Every rank of the group calls this, after it has
 * waited for all its works. The ranks with the same color, 0 or more, form a group, ordered by
 * `key`, then by rank. With a negative color `part` becomes NULL. On DDPRUN_NCCL a peer that is
 * lost or late in this call ends the group too. */
int ddprun_group_split(const ddprun_group* group, int color, int key, ddprun_group** part);
void ddprun_group_free(ddprun_group* group);

int ddprun_group_rank(const ddprun_group* group);
int ddprun_group_size(const ddprun_group* group);
/* The backend in use, never DDPRUN_AUTOMATIC. For a NULL group this function and the two above
 * return -1. */
ddprun_backend ddprun_group_backend(const ddprun_group* group);
/* Ends the group at once on this rank; calls in flight fail here and on the peers. */
void ddprun_group_abort(ddprun_group* group);

/* The GPU that holds the buffers, by its CUDA device number; -1 when they are in host memory. */
int ddprun_group_device(const ddprun_group* group);
/* On DDPRUN_NCCL: each later call begins after the work that is in this cudaStream_t at the time of
 * the call. With NULL, the default, a call begins at once, so its buffers must be ready. */
int ddprun_group_use_stream(ddprun_group* group, void* stream);

/* Zeroed memory of the backend's fastest kind, whole pages; it may outlive the group. NULL: out of
 * memory, or `bytes` is 0. */
void* ddprun_allocate(const ddprun_group* group, size_t bytes);
/* NULL is allowed; memory from anywhere else is not. */
void ddprun_deallocate(void* memory);

/* A collective that was launched. With NULL for `work` the call itself waits for the end. Otherwise
 * the buffers belong to the group until ddprun_work_wait has returned, and every work is waited for
 * exactly once, here or in a stream: the wait also frees it, whatever it returns. */
typedef struct ddprun_work ddprun_work;

/* Waits at most `timeout_ms`; 0: as long as the group's timeout allows. When it passes, the group
 * is aborted, since one collective cannot be cancelled alone; the peers get DDPRUN_PEER_LOST, or
 * the same DDPRUN_TIMEOUT, which names them. */
int ddprun_work_wait(ddprun_work* work, int64_t timeout_ms);
/* On DDPRUN_NCCL, instead of ddprun_work_wait: work that is put into `stream` from now on, a
 * cudaStream_t on the group's device or NULL for CUDA's default stream, begins after the
 * collective, and may use its buffers. The host waits only until NCCL has enqueued the call, which
 * for the first one of a kind connects the ranks, and while more than 16 calls have not ended. A
 * group that is freed waits for the calls that have not. An error of the collective is returned by
 * a later call on the group; what is in the buffers is then undefined, so wait for a later call
 * before results are saved. For messages, and on other backends, this is ddprun_work_wait(work, 0).
 *
 * DDPRUN_USAGE: `stream` is being captured into a graph; the host has waited instead. */
int ddprun_work_wait_in(ddprun_work* work, void* stream);
/* 1 when ddprun_work_wait would not wait. */
int ddprun_work_is_done(const ddprun_work* work);

/* `count` is in elements: what one rank sends to one other rank. */
int ddprun_all_reduce(
    ddprun_group* group,
    void* data,
    size_t count,
    ddprun_type type,
    ddprun_op op,
    ddprun_work** work);
/* Not in place: `input` is not changed. On the cpu it is copied first. `input` may be equal to
 * `output`; otherwise they must not overlap. */
int ddprun_all_reduce_to(
    ddprun_group* group,
    const void* input,
    void* output,
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
/* Parts of different sizes. `counts` has the elements of each rank's part, the same list on every
 * rank; it is copied. `output` holds all parts, one behind the other in the order of ranks. */
int ddprun_all_gather_v(
    ddprun_group* group,
    const void* input,
    void* output,
    const size_t* counts,
    ddprun_type type,
    ddprun_work** work);
/* `input_counts[r]` elements go to rank r, `output_counts[r]` come from it; parts are contiguous,
 * in the order of ranks. The lists are copied. */
int ddprun_all_to_all_v(
    ddprun_group* group,
    const void* input,
    const size_t* input_counts,
    void* output,
    const size_t* output_counts,
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

/* Returns 1 when a stop was announced (see ddprun/stop.hpp), else 0. Unless NULL, `left_ms` gets
 * the time until the launcher kills this process; 0 when it has passed, -1 when it is not known. */
int ddprun_should_stop(int64_t* left_ms);

/* Publishes this worker's step to its agent, and to other processes that read it (see
 * ddprun/progress.hpp). Costs some tens of nanoseconds; the first call, or ddprun_set_phase,
 * connects to the agent. */
void ddprun_report_progress(uint64_t step);

/* What a worker is doing. */
typedef enum ddprun_phase {
    DDPRUN_PHASE_NONE = 0,
    DDPRUN_PHASE_START = 1,
    DDPRUN_PHASE_TRAIN = 2,
    DDPRUN_PHASE_EVAL = 3,
    DDPRUN_PHASE_SAVE = 4,
    DDPRUN_PHASE_COMPILE = 5,
    DDPRUN_PHASE_DATA = 6
} ddprun_phase;

/* Publishes the phase of this process (not of the thread) to the agent, for /status and the report
 * of a failed job. Returns the previous phase, so that the caller can restore it. Any thread. */
ddprun_phase ddprun_set_phase(ddprun_phase phase);

/* Returns 1 when every rank must save this step, because a node is about to be taken away: once,
 * and in the same step on each rank (see ddprun/stop.hpp). Otherwise returns 0. */
int ddprun_should_save(uint64_t step);
/* The save for which ddprun_should_save(step) was 1 is complete. Any other step has no effect. */
void ddprun_saved(uint64_t step);

/* ---- Recovery in the same process ---------------------------------------------------------- */

/* This process goes on in the next round, with its state, when another worker has failed. See
 * ddprun/recovery.hpp. */
typedef struct ddprun_recovery ddprun_recovery;

int ddprun_recovery_create(ddprun_recovery** recovery);
void ddprun_recovery_free(ddprun_recovery* recovery);
/* 1: this process's agent can hold it; 0: it cannot, or `recovery` is NULL. */
int ddprun_recovery_is_possible(const ddprun_recovery* recovery);
/* Aborts the group when its round is over on other ranks. The group may be freed before. */
int ddprun_recovery_end_with_round(ddprun_recovery* recovery, ddprun_group* group);
/* Waits up to `timeout_ms` for the end of the round, then without a limit for the next one, and
 * changes the environment. `committed`: the last step that the state contains completely, -1: none;
 * `is_clean`: 1 when it has not changed since. */
int ddprun_recovery_next_round(
    ddprun_recovery* recovery,
    int64_t committed,
    int is_clean,
    int64_t timeout_ms,
    ddprun_world* world);
/* `exists` becomes 1 when all ranks of the round begin with the state of one of them, else 0;
 * `rank` and `step`, which may be NULL, then name that rank and the last step in its state.
 * DDPRUN_ERROR in a new process of that rank: the state is lost, end the program. */
int ddprun_state_source(int* exists, int* rank, uint64_t* step);

/* ---- Errors for the launcher's report ------------------------------------------------------ */

/* From now on a fatal signal or std::terminate writes the reason into the launcher's error file
 * before its usual action. See ddprun/record.hpp. */
int ddprun_record_fatal_errors(void);
/* Writes the error file: "TYPE: text". For a program that is about to end with an error. TYPE may
 * be a mangled C++ name. */
int ddprun_record_error(const char* type, const char* text);
/* Writes the same text to standard error. */
void ddprun_print_error(const char* type, const char* text);

#ifdef __cplusplus
}
#endif

#endif
