#include "collectives/ddprun_collectives.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.hpp"

struct ddprun_communicator {
    ddprun::Communicator communicator;
};

namespace ddprun {
namespace {

static_assert(DDPRUN_BF16 == static_cast<int>(DataType::bf16) && DDPRUN_U8 == static_cast<int>(DataType::u8));
static_assert(DDPRUN_BXOR == static_cast<int>(ReduceOp::bxor) &&
              DDPRUN_PREMUL_SUM == static_cast<int>(ReduceOp::premul_sum));

// What the first version of the header had; callers never have less.
constexpr std::size_t kFirstOptionsSize = sizeof(ddprun_options);
// More than any version will have; such a size was never set.
constexpr std::size_t kMaxOptionsSize = 4096;

struct LastError {
    std::string text;
    std::vector<int> culprits;
};

LastError& last_error() {
    thread_local LastError error;
    return error;
}

int code_of(CollectiveErrorCode code) noexcept { return static_cast<int>(code) + 1; }

int remember(int code, const char* text, const std::vector<int>& culprits) noexcept {
    LastError& last = last_error();
    try {
        last.culprits = culprits;
        last.text = text;
    } catch (const std::bad_alloc&) {
        // Fits without an allocation.
        last.text = "out of memory";
    }
    return code;
}

[[noreturn]] void refuse(const std::string& what) {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, what);
}

// Runs body(); what it throws becomes a code and the thread's last error.
template <class Body>
int guarded(Body body) noexcept {
    try {
        body();
        return DDPRUN_OK;
    } catch (const CollectiveError& error) {
        return remember(code_of(error.code()), error.what(), error.culprits());
    } catch (const std::exception& error) {
        return remember(DDPRUN_SYSTEM, error.what(), {});
    } catch (...) {
        return remember(DDPRUN_SYSTEM, "an unknown error", {});
    }
}

Communicator& checked(ddprun_communicator* comm) {
    if (comm == nullptr) refuse("the communicator is NULL");
    return comm->communicator;
}

template <class T>
T& checked_result(T* result) {
    if (result == nullptr) refuse("the place for the new communicator is NULL");
    *result = nullptr;
    return *result;
}

// Numbers outside the underlying type would become others by the cast alone.
template <class Enum>
Enum enumerator(int number, const char* name) {
    if (number >= 0 && number <= std::numeric_limits<std::uint8_t>::max()) {
        const auto value = static_cast<Enum>(number);
        if (is_known(value)) return value;
    }
    refuse(std::string("unknown ") + name + ' ' + std::to_string(number));
}

DataType type_of(int type) { return enumerator<DataType>(type, "type"); }

Reduction reduction_of(int op, double scalar) {
    Reduction reduction(enumerator<ReduceOp>(op, "reduction"));
    if (reduction.op == ReduceOp::premul_sum) reduction.scalar = scalar;
    return reduction;
}

void require_known_members(const ddprun_options& options) {
    if (options.size < kFirstOptionsSize || options.size > kMaxOptionsSize) {
        refuse("ddprun_options::size is " + std::to_string(options.size) + ", not sizeof(ddprun_options)");
    }
    // From a newer header; members this library does not know must be at their default.
    const auto* bytes = reinterpret_cast<const unsigned char*>(&options);
    if (std::any_of(bytes + sizeof(options), bytes + options.size,
                    [](unsigned char byte) { return byte != 0; })) {
        refuse("ddprun_options has members set that this version of the library does not know");
    }
}

CommunicatorOptions options_of(const ddprun_options* options) {
    CommunicatorOptions result;
    if (options == nullptr) return result;
    require_known_members(*options);
    const auto take = [](std::int64_t milliseconds, std::chrono::milliseconds& limit) {
        if (milliseconds != 0) limit = std::chrono::milliseconds(milliseconds);
    };
    take(options->operation_timeout_ms, result.operation_timeout);
    take(options->join_timeout_ms, result.join_timeout);
    take(options->leave_timeout_ms, result.leave_timeout);
    return result;
}

}  // namespace
}  // namespace ddprun

using namespace ddprun;

int ddprun_from_env(const ddprun_options* options, ddprun_communicator** comm) {
    return guarded([&] {
        auto*& result = checked_result(comm);
        result = new ddprun_communicator{Communicator::from_env(options_of(options))};
    });
}

