// The collectives for C, and for what calls C: the whole of ddprun's collectives library in one header, C99.
//
//   ddprun_communicator* comm = NULL;
//   if (ddprun_from_env(NULL, &comm) != DDPRUN_OK) { fputs(ddprun_last_error(), stderr); return 1; }
//   ddprun_all_reduce(comm, gradients, gradients, count, DDPRUN_F32, DDPRUN_AVG, 0);
//   ddprun_destroy(comm);
//
// What the calls do, their buffers, in-place use, threads, failures and forked children: as the functions of
// the same names in collectives/communicator.hpp. Results are bitwise equal on all ranks; from run to run
// they are with the same number of ranks in the same placement (hosts and transport). Counts are elements,
// not bytes. Every function but the noted ones returns a DDPRUN_… code, 0 for success; no C++ exception
// leaves the library. The archive is linked with the C++ linker, or with -lstdc++ -lm; the shared library
// with any.
//
// Compatibility: values are never renumbered, functions never change their parameters, and ddprun_options and
// ddprun_request grow at their end only (see `size`). The operations by name are inline: they are the
// program's own, and what calls the library by its symbols, as other languages do, calls ddprun_run.
#pragma once

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ddprun_communicator ddprun_communicator;
typedef struct ddprun_work ddprun_work;
typedef struct ddprun_buffer ddprun_buffer;

// Codes. All but DDPRUN_INVALID_ARGUMENT end the communicator; see CollectiveErrorCode in error.hpp.
enum {
    DDPRUN_OK = 0,
    DDPRUN_INVALID_ARGUMENT = 1,  // this call is wrong; nothing was sent
    DDPRUN_TIMED_OUT = 2,
    DDPRUN_PEER_DIED = 3,
    DDPRUN_PEER_LEFT = 4,
    DDPRUN_ABORTED = 5,
    DDPRUN_MISMATCH = 6,  // the ranks called different things
    DDPRUN_SYSTEM = 7     // also: out of memory
};

// Element types. f16 and bf16 are the usual 16 bits, in uint16_t.
enum {
    DDPRUN_F32 = 0,
    DDPRUN_F64 = 1,
    DDPRUN_I32 = 2,
    DDPRUN_I64 = 3,
    DDPRUN_I8 = 4,
    DDPRUN_U8 = 5,
    DDPRUN_U32 = 6,
    DDPRUN_U64 = 7,
    DDPRUN_F16 = 8,
    DDPRUN_BF16 = 9
};

// Reductions.
enum {
    DDPRUN_SUM = 0,
    DDPRUN_PROD = 1,
    DDPRUN_MIN = 2,
    DDPRUN_MAX = 3,
    DDPRUN_AVG = 4,
    DDPRUN_PREMUL_SUM = 5,  // the only one that reads `scalar`: each rank's values times its scalar, summed
    DDPRUN_BAND = 6,
    DDPRUN_BOR = 7,
    DDPRUN_BXOR = 8
};

// This is what an all_reduce of f32 travels as between hosts; see Compression in types.hpp.
enum { DDPRUN_AS_IT_IS = 0, DDPRUN_AS_F16 = 1, DDPRUN_AS_BF16 = 2 };

// Operations, for ddprun_request.
enum {
    DDPRUN_ALL_REDUCE = 1,
    DDPRUN_BROADCAST = 2,
    DDPRUN_ALL_GATHER = 3,
    DDPRUN_REDUCE_SCATTER = 4,
    DDPRUN_BARRIER = 5,
    DDPRUN_SEND = 6,
    DDPRUN_RECV = 7,
    DDPRUN_REDUCE = 9,
    DDPRUN_GATHER = 10,
    DDPRUN_SCATTER = 11,
    DDPRUN_ALL_TO_ALL = 12
};

// Where one rank's part of a buffer lies, in elements; an input's is only read. Never grows.
typedef struct ddprun_part {
    void* data;
    size_t count;
} ddprun_part;

