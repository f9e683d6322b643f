// A worker in plain C11 for tests of the C interface: uses every function, and prints "rank R of N: ok" at the
// end, or what went wrong, with exit code 1.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "collectives/ddprun_collectives.h"

#define REQUIRE(condition) require((condition), #condition, __LINE__)

enum { kMaxRanks = 16, kEach = 5 };

static void require(int holds, const char* condition, int line) {
    if (holds) return;
    printf("line %d: not so: %s; last error: %s\n", line, condition, ddprun_last_error());
    exit(1);
}

static void check_reductions(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    const int rank = ddprun_rank(comm);
    float in[kMaxRanks * kEach];
    float out[kMaxRanks * kEach];
    for (int i = 0; i < n * kEach; ++i) in[i] = (float)(rank + i);
    const float ranks = (float)n;
    const float sum_of_ranks = (float)(n * (n - 1) / 2);
    REQUIRE(ddprun_all_reduce(comm, in, out, kEach, DDPRUN_F32, DDPRUN_SUM, 0) == DDPRUN_OK);
    REQUIRE(out[2] == sum_of_ranks + 2 * ranks);
    REQUIRE(ddprun_all_reduce(comm, in, out, kEach, DDPRUN_F32, DDPRUN_PREMUL_SUM, 2.0) == DDPRUN_OK);
    REQUIRE(out[0] == 2 * sum_of_ranks);
    REQUIRE(ddprun_reduce(comm, in, out, kEach, DDPRUN_F32, DDPRUN_MAX, 0, n - 1) == DDPRUN_OK);
    REQUIRE(rank != n - 1 || out[4] == ranks + 3);
    REQUIRE(ddprun_reduce(comm, in, out, kEach, DDPRUN_F32, DDPRUN_PREMUL_SUM, 2.0, 0) == DDPRUN_OK);
    REQUIRE(rank != 0 || out[0] == 2 * sum_of_ranks);
    REQUIRE(ddprun_reduce_scatter(comm, in, out, kEach, DDPRUN_F32, DDPRUN_PREMUL_SUM, 2.0) == DDPRUN_OK);
    REQUIRE(out[1] == 2 * (sum_of_ranks + ranks * (float)(rank * kEach + 1)));
    REQUIRE(ddprun_all_reduce_compressed(comm, in, out, kEach, DDPRUN_F32, DDPRUN_PREMUL_SUM, 2.0, DDPRUN_AS_BF16) ==
            DDPRUN_OK);
    REQUIRE(out[2] == 2 * (sum_of_ranks + 2 * ranks));
    REQUIRE(ddprun_all_reduce_compressed(comm, in, out, kEach, DDPRUN_F32, DDPRUN_SUM, 0, 99) ==
            DDPRUN_INVALID_ARGUMENT);
    REQUIRE(strstr(ddprun_last_error(), "unknown compression 99") != NULL);
    REQUIRE(ddprun_all_reduce_compressed(comm, in, out, kEach, DDPRUN_I32, DDPRUN_SUM, 0, DDPRUN_AS_F16) ==
            DDPRUN_INVALID_ARGUMENT);
    uint8_t bits = (uint8_t)(1U << rank);
    REQUIRE(ddprun_all_reduce(comm, &bits, &bits, 1, DDPRUN_U8, DDPRUN_BOR, 0) == DDPRUN_OK);
    REQUIRE(bits == (uint8_t)((1U << n) - 1U));
    uint16_t half = 0x3c00;  // 1 as f16
    REQUIRE(ddprun_all_reduce(comm, &half, &half, 1, DDPRUN_F16, DDPRUN_AVG, 0) == DDPRUN_OK);
    REQUIRE(half == 0x3c00);
}