int ddprun_connect(const char* url, int rank, int world_size, const ddprun_options* options,
                   ddprun_communicator** comm) {
    return guarded([&] {
        auto*& result = checked_result(comm);
        if (url == nullptr) refuse("the URL is NULL");
        result = new ddprun_communicator{Communicator::connect(url, rank, world_size, options_of(options))};
    });
}

int ddprun_split(ddprun_communicator* comm, int color, int key, ddprun_communicator** part) {
    return guarded([&] {
        auto*& result = checked_result(part);
        auto made = checked(comm).split(color, key);
        if (made) result = new ddprun_communicator{std::move(*made)};
    });
}

void ddprun_destroy(ddprun_communicator* comm) { delete comm; }

int ddprun_rank(const ddprun_communicator* comm) { return comm == nullptr ? -1 : comm->communicator.rank(); }

int ddprun_world_size(const ddprun_communicator* comm) {
    return comm == nullptr ? -1 : comm->communicator.world_size();
}

int ddprun_local_rank(const ddprun_communicator* comm) {
    return comm == nullptr ? -1 : comm->communicator.local_rank();
}

int ddprun_local_world_size(const ddprun_communicator* comm) {
    return comm == nullptr ? -1 : comm->communicator.local_world_size();
}

int ddprun_all_reduce(ddprun_communicator* comm, const void* in, void* out, size_t count, int type, int op,
                      double scalar) {
    return guarded(
        [&] { checked(comm).all_reduce(in, out, count, type_of(type), reduction_of(op, scalar)); });
}

int ddprun_reduce(ddprun_communicator* comm, const void* in, void* out, size_t count, int type, int op,
                  double scalar, int root) {
    return guarded(
        [&] { checked(comm).reduce(in, out, count, type_of(type), reduction_of(op, scalar), root); });
}

int ddprun_reduce_scatter(ddprun_communicator* comm, const void* in, void* out, size_t count, int type,
                          int op, double scalar) {
    return guarded(
        [&] { checked(comm).reduce_scatter(in, out, count, type_of(type), reduction_of(op, scalar)); });
}

int ddprun_broadcast(ddprun_communicator* comm, void* data, size_t count, int type, int root) {
    return guarded([&] { checked(comm).broadcast(data, count, type_of(type), root); });
}

int ddprun_all_gather(ddprun_communicator* comm, const void* in, void* out, size_t count, int type) {
    return guarded([&] { checked(comm).all_gather(in, out, count, type_of(type)); });
}

int ddprun_gather(ddprun_communicator* comm, const void* in, void* out, size_t count, int type, int root) {
    return guarded([&] { checked(comm).gather(in, out, count, type_of(type), root); });
}

int ddprun_scatter(ddprun_communicator* comm, const void* in, void* out, size_t count, int type, int root) {
    return guarded([&] { checked(comm).scatter(in, out, count, type_of(type), root); });
}

int ddprun_all_to_all(ddprun_communicator* comm, const void* in, void* out, size_t count, int type) {
    return guarded([&] { checked(comm).all_to_all(in, out, count, type_of(type)); });
}

int ddprun_barrier(ddprun_communicator* comm) {
    return guarded([&] { checked(comm).barrier(); });
}

int ddprun_send(ddprun_communicator* comm, const void* data, size_t count, int type, int peer) {
    return guarded([&] { checked(comm).send(data, count, type_of(type), peer); });
}

int ddprun_recv(ddprun_communicator* comm, void* data, size_t count, int type, int peer) {
    return guarded([&] { checked(comm).recv(data, count, type_of(type), peer); });
}

int ddprun_abort(ddprun_communicator* comm, const char* reason) {
    return guarded([&] { checked(comm).abort(reason == nullptr ? "" : reason); });
}

const char* ddprun_last_error(void) { return last_error().text.c_str(); }

size_t ddprun_last_error_culprits(int* ranks, size_t capacity) {
    const auto& culprits = last_error().culprits;
    if (ranks != nullptr) std::copy_n(culprits.begin(), std::min(capacity, culprits.size()), ranks);
    return culprits.size();
}

const char* ddprun_code_name(int code) {
    if (code == DDPRUN_OK) return "ok";
    if (code < DDPRUN_OK || code > DDPRUN_SYSTEM) return "unknown";
    return name_of(static_cast<CollectiveErrorCode>(code - 1)).data();
}