// An operation with its arguments, those of the function of its name; what it does not have is ignored.
typedef struct ddprun_request {
    size_t size;  // sizeof(ddprun_request), so that a newer library knows which members the caller has
    int operation;
    int type;
    int op;
    int peer;  // root, or the other rank of send and recv
    const void* in;
    void* out;  // of broadcast the data
    size_t count;
    double scalar;
    void* stream;        // a cudaStream_t, with NCCL only; see Communicator::async()
    int compression;     // of all_reduce
    int64_t timeout_ms;  // from when its turn comes; 0: the communicator's
    // A part for each rank instead of the whole `in` or `out`, where it counts: of all_gather and gather the
    // output's, of reduce_scatter and scatter the input's, of all_to_all both. The array may go when the call
    // returns. all_reduce takes as many output's parts as have `count` elements together, and reduces them in
    // place.
    const ddprun_part* in_parts;
    const ddprun_part* out_parts;
    // 1: each part has a count of its own, and `count` is that of the buffer without; see OperationRequest.
    // Of all ranks, or of none.
    int counted;
    int reserved;  // 0
} ddprun_request;

#define DDPRUN_REQUEST_INIT \
    { sizeof(ddprun_request), 0, 0, 0, -1, NULL, NULL, 0, 0, NULL, DDPRUN_AS_IT_IS, 0, NULL, NULL, 0, 0 }

// A send or a receive of a group; see Group in group.hpp. Never grows.
typedef struct ddprun_transfer {
    int direction;  // DDPRUN_SEND or DDPRUN_RECV
    int type;
    int peer;
    void* data;  // a send only reads it
    size_t count;
} ddprun_transfer;

// These carry out the operations; buffers are in host memory, or in the device's with NCCL.
enum {
    DDPRUN_BACKEND_AUTOMATIC = 0,  // as the environment variable DDPRUN_BACKEND says
    DDPRUN_BACKEND_CPU = 1,
    DDPRUN_BACKEND_NCCL = 2
};

// Limits in milliseconds; 0 takes the default (5 minutes, 5 minutes, 10 seconds, no notices). See
// CommunicatorOptions.
typedef struct ddprun_options {
    size_t size;  // sizeof(ddprun_options), so that a newer library knows which members the caller has
    int64_t operation_timeout_ms;
    int64_t join_timeout_ms;
    int64_t leave_timeout_ms;
    int64_t notice_after_ms;
    int backend;
    int device;        // -1: as DDPRUN_DEVICE says
    int reproducible;  // 1: NCCL's results are bitwise equal from run to run, too
    int reserved;      // 0
} ddprun_options;

#define DDPRUN_OPTIONS_INIT \
    { sizeof(ddprun_options), 0, 0, 0, 0, DDPRUN_BACKEND_AUTOMATIC, -1, 0, 0 }

// Make *comm, which the caller destroys; it becomes NULL on failure. `options` may be NULL: all defaults.
int ddprun_from_env(const ddprun_options* options, ddprun_communicator** comm);
int ddprun_connect(const char* url, int rank, int world_size, const ddprun_options* options,
                   ddprun_communicator** comm);
// Functions of a store that the caller owns; see KeyValueStore in key_value_store.hpp. Each returns 0, or a
// DDPRUN_… code, the text by `error`. Never grows.
typedef struct ddprun_store {
    size_t size;    // sizeof(ddprun_store)
    void* context;  // each function gets it
    int (*set)(void* context, const char* key, const void* value, size_t bytes);
    // Waits for the key, timeout_ms (1 at least) at most, else DDPRUN_TIMED_OUT; calls take(sink, value,
    // bytes) once.
    int (*get)(void* context, const char* key, int64_t timeout_ms,
               void (*take)(void* sink, const void* value, size_t bytes), void* sink);
    int (*add)(void* context, const char* key, int64_t amount, int64_t* sum);
    int (*remove)(void* context, const char* key);  // may be NULL
    const char* (*error)(void* context);            // may be NULL: the text of this thread's latest failure
    // May be NULL: called once, when the communicator and all that come from it are gone, or ddprun_join has
    // failed.
    void (*release)(void* context);
} ddprun_store;
// Meets over this store, which is copied, and over nothing else; see Communicator::join().
int ddprun_join(const ddprun_store* store, int rank, int world_size, const ddprun_options* options,
                ddprun_communicator** comm);