static void check_movements(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    const int rank = ddprun_rank(comm);
    int64_t mine = 100 + rank;
    int64_t all[kMaxRanks];
    int64_t swapped[kMaxRanks];
    REQUIRE(ddprun_all_gather(comm, &mine, all, 1, DDPRUN_I64) == DDPRUN_OK);
    for (int i = 0; i < n; ++i) REQUIRE(all[i] == 100 + i);
    memset(all, 0, sizeof(all));
    REQUIRE(ddprun_gather(comm, &mine, rank == 0 ? all : NULL, 1, DDPRUN_I64, 0) == DDPRUN_OK);
    REQUIRE(rank != 0 || all[n - 1] == 100 + n - 1);
    mine = 0;
    REQUIRE(ddprun_scatter(comm, all, &mine, 1, DDPRUN_I64, 0) == DDPRUN_OK);
    REQUIRE(mine == 100 + rank);
    for (int i = 0; i < n; ++i) all[i] = 10 * rank + i;
    REQUIRE(ddprun_all_to_all(comm, all, swapped, 1, DDPRUN_I64) == DDPRUN_OK);
    for (int i = 0; i < n; ++i) REQUIRE(swapped[i] == 10 * i + rank);
    REQUIRE(ddprun_broadcast(comm, &mine, 1, DDPRUN_I64, n - 1) == DDPRUN_OK);
    REQUIRE(mine == 100 + n - 1);
    if (n > 1 && rank == 0) REQUIRE(ddprun_send(comm, &mine, 1, DDPRUN_I64, 1) == DDPRUN_OK);
    if (n > 1 && rank == 1) REQUIRE(ddprun_recv(comm, &mine, 1, DDPRUN_I64, 0) == DDPRUN_OK);
    REQUIRE(ddprun_barrier(comm) == DDPRUN_OK);
}

// Rank r has r + t elements for rank t, in reverse in memory; and as many of each in a list of pointers.
static void check_parts(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    const int rank = ddprun_rank(comm);
    int64_t mine[kMaxRanks][2 * kMaxRanks];
    int64_t theirs[kMaxRanks][2 * kMaxRanks];
    ddprun_part in[kMaxRanks], out[kMaxRanks];
    for (int i = 0; i < n; ++i) {
        in[i] = (ddprun_part){mine[n - 1 - i], (size_t)(rank + i)};
        out[i] = (ddprun_part){theirs[n - 1 - i], (size_t)(rank + i)};
        for (int at = 0; at < rank + i; ++at) mine[n - 1 - i][at] = 100 * rank + i;
    }
    ddprun_request request = DDPRUN_REQUEST_INIT;
    request.operation = DDPRUN_ALL_TO_ALL;
    request.type = DDPRUN_I64;
    request.in_parts = in;
    request.out_parts = out;
    request.counted = 1;
    REQUIRE(ddprun_run(comm, &request) == DDPRUN_OK);
    for (int i = 0; i < n; ++i) {
        for (int at = 0; at < rank + i; ++at) REQUIRE(theirs[n - 1 - i][at] == 100 * i + rank);
    }
    out[n - 1].count += 1;
    REQUIRE(ddprun_run(comm, &request) == DDPRUN_INVALID_ARGUMENT);
    int culprits[2] = {-1, -1};
    REQUIRE(ddprun_last_error_culprits(culprits, 2) == (n == 1 ? 1u : 2u));
    REQUIRE(culprits[0] == 0 && culprits[n == 1 ? 0 : 1] == n - 1);

    request.operation = DDPRUN_ALL_GATHER;
    request.in_parts = NULL;
    request.in = mine[0];
    request.count = 2;
    request.counted = 0;
    mine[0][0] = mine[0][1] = rank;
    for (int i = 0; i < n; ++i) out[i].count = 2;
    ddprun_work* work = NULL;
    REQUIRE(ddprun_start(comm, &request, &work) == DDPRUN_OK);
    out[0].count = 77;  // nobody looks there any more
    REQUIRE(ddprun_work_wait(work) == DDPRUN_OK);
    ddprun_work_release(work);
    for (int i = 0; i < n; ++i) REQUIRE(theirs[n - 1 - i][0] == i && theirs[n - 1 - i][1] == i);
    request.counted = 2;
    REQUIRE(ddprun_run(comm, &request) == DDPRUN_INVALID_ARGUMENT);
    request.counted = 0;
    request.reserved = 1;
    REQUIRE(ddprun_run(comm, &request) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_run(comm, NULL) == DDPRUN_INVALID_ARGUMENT);

    // Several buffers as one operation.
    for (int at = 0; at < 5; ++at) mine[0][at] = rank;
    out[0] = (ddprun_part){mine[0] + 3, 2};
    out[1] = (ddprun_part){mine[0], 1};
    request = (ddprun_request)DDPRUN_REQUEST_INIT;
    request.operation = DDPRUN_ALL_REDUCE;
    request.type = DDPRUN_I64;
    request.op = DDPRUN_MAX;
    request.count = 3;
    request.out_parts = out;
    REQUIRE(ddprun_run(comm, &request) == DDPRUN_OK);
    for (int at = 0; at < 5; ++at) REQUIRE(mine[0][at] == (at == 1 || at == 2 ? rank : n - 1));
}

// Messages by tag: to itself, and between the first two ranks.
static void check_messages(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    const int rank = ddprun_rank(comm);
    int64_t mine = 7 + rank;
    int64_t theirs = 0;
    int source = -1;
    ddprun_work* work = NULL;
    REQUIRE(ddprun_send_tagged(comm, &mine, sizeof(mine), rank, 5, -1) == DDPRUN_OK);
    REQUIRE(ddprun_recv_tagged(comm, &theirs, sizeof(theirs), -1, 5, -1, &source) == DDPRUN_OK);
    REQUIRE(theirs == 7 + rank && source == rank);
    REQUIRE(ddprun_recv_tagged(comm, &theirs, sizeof(theirs), rank, 6, 1, NULL) == DDPRUN_TIMED_OUT);
    REQUIRE(strstr(ddprun_last_error(), " Timed out ") != NULL);
    REQUIRE(ddprun_send_tagged(comm, &mine, sizeof(mine), n, 5, -1) == DDPRUN_INVALID_ARGUMENT);
    if (n > 1 && rank < 2) {
        REQUIRE(ddprun_start_recv_tagged(comm, &theirs, sizeof(theirs), 1 - rank, UINT64_MAX, -1, &work) == DDPRUN_OK);
        ddprun_work* sent = NULL;
        REQUIRE(ddprun_start_send_tagged(comm, &mine, sizeof(mine), 1 - rank, UINT64_MAX, -1, &sent) == DDPRUN_OK);
        REQUIRE(ddprun_work_wait(work) == DDPRUN_OK && ddprun_work_wait(sent) == DDPRUN_OK);
        REQUIRE(theirs == 8 - rank && ddprun_work_source(work) == 1 - rank);
        ddprun_work_release(work);
        ddprun_work_release(sent);
    }
    REQUIRE(ddprun_work_source(NULL) == -1);
}

// Callers that were compiled before requests had a compression do not have the member.
static void check_started_compressed(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    const size_t sizes[] = {sizeof(ddprun_request), offsetof(ddprun_request, timeout_ms),
                            offsetof(ddprun_request, compression)};
    for (int i = 0; i < 3; ++i) {
        float sum = (float)ddprun_rank(comm);
        ddprun_request request = DDPRUN_REQUEST_INIT;
        ddprun_work* work = NULL;
        request.size = sizes[i];
        request.operation = DDPRUN_ALL_REDUCE;
        request.in = &sum;
        request.out = &sum;
        request.count = 1;
        request.compression = i < 2 ? DDPRUN_AS_BF16 : 99;
        request.timeout_ms = i == 0 ? 60 * 1000 : -1;
        REQUIRE(ddprun_start(comm, &request, &work) == DDPRUN_OK);
        REQUIRE(ddprun_work_wait(work) == DDPRUN_OK);
        REQUIRE(sum == (float)(n * (n - 1) / 2));
        ddprun_work_release(work);
        request.size = sizes[i] - 1;
        REQUIRE(ddprun_start(comm, &request, &work) == DDPRUN_INVALID_ARGUMENT);
    }
}

// Told by the library's threads.
static atomic_int told_codes[3];

static void note_code(void* context, int code) {
    atomic_int* place = context;
    REQUIRE(code != DDPRUN_ABORTED || strstr(ddprun_last_error(), "enough") != NULL);
    atomic_store(place, code + 1);
}

static void await_code(int place, int code) {
    const struct timespec pause = {0, 1000 * 1000};
    for (int waits = 0; waits < 60 * 1000 && atomic_load(&told_codes[place]) == 0; ++waits) nanosleep(&pause, NULL);
    REQUIRE(atomic_load(&told_codes[place]) == code + 1);
}