// *part becomes NULL for a negative colour, too, which is a success.
int ddprun_split(ddprun_communicator* comm, int color, int key, ddprun_communicator** part);
// A communicator of `count` ranks of this one, in this order, which only they call; see
// Communicator::subgroup(). `options` may be NULL: this one's.
int ddprun_subgroup(ddprun_communicator* comm, const int* ranks, size_t count, const char* name,
                    const ddprun_options* options, ddprun_communicator** part);
// A communicator of the ranks that are not among the `count` excluded ones; see Communicator::shrink(). For
// going on after a failure, with those whom ddprun_last_error_culprits() names. *comm stays, to be destroyed.
int ddprun_shrink(ddprun_communicator* comm, const int* excluded, size_t count, ddprun_communicator** rest);
// Leaves in order and waits, timeout_ms at most, until all other ranks do; below 0 takes leave_timeout_ms.
// See Communicator::finalize(). The caller still destroys *comm; all else is refused.
int ddprun_finalize(ddprun_communicator* comm, int64_t timeout_ms);
// DDPRUN_OK as long as operations can be asked for, else the code the communicator has ended with, or
// DDPRUN_INVALID_ARGUMENT after ddprun_finalize. From any thread; never blocks.
int ddprun_status(const ddprun_communicator* comm);
// Calls ended(context, code) exactly once, on a thread of the library's, with the code the communicator has
// ended with, whose text that thread's ddprun_last_error() has; or DDPRUN_OK when it is finalized or
// destroyed before. From any thread.
int ddprun_on_end(ddprun_communicator* comm, void (*ended)(void* context, int code), void* context);
// Operations without a timeout of their own have this one from the next on; see Communicator::set_timeout().
int ddprun_set_timeout(ddprun_communicator* comm, int64_t operation_timeout_ms);
// Leaves in order; in a forked child of the process that made it, only lets go. NULL is allowed. Not while
// another thread is in a call.
void ddprun_destroy(ddprun_communicator* comm);

// These return the number itself, or -1 for NULL.
int ddprun_rank(const ddprun_communicator* comm);
int ddprun_world_size(const ddprun_communicator* comm);
int ddprun_local_rank(const ddprun_communicator* comm);
int ddprun_local_world_size(const ddprun_communicator* comm);

// Carries out an operation in this thread, without a stream.
int ddprun_run(ddprun_communicator* comm, const ddprun_request* request);