static void check_deadlines(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    const int rank = ddprun_rank(comm);
    int32_t data = 0;
    int culprits[2] = {-1, -1};
    char text[16];
    ddprun_request request = DDPRUN_REQUEST_INIT;
    ddprun_work* work = NULL;
    REQUIRE(ddprun_set_timeout(comm, 60 * 1000) == DDPRUN_OK);
    REQUIRE(ddprun_set_timeout(comm, 0) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_set_timeout(NULL, 1) == DDPRUN_INVALID_ARGUMENT);
    request.operation = DDPRUN_BARRIER;
    REQUIRE(ddprun_start(comm, &request, &work) == DDPRUN_OK);
    REQUIRE(ddprun_work_on_done(work, NULL, NULL) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_work_on_done(NULL, note_code, NULL) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_work_on_done(work, note_code, &told_codes[0]) == DDPRUN_OK);
    await_code(0, DDPRUN_OK);
    REQUIRE(ddprun_work_error(work, text, sizeof(text)) == 0 && text[0] == '\0');
    REQUIRE(ddprun_work_culprits(work, culprits, 2) == 0);
    REQUIRE(ddprun_work_error(NULL, text, 1) == 0 && ddprun_work_culprits(NULL, NULL, 0) == 0);
    ddprun_work_release(work);
    if (n == 1) return;
    if (rank == 0) {
        request.operation = DDPRUN_RECV;
        request.type = DDPRUN_I32;
        request.peer = 1;
        request.out = &data;
        request.count = 1;
        request.timeout_ms = 50;
        REQUIRE(ddprun_start(comm, &request, &work) == DDPRUN_OK);
        REQUIRE(ddprun_work_wait(work) == DDPRUN_TIMED_OUT);
        REQUIRE(strstr(ddprun_last_error(), " Timed out after ") != NULL);
        REQUIRE(ddprun_work_error(work, NULL, 0) == strlen(ddprun_last_error()));
        REQUIRE(ddprun_work_error(work, text, sizeof(text)) > sizeof(text));
        REQUIRE(strlen(text) == sizeof(text) - 1 && strncmp(text, ddprun_last_error(), strlen(text)) == 0);
        REQUIRE(ddprun_work_culprits(work, culprits, 2) == 1 && culprits[0] == 1);
        REQUIRE(ddprun_work_on_done(work, note_code, &told_codes[1]) == DDPRUN_OK);
        REQUIRE(atomic_load(&told_codes[1]) == DDPRUN_TIMED_OUT + 1);
        ddprun_work_release(work);
    }
    REQUIRE(ddprun_barrier(comm) == DDPRUN_OK);
}

static void check_started(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    int32_t sum = ddprun_rank(comm);
    int32_t first = ddprun_rank(comm) + 7;
    ddprun_request request = DDPRUN_REQUEST_INIT;
    ddprun_work* works[2];
    request.operation = DDPRUN_ALL_REDUCE;
    request.type = DDPRUN_I32;
    request.in = &sum;
    request.out = &sum;
    request.count = 1;
    REQUIRE(ddprun_start(comm, &request, &works[0]) == DDPRUN_OK);
    request.operation = DDPRUN_BROADCAST;
    request.peer = 0;
    request.out = &first;
    REQUIRE(ddprun_start(comm, &request, &works[1]) == DDPRUN_OK);
    REQUIRE(ddprun_work_wait(works[1]) == DDPRUN_OK);
    REQUIRE(ddprun_work_test(works[0]) == 1);
    REQUIRE(sum == n * (n - 1) / 2);
    REQUIRE(first == 7);
    ddprun_work_release(works[0]);
    ddprun_work_release(works[1]);
    ddprun_work_release(NULL);
    check_started_compressed(comm);
    REQUIRE(ddprun_work_test(NULL) == -1);
    REQUIRE(ddprun_work_wait(NULL) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_start(comm, NULL, &works[0]) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_start(comm, &request, NULL) == DDPRUN_INVALID_ARGUMENT);
    request.operation = 8;
    REQUIRE(ddprun_start(comm, &request, &works[0]) == DDPRUN_INVALID_ARGUMENT);
    request.operation = 99;
    REQUIRE(ddprun_start(comm, &request, &works[0]) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(works[0] == NULL);
    request.operation = DDPRUN_BARRIER;
    request.size = 3;
    REQUIRE(ddprun_start(comm, &request, &works[0]) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(strstr(ddprun_last_error(), "sizeof(ddprun_request)") != NULL);
}

// Everybody sends to both neighbours, which may be one rank.
static void check_groups(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    const int rank = ddprun_rank(comm);
    const int right = (rank + 1) % n;
    const int left = (rank + n - 1) % n;
    int32_t mine = rank;
    int32_t from_left = -1;
    int32_t from_right = -1;
    ddprun_transfer transfers[] = {{DDPRUN_RECV, DDPRUN_I32, left, &from_left, 1},
                                   {DDPRUN_RECV, DDPRUN_I32, right, &from_right, 1},
                                   {DDPRUN_SEND, DDPRUN_I32, right, &mine, 1},
                                   {DDPRUN_SEND, DDPRUN_I32, left, &mine, 1}};
    ddprun_work* work = NULL;
    REQUIRE(ddprun_run_group(comm, NULL, 0) == DDPRUN_OK);
    REQUIRE(ddprun_run_group(comm, NULL, 1) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_run_group(NULL, transfers, 4) == DDPRUN_INVALID_ARGUMENT);
    if (n > 1) {
        REQUIRE(ddprun_run_group(comm, transfers, 4) == DDPRUN_OK);
        REQUIRE(from_left == left && from_right == right);
        from_left = -1;
        REQUIRE(ddprun_start_group(comm, transfers, 4, NULL, &work) == DDPRUN_OK);
        REQUIRE(ddprun_work_wait(work) == DDPRUN_OK);
        REQUIRE(from_left == left);
        ddprun_work_release(work);
    }
    transfers[3].peer = rank;
    REQUIRE(ddprun_run_group(comm, transfers, 4) == DDPRUN_INVALID_ARGUMENT);
    transfers[0].direction = DDPRUN_BARRIER;
    REQUIRE(ddprun_start_group(comm, transfers, 1, NULL, &work) == DDPRUN_INVALID_ARGUMENT && work == NULL);
    REQUIRE(strstr(ddprun_last_error(), "transfer 0 is neither") != NULL);
}

static void check_allocated(ddprun_communicator* comm) {
    enum { kCount = 100000 };
    const int n = ddprun_world_size(comm);
    ddprun_buffer* buffer = NULL;
    REQUIRE(ddprun_allocate(comm, kCount * sizeof(float), &buffer) == DDPRUN_OK);
    float* data = ddprun_buffer_data(buffer);
    REQUIRE(data != NULL);
    for (int i = 0; i < kCount; ++i) data[i] = (float)ddprun_rank(comm);
    REQUIRE(ddprun_all_reduce(comm, data, data, kCount, DDPRUN_F32, DDPRUN_SUM, 0) == DDPRUN_OK);
    REQUIRE(data[kCount - 1] == (float)(n * (n - 1) / 2));
    REQUIRE(ddprun_owns(comm, data + kCount - 1) == (n > 1));
    REQUIRE(ddprun_owns(comm, &buffer) == 0 && ddprun_owns(comm, NULL) == 0 && ddprun_owns(NULL, data) == 0);
    ddprun_buffer_release(buffer);
    ddprun_buffer_release(NULL);
    REQUIRE(ddprun_buffer_data(NULL) == NULL);
    REQUIRE(ddprun_allocate(comm, 1, NULL) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_allocate(NULL, 1, &buffer) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(buffer == NULL);
}

static void check_wrong_arguments(ddprun_communicator* comm) {
    float data[2] = {0, 0};
    ddprun_communicator* none = comm;
    ddprun_options options = DDPRUN_OPTIONS_INIT;
    REQUIRE(ddprun_barrier(NULL) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(strstr(ddprun_last_error(), "communicator is NULL") != NULL);
    REQUIRE(ddprun_last_error_culprits(NULL, 0) == 0);
    REQUIRE(ddprun_all_reduce(comm, NULL, data, 2, DDPRUN_F32, DDPRUN_SUM, 0) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_all_reduce(comm, data, data, 2, 256, DDPRUN_SUM, 0) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(strstr(ddprun_last_error(), "unknown type 256") != NULL);
    REQUIRE(ddprun_all_reduce(comm, data, data, 2, DDPRUN_F32, -1, 0) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_all_reduce(comm, data, data, 2, DDPRUN_F32, DDPRUN_BAND, 0) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_broadcast(comm, data, 2, DDPRUN_F32, -1) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_from_env(NULL, NULL) == DDPRUN_INVALID_ARGUMENT);
    ddprun_request request = DDPRUN_REQUEST_INIT;
    ddprun_work* work = NULL;
    request.operation = DDPRUN_BARRIER;
    request.stream = data;
    REQUIRE(ddprun_start(comm, &request, &work) == DDPRUN_INVALID_ARGUMENT);
    options.backend = 7;
    REQUIRE(ddprun_from_env(&options, &none) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(strstr(ddprun_last_error(), "unknown backend 7") != NULL);
    options.backend = DDPRUN_BACKEND_AUTOMATIC;
    none = comm;
    REQUIRE(ddprun_connect(NULL, 0, 1, NULL, &none) == DDPRUN_INVALID_ARGUMENT && none == NULL);
    REQUIRE(ddprun_connect("nowhere", 0, 1, NULL, &none) == DDPRUN_INVALID_ARGUMENT);
    options.reproducible = 2;
    REQUIRE(ddprun_from_env(&options, &none) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(strstr(ddprun_last_error(), "ddprun_options::reproducible is 2") != NULL);
    options.reproducible = 1;
    options.operation_timeout_ms = -1;
    REQUIRE(ddprun_connect("file:///unused", 0, 1, &options, &none) == DDPRUN_INVALID_ARGUMENT);
    options.size = 3;
    REQUIRE(ddprun_connect("file:///unused", 0, 1, &options, &none) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_rank(NULL) == -1 && ddprun_local_world_size(NULL) == -1);
    REQUIRE(strcmp(ddprun_code_name(DDPRUN_SYSTEM), "system") == 0);
    REQUIRE(strcmp(ddprun_code_name(8), "unknown") == 0);
    ddprun_destroy(NULL);
}

// Options as a newer header would have them.
static void check_newer_options(void) {
    struct {
        ddprun_options known;
        int64_t later;
    } newer = {DDPRUN_OPTIONS_INIT, 0};
    ddprun_communicator* alone = NULL;
    newer.known.size = sizeof(newer);
    REQUIRE(ddprun_connect("file:///unused", 0, 1, &newer.known, &alone) == DDPRUN_OK);
    REQUIRE(ddprun_world_size(alone) == 1);
    ddprun_destroy(alone);
    newer.later = 1;
    REQUIRE(ddprun_connect("file:///unused", 0, 1, &newer.known, &alone) == DDPRUN_INVALID_ARGUMENT);
}

// Options as the first header had them, with whatever lies behind them.
static void check_older_options(void) {
    ddprun_options older = DDPRUN_OPTIONS_INIT;
    ddprun_communicator* alone = NULL;
    older.size = offsetof(ddprun_options, reproducible);
    older.reproducible = 77;
    REQUIRE(ddprun_connect("file:///unused", 0, 1, &older, &alone) == DDPRUN_OK);
    ddprun_destroy(alone);
    older.size -= 1;
    REQUIRE(ddprun_connect("file:///unused", 0, 1, &older, &alone) == DDPRUN_INVALID_ARGUMENT);
}

// Not before all have joined.
static void abort_by_first(ddprun_communicator* comm, const char* reason) {
    int code = ddprun_barrier(comm);
    if (ddprun_rank(comm) == 0) {
        REQUIRE(code == DDPRUN_OK);
        REQUIRE(ddprun_abort(comm, reason) == DDPRUN_OK);
    }
    while (code == DDPRUN_OK) code = ddprun_barrier(comm);
    REQUIRE(code == DDPRUN_ABORTED);
}

static void check_split_and_abort(ddprun_communicator* comm) {
    const int rank = ddprun_rank(comm);
    const int n = ddprun_world_size(comm);
    ddprun_communicator* part = comm;
    int culprits[2] = {-1, -1};
    REQUIRE(ddprun_split(comm, rank == 0 ? -1 : 7, -rank, &part) == DDPRUN_OK);
    REQUIRE((part == NULL) == (rank == 0));
    if (part != NULL) {
        REQUIRE(ddprun_world_size(part) == n - 1 && ddprun_rank(part) == n - 1 - rank);
        REQUIRE(ddprun_on_end(part, NULL, NULL) == DDPRUN_INVALID_ARGUMENT);
        REQUIRE(ddprun_on_end(part, note_code, &told_codes[2]) == DDPRUN_OK);
        abort_by_first(part, "enough");
        await_code(2, DDPRUN_ABORTED);
        REQUIRE(strstr(ddprun_last_error(), "enough") != NULL);
        REQUIRE(ddprun_last_error_culprits(culprits, 2) == 1 && culprits[0] == 0 && culprits[1] == -1);
        REQUIRE(ddprun_status(part) == DDPRUN_ABORTED);
        REQUIRE(ddprun_finalize(part, 0) == DDPRUN_ABORTED);
    }
    ddprun_destroy(part);
    const int backwards[] = {n - 1, 0};
    REQUIRE(ddprun_subgroup(comm, NULL, 1, "pair", NULL, &part) == DDPRUN_INVALID_ARGUMENT && part == NULL);
    REQUIRE(ddprun_subgroup(comm, backwards, 2, NULL, NULL, &part) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_subgroup(comm, backwards, 2, "pair", NULL, NULL) == DDPRUN_INVALID_ARGUMENT);
    if (n > 1 && (rank == 0 || rank == n - 1)) {
        REQUIRE(ddprun_subgroup(comm, backwards, 2, "pair", NULL, &part) == DDPRUN_OK);
        REQUIRE(ddprun_rank(part) == (rank == 0) && ddprun_world_size(part) == 2);
        REQUIRE(ddprun_barrier(part) == DDPRUN_OK);
        ddprun_destroy(part);
    }
    REQUIRE(ddprun_barrier(comm) == DDPRUN_OK);
}

// Without the last rank, and then, when that has ended, all that are left once more.
static void check_shrink(ddprun_communicator* comm) {
    const int rank = ddprun_rank(comm);
    const int n = ddprun_world_size(comm);
    const int last = n - 1;
    const int wrong = n;
    ddprun_communicator* rest = comm;
    REQUIRE(ddprun_shrink(NULL, NULL, 0, &rest) == DDPRUN_INVALID_ARGUMENT && rest == NULL);
    REQUIRE(ddprun_shrink(comm, NULL, 0, NULL) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_shrink(comm, NULL, 1, &rest) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_shrink(comm, &rank, 1, &rest) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_shrink(comm, &wrong, 1, &rest) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_shrink(comm, &rank, (size_t)n + 1, &rest) == DDPRUN_INVALID_ARGUMENT);
    if (n > 1 && rank != last) {
        REQUIRE(ddprun_shrink(comm, &last, 1, &rest) == DDPRUN_OK);
        REQUIRE(ddprun_world_size(rest) == n - 1 && ddprun_rank(rest) == rank);
        abort_by_first(rest, "once more");
        ddprun_communicator* again = NULL;
        REQUIRE(ddprun_shrink(rest, NULL, 0, &again) == DDPRUN_OK);
        ddprun_destroy(rest);
        int32_t one = 1;
        REQUIRE(ddprun_all_reduce(again, &one, &one, 1, DDPRUN_I32, DDPRUN_SUM, 0) == DDPRUN_OK);
        REQUIRE(one == n - 1);
        REQUIRE(ddprun_finalize(again, 60 * 1000) == DDPRUN_OK);
        ddprun_destroy(again);
    }
    REQUIRE(ddprun_barrier(comm) == DDPRUN_OK);
}

// A store of files in one folder.
typedef struct {
    char folder[32];
    int released;
    int fails;
} FileStore;

static void path_of(const FileStore* store, const char* key, char* path, size_t size) {
    int length = snprintf(path, size, "%s/", store->folder);
    for (; *key != '\0'; ++key) path[length++] = *key == '/' ? '_' : *key;
    path[length] = '\0';
}

static int store_set(void* context, const char* key, const void* value, size_t bytes) {
    const FileStore* store = context;
    char path[512];
    char written[600];
    if (store->fails && strstr(key, "member/") != NULL) return DDPRUN_SYSTEM;
    path_of(store, key, path, sizeof(path));
    snprintf(written, sizeof(written), "%s.%d", path, (int)getpid());
    FILE* file = fopen(written, "wb");
    REQUIRE(file != NULL && fwrite(value, 1, bytes, file) == bytes && fclose(file) == 0);
    return rename(written, path) == 0 ? DDPRUN_OK : DDPRUN_SYSTEM;
}

static int store_get(void* context, const char* key, int64_t timeout_ms,
                     void (*take)(void* sink, const void* value, size_t bytes), void* sink) {
    const struct timespec pause = {0, 1000 * 1000};
    char path[512];
    char value[4096];
    path_of(context, key, path, sizeof(path));
    for (int64_t waited = 0; waited < timeout_ms; ++waited) {
        FILE* file = fopen(path, "rb");
        if (file != NULL) {
            take(sink, value, fread(value, 1, sizeof(value), file));
            fclose(file);
            return DDPRUN_OK;
        }
        nanosleep(&pause, NULL);
    }
    return DDPRUN_TIMED_OUT;
}

static int store_add(void* context, const char* key, int64_t amount, int64_t* sum) {
    char path[512];
    path_of(context, key, path, sizeof(path));
    const int file = open(path, O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0 && flock(file, LOCK_EX) == 0);
    *sum = 0;
    REQUIRE(pread(file, sum, sizeof(*sum), 0) >= 0);
    *sum += amount;
    REQUIRE(pwrite(file, sum, sizeof(*sum), 0) == (ssize_t)sizeof(*sum));
    return close(file) == 0 ? DDPRUN_OK : DDPRUN_SYSTEM;
}

static const char* store_error(void* context) { return ((FileStore*)context)->folder; }
static void store_release(void* context) { ((FileStore*)context)->released += 1; }

static void check_join(ddprun_communicator* comm) {
    const int n = ddprun_world_size(comm);
    const int rank = ddprun_rank(comm);
    FileStore files = {"/tmp/c_program_XXXXXX", 0, 0};
    ddprun_store store = {sizeof(store), &files, store_set, store_get, store_add, NULL, store_error, store_release};
    ddprun_communicator* joined = comm;
    int32_t one = 1;
    if (rank == 0) REQUIRE(mkdtemp(files.folder) != NULL);
    REQUIRE(ddprun_broadcast(comm, files.folder, sizeof(files.folder), DDPRUN_U8, 0) == DDPRUN_OK);
    REQUIRE(ddprun_join(&store, rank, n, NULL, &joined) == DDPRUN_OK);
    REQUIRE(ddprun_rank(joined) == rank && ddprun_world_size(joined) == n);
    REQUIRE(ddprun_all_reduce(joined, &one, &one, 1, DDPRUN_I32, DDPRUN_SUM, 0) == DDPRUN_OK && one == n);
    REQUIRE(ddprun_finalize(joined, 60 * 1000) == DDPRUN_OK);
    ddprun_destroy(joined);
    REQUIRE(files.released == 1);
    REQUIRE(ddprun_join(NULL, rank, n, NULL, &joined) == DDPRUN_INVALID_ARGUMENT && joined == NULL);
    REQUIRE(ddprun_join(&store, n, n, NULL, &joined) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(files.released == 2);
    files.fails = 1;
    REQUIRE(n == 1 || ddprun_join(&store, rank, n, NULL, &joined) == DDPRUN_SYSTEM);
    REQUIRE(n == 1 || strstr(ddprun_last_error(), files.folder) != NULL);
    store.get = NULL;
    REQUIRE(ddprun_join(&store, rank, n, NULL, &joined) == DDPRUN_INVALID_ARGUMENT);
    store.size = 3;
    REQUIRE(ddprun_join(&store, rank, n, NULL, &joined) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_barrier(comm) == DDPRUN_OK);
    if (rank != 0) return;
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", files.folder);
    REQUIRE(system(command) == 0);
}

static void check_finalize(ddprun_communicator* comm) {
    const int rank = ddprun_rank(comm);
    REQUIRE(ddprun_finalize(NULL, 0) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_status(NULL) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_finalize(comm, INT64_MAX) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_status(comm) == DDPRUN_OK);
    REQUIRE(ddprun_finalize(comm, rank == 0 ? -1 : 60 * 1000) == DDPRUN_OK);
    REQUIRE(ddprun_finalize(comm, 0) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_barrier(comm) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(ddprun_status(comm) == DDPRUN_INVALID_ARGUMENT);
    REQUIRE(strstr(ddprun_last_error(), "has been finalized") != NULL);
    REQUIRE(ddprun_rank(comm) == rank);
}

int main(void) {
    ddprun_options options = DDPRUN_OPTIONS_INIT;
    ddprun_communicator* comm = NULL;
    options.operation_timeout_ms = 60 * 1000;
    REQUIRE(strcmp(ddprun_last_error(), "") == 0);
    REQUIRE(ddprun_from_env(&options, &comm) == DDPRUN_OK);
    REQUIRE(ddprun_world_size(comm) <= kMaxRanks / 2);
    check_reductions(comm);
    check_movements(comm);
    check_parts(comm);
    check_messages(comm);
    check_started(comm);
    check_deadlines(comm);
    check_groups(comm);
    check_allocated(comm);
    check_wrong_arguments(comm);
    check_newer_options();
    check_older_options();
    check_split_and_abort(comm);
    check_shrink(comm);
    check_join(comm);
    check_finalize(comm);
    printf("rank %d of %d: ok\n", ddprun_rank(comm), ddprun_world_size(comm));
    ddprun_destroy(comm);
    return 0;
}