// The operations by name, as requests, and what these share: what an operation does not have is ignored.
// NOLINTBEGIN(modernize-use-nullptr): C
static inline int ddprun_run_reduction(ddprun_communicator* comm, int operation, const void* in, void* out,
                                       size_t count, int type, int op, double scalar, int root,
                                       int compression) {
    ddprun_request request = DDPRUN_REQUEST_INIT;
    request.operation = operation;
    request.type = type;
    request.op = op;
    request.peer = root;
    request.in = in;
    request.out = out;
    request.count = count;
    request.scalar = scalar;
    request.compression = compression;
    return ddprun_run(comm, &request);
}
static inline int ddprun_run_movement(ddprun_communicator* comm, int operation, const void* in, void* out,
                                      size_t count, int type, int peer) {
    return ddprun_run_reduction(comm, operation, in, out, count, type, DDPRUN_SUM, 0, peer, DDPRUN_AS_IT_IS);
}
static inline int ddprun_all_reduce(ddprun_communicator* comm, const void* in, void* out, size_t count,
                                    int type, int op, double scalar) {
    return ddprun_run_reduction(comm, DDPRUN_ALL_REDUCE, in, out, count, type, op, scalar, -1,
                                DDPRUN_AS_IT_IS);
}
// The same, but what travels between hosts has half the bytes.
static inline int ddprun_all_reduce_compressed(ddprun_communicator* comm, const void* in, void* out,
                                               size_t count, int type, int op, double scalar,
                                               int compression) {
    return ddprun_run_reduction(comm, DDPRUN_ALL_REDUCE, in, out, count, type, op, scalar, -1, compression);
}
static inline int ddprun_reduce(ddprun_communicator* comm, const void* in, void* out, size_t count, int type,
                                int op, double scalar, int root) {
    return ddprun_run_reduction(comm, DDPRUN_REDUCE, in, out, count, type, op, scalar, root, DDPRUN_AS_IT_IS);
}
static inline int ddprun_reduce_scatter(ddprun_communicator* comm, const void* in, void* out, size_t count,
                                        int type, int op, double scalar) {
    return ddprun_run_reduction(comm, DDPRUN_REDUCE_SCATTER, in, out, count, type, op, scalar, -1,
                                DDPRUN_AS_IT_IS);
}
static inline int ddprun_broadcast(ddprun_communicator* comm, void* data, size_t count, int type, int root) {
    return ddprun_run_movement(comm, DDPRUN_BROADCAST, NULL, data, count, type, root);
}
static inline int ddprun_all_gather(ddprun_communicator* comm, const void* in, void* out, size_t count,
                                    int type) {
    return ddprun_run_movement(comm, DDPRUN_ALL_GATHER, in, out, count, type, -1);
}
static inline int ddprun_gather(ddprun_communicator* comm, const void* in, void* out, size_t count, int type,
                                int root) {
    return ddprun_run_movement(comm, DDPRUN_GATHER, in, out, count, type, root);
}
static inline int ddprun_scatter(ddprun_communicator* comm, const void* in, void* out, size_t count, int type,
                                 int root) {
    return ddprun_run_movement(comm, DDPRUN_SCATTER, in, out, count, type, root);
}
static inline int ddprun_all_to_all(ddprun_communicator* comm, const void* in, void* out, size_t count,
                                    int type) {
    return ddprun_run_movement(comm, DDPRUN_ALL_TO_ALL, in, out, count, type, -1);
}
static inline int ddprun_barrier(ddprun_communicator* comm) {
    return ddprun_run_movement(comm, DDPRUN_BARRIER, NULL, NULL, 0, 0, -1);
}
static inline int ddprun_send(ddprun_communicator* comm, const void* data, size_t count, int type, int peer) {
    return ddprun_run_movement(comm, DDPRUN_SEND, data, NULL, count, type, peer);
}
static inline int ddprun_recv(ddprun_communicator* comm, void* data, size_t count, int type, int peer) {
    return ddprun_run_movement(comm, DDPRUN_RECV, NULL, data, count, type, peer);
}
// NOLINTEND(modernize-use-nullptr)

// `count` transfers that go on at the same time, in any order but of those between two ranks; 65536 at most.
int ddprun_run_group(ddprun_communicator* comm, const ddprun_transfer* transfers, size_t count);
// Memory that collectives use without copying it first; see Communicator::allocate(). Any thread. The caller
// releases *buffer, which becomes NULL on failure; it may outlive the communicator.
int ddprun_allocate(ddprun_communicator* comm, size_t bytes, ddprun_buffer** buffer);
// Aligned to a page; NULL for NULL, and for no bytes.
void* ddprun_buffer_data(const ddprun_buffer* buffer);
// NULL is allowed.
void ddprun_buffer_release(ddprun_buffer* buffer);
// 1 if `data` points into such memory and the other ranks have it mapped, else 0. Any thread.
int ddprun_owns(const ddprun_communicator* comm, const void* data);

// Messages by tag: beside the order of the operations, from and to any rank (this one, too), several threads,
// any number at a time; those of one pair of ranks and one tag arrive in the order sent. See
// Communicator::send_tagged(). A timeout_ms below 0 takes operation_timeout_ms; one that runs out
// (DDPRUN_TIMED_OUT), a size that differs from the sent one (DDPRUN_MISMATCH), and a rank that has left
// without it (DDPRUN_PEER_LEFT), end that call only. Returns when `data` may be written again.
int ddprun_send_tagged(ddprun_communicator* comm, const void* data, size_t bytes, int peer, uint64_t tag,
                       int64_t timeout_ms);
// From any rank where `peer` is -1. *source, which may be NULL, becomes the rank that sent it.
int ddprun_recv_tagged(ddprun_communicator* comm, void* data, size_t bytes, int peer, uint64_t tag,
                       int64_t timeout_ms, int* source);
// The same, started; `data` must stay until the end. The caller releases *work, which becomes NULL on
// failure.
int ddprun_start_send_tagged(ddprun_communicator* comm, const void* data, size_t bytes, int peer,
                             uint64_t tag, int64_t timeout_ms, ddprun_work** work);
int ddprun_start_recv_tagged(ddprun_communicator* comm, void* data, size_t bytes, int peer, uint64_t tag,
                             int64_t timeout_ms, ddprun_work** work);
// The rank that sent what a receive by tag has received, once it has ended well; else -1.
int ddprun_work_source(const ddprun_work* work);

// Starts an operation and returns at once; see Communicator::async(). The caller releases *work, which
// becomes NULL on failure.
int ddprun_start(ddprun_communicator* comm, const ddprun_request* request, ddprun_work** work);
// The same of a group. `stream` as in ddprun_request.
int ddprun_start_group(ddprun_communicator* comm, const ddprun_transfer* transfers, size_t count,
                       void* stream, ddprun_work** work);
// Waits for its end and returns the code it ended with; carries it out in this thread where nobody has begun
// it, so it is sooner than waiting for what ddprun_work_on_done calls. Any thread.
int ddprun_work_wait(ddprun_work* work);
// 1 when it has ended, well or not; 0 while it goes on; -1 for NULL. Any thread.
int ddprun_work_test(const ddprun_work* work);
// Calls done(context, code) exactly once: at once if it has ended, else when it does, on a thread of the
// library's that runs no operations, whose ddprun_last_error() then has the text. The work may be released
// before. Any thread.
int ddprun_work_on_done(ddprun_work* work, void (*done)(void* context, int code), void* context);
// What it has failed with: writes up to `capacity` bytes of the text, the last of them 0, and returns its
// length; 0 while it goes on, and when it has ended well. Any thread.
size_t ddprun_work_error(const ddprun_work* work, char* text, size_t capacity);
// The same of the ranks that error is about, as ddprun_last_error_culprits().
size_t ddprun_work_culprits(const ddprun_work* work, int* ranks, size_t capacity);
// Stops nothing: the buffers must stay until the end. NULL is allowed.
void ddprun_work_release(ddprun_work* work);
// Any thread may call it; `reason` may be NULL.
int ddprun_abort(ddprun_communicator* comm, const char* reason);

// About the latest call of this thread that failed; calls that succeed change neither. The text is never NULL
// and stays valid until this thread's next failure.
const char* ddprun_last_error(void);
// Writes up to `capacity` ranks the error is about, ascending, and returns how many there are; `ranks` may be
// NULL if capacity is 0.
size_t ddprun_last_error_culprits(int* ranks, size_t capacity);
// "ok", "timed_out" …; "unknown" for what is no code. Never NULL.
const char* ddprun_code_name(int code);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
