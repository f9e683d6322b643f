#include "collectives/ddprun_collectives.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/c_calls.hpp"
#include "collectives/call/call.hpp"
#include "collectives/communicator.hpp"
#include "collectives/group.hpp"

namespace ddprun {
namespace {

static_assert(DDPRUN_BF16 == static_cast<int>(DataType::bf16) && DDPRUN_U8 == static_cast<int>(DataType::u8));
static_assert(DDPRUN_BXOR == static_cast<int>(ReduceOp::bxor) &&
              DDPRUN_PREMUL_SUM == static_cast<int>(ReduceOp::premul_sum));

static_assert(DDPRUN_ALL_TO_ALL == static_cast<int>(Operation::all_to_all) &&
              DDPRUN_RECV == static_cast<int>(Operation::recv));

static_assert(DDPRUN_AS_BF16 == static_cast<int>(Compression::bf16) &&
              DDPRUN_AS_F16 == static_cast<int>(Compression::f16));

static_assert(DDPRUN_OK == 0 && DDPRUN_SYSTEM == static_cast<int>(CollectiveErrorCode::system) + 1);

// More than any version of a struct will have; such a size was never set.
constexpr std::size_t kMaxStructSize = 4096;
// These are the sizes that callers have that were compiled before these structs had their additions: all that
// is there was once the last member, and the padding behind it.
constexpr std::size_t kFirstRequestSize = offsetof(ddprun_request, compression);
constexpr std::size_t kFirstOptionsSize = offsetof(ddprun_options, reproducible);

// As remember(), of how something ended whose thread is not the caller's.
int remember(const Status& status) noexcept {
    if (status.ok()) return DDPRUN_OK;
    return remember(*status.code(), std::string(status.text()).c_str(), status.culprits());
}

std::size_t copy_ranks(const std::vector<int>& from, int* ranks, std::size_t capacity) {
    if (ranks != nullptr) std::copy_n(from.begin(), std::min(capacity, from.size()), ranks);
    return from.size();
}

// A function of the caller's that is told how something ended.
std::function<void(const Status&)> telling(void (*tell)(void* context, int code), void* context) {
    if (tell == nullptr) refuse_argument("the function to be called is NULL");
    return [=](const Status& status) { tell(context, remember(status)); };
}

// Numbers outside the underlying type would become others by the cast alone.
template <class Enum>
Enum enumerator(int number, const char* name) {
    if (number >= 0 && number <= std::numeric_limits<std::uint8_t>::max()) {
        const auto value = static_cast<Enum>(number);
        if (is_known(value)) return value;
    }
    refuse_argument(fmt::format("unknown {} {}", name, number));
}

DataType type_of(int type) { return enumerator<DataType>(type, "type"); }

Compression compression_of(int compression) { return enumerator<Compression>(compression, "compression"); }

Reduction reduction_of(int op, double scalar) {
    Reduction reduction(enumerator<ReduceOp>(op, "reduction"));
    if (reduction.op == ReduceOp::premul_sum) reduction.scalar = scalar;
    return reduction;
}

// A struct that begins with its size. The caller's header may have had the members of `first_size` bytes
// only: the others are 0, in `filled`.
template <class Struct>
const Struct& known_members(const Struct& given, Struct& filled, std::size_t first_size, const char* name) {
    if (given.size < first_size || given.size % alignof(Struct) != 0 || given.size > kMaxStructSize)
        refuse_argument(fmt::format("{0}::size is {1}, not sizeof({0})", name, given.size));
    if (given.size < sizeof(given)) {
        filled = Struct{};
        std::memcpy(&filled, &given, given.size);
        return filled;
    }
    // The struct is from a newer header: members this library does not know must be at their default.
    const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
    if (std::any_of(bytes + sizeof(given), bytes + given.size, [](unsigned char byte) { return byte != 0; }))
        refuse_argument(
            fmt::format("{} has members set that this version of the library does not know", name));
    return given;
}

std::vector<Part> parts_of(const ddprun_part* parts, const ddprun_request& request,
                           const Communicator& comm) {
    std::vector<Part> result;
    if (parts == nullptr) return result;
    const bool of_ranks = request.operation != DDPRUN_ALL_REDUCE;
    std::size_t rest = request.count;
    for (int i = 0; of_ranks ? i < comm.world_size() : rest > 0; ++i) {
        result.push_back({parts[i].data, parts[i].count});
        rest -= std::min(rest, parts[i].count);
    }
    return result;
}

// Calls body() with the request, whose parts last as long.
template <class Body>
auto with_request(const Communicator& comm, const ddprun_request* given, Body body) {
    if (given == nullptr) refuse_argument("the request is NULL");
    ddprun_request filled;
    const ddprun_request& request = known_members(*given, filled, kFirstRequestSize, "ddprun_request");
    if (request.reserved != 0) refuse_argument("ddprun_request::reserved is not 0");
    if (request.counted != 0 && request.counted != 1)
        refuse_argument(fmt::format("ddprun_request::counted is {}, neither 0 nor 1", request.counted));
    const auto operation = enumerator<Operation>(request.operation, "operation");
    const std::vector<Part> in = parts_of(request.in_parts, request, comm);
    const std::vector<Part> out = parts_of(request.out_parts, request, comm);
    // Arguments that the operation does not have are ignored.
    return body({.operation = operation,
                 .in = operation == Operation::broadcast ? request.out : request.in,
                 .out = request.out,
                 .count = request.count,
                 .type = type_of(request.type),
                 .reduction = reduction_of(request.op, request.scalar),
                 .peer = request.peer,
                 .compression = operation == Operation::all_reduce ? compression_of(request.compression)
                                                                   : Compression::none,
                 .timeout = std::chrono::milliseconds(request.timeout_ms),
                 .in_parts = in,
                 .out_parts = out,
                 .counted = request.counted == 1});
}

Group group_of(ddprun_communicator* comm, const ddprun_transfer* transfers, std::size_t count) {
    Group group(checked(comm));
    if (transfers == nullptr && count > 0) refuse_argument("the transfers are NULL");
    for (const ddprun_transfer* next = transfers; next != transfers + count; ++next) {
        if (next->direction == DDPRUN_SEND) {
            group.send(next->data, next->count, type_of(next->type), next->peer);
        } else if (next->direction == DDPRUN_RECV) {
            group.recv(next->data, next->count, type_of(next->type), next->peer);
        } else {
            refuse_argument(fmt::format("transfer {} is neither DDPRUN_SEND nor DDPRUN_RECV, but {}",
                                        next - transfers, next->direction));
        }
    }
    return group;
}

BackendChoice backend_of(int backend) {
    switch (backend) {
        case DDPRUN_BACKEND_AUTOMATIC: return BackendChoice::automatic;
        case DDPRUN_BACKEND_CPU: return BackendChoice::cpu;
        case DDPRUN_BACKEND_NCCL: return BackendChoice::nccl;
        default: refuse_argument(fmt::format("unknown backend {}", backend));
    }
}

CommunicatorOptions options_of(const ddprun_options* given) {
    CommunicatorOptions result;
    if (given == nullptr) return result;
    ddprun_options filled;
    const ddprun_options& known = known_members(*given, filled, kFirstOptionsSize, "ddprun_options");
    const auto take = [](std::int64_t milliseconds, std::chrono::milliseconds& timeout) {
        if (milliseconds != 0) timeout = std::chrono::milliseconds(milliseconds);
    };
    take(known.operation_timeout_ms, result.operation_timeout);
    take(known.join_timeout_ms, result.join_timeout);
    take(known.leave_timeout_ms, result.leave_timeout);
    take(known.notice_after_ms, result.notice_after);
    result.backend = backend_of(known.backend);
    result.device = known.device;
    if (known.reproducible != 0 && known.reproducible != 1)
        refuse_argument(
            fmt::format("ddprun_options::reproducible is {}, neither 0 nor 1", known.reproducible));
    result.reproducible = known.reproducible == 1;
    if (known.reserved != 0) refuse_argument("ddprun_options::reserved is not 0");
    return result;
}

std::vector<int> ranks_of(const Communicator& comm, const int* ranks, std::size_t count) {
    if (ranks == nullptr && count > 0) refuse_argument("the ranks are NULL");
    if (count > static_cast<std::size_t>(comm.world_size()))
        refuse_argument("more ranks are named than there are");
    return count > 0 ? std::vector<int>(ranks, ranks + count) : std::vector<int>();
}

class StoreOfFunctions final : public KeyValueStore {
  public:
    explicit StoreOfFunctions(const ddprun_store& functions) : functions_(functions) {}
    StoreOfFunctions(const StoreOfFunctions&) = delete;
    StoreOfFunctions& operator=(const StoreOfFunctions&) = delete;
    ~StoreOfFunctions() override {
        if (functions_.release != nullptr) functions_.release(functions_.context);
    }

    void require_all() const {
        if (functions_.set == nullptr || functions_.get == nullptr || functions_.add == nullptr)
            refuse_argument("ddprun_store lacks set, get or add");
    }

    void set(const std::string& key, std::string_view value) override {
        require_ok(functions_.set(functions_.context, key.c_str(), value.data(), value.size()));
    }
    std::optional<std::string> get(const std::string& key, std::chrono::milliseconds limit) override {
        std::string value;
        const auto take = [](void* sink, const void* data, std::size_t bytes) {
            static_cast<std::string*>(sink)->assign(static_cast<const char*>(data), bytes);
        };
        const int code = functions_.get(functions_.context, key.c_str(), limit.count(), take, &value);
        if (code == DDPRUN_TIMED_OUT) return std::nullopt;
        require_ok(code);
        return value;
    }
    std::int64_t add(const std::string& key, std::int64_t amount) override {
        std::int64_t sum = 0;
        require_ok(functions_.add(functions_.context, key.c_str(), amount, &sum));
        return sum;
    }
    void remove(const std::string& key) override {
        if (functions_.remove != nullptr) require_ok(functions_.remove(functions_.context, key.c_str()));
    }

  private:
    void require_ok(int code) const {
        if (code == DDPRUN_OK) return;
        const char* text = functions_.error == nullptr ? nullptr : functions_.error(functions_.context);
        throw std::runtime_error(text == nullptr ? ddprun_code_name(code) : text);
    }

    ddprun_store functions_;
};

}  // namespace
}  // namespace ddprun

using namespace ddprun;

int ddprun_from_env(const ddprun_options* options, ddprun_communicator** comm) {
    return make_handle(comm, [&] { return Communicator::from_env(options_of(options)); });
}

int ddprun_connect(const char* url, int rank, int world_size, const ddprun_options* options,
                   ddprun_communicator** comm) {
    return make_handle(comm, [&] {
        if (url == nullptr) refuse_argument("the URL is NULL");
        return Communicator::connect(url, rank, world_size, options_of(options));
    });
}

int ddprun_join(const ddprun_store* store, int rank, int world_size, const ddprun_options* options,
                ddprun_communicator** comm) {
    return make_handle(comm, [&] {
        if (store == nullptr) refuse_argument("the store is NULL");
        ddprun_store filled;
        auto functions =
            std::make_shared<StoreOfFunctions>(known_members(*store, filled, sizeof(*store), "ddprun_store"));
        functions->require_all();
        return Communicator::join(std::move(functions), rank, world_size, options_of(options));
    });
}

int ddprun_split(ddprun_communicator* comm, int color, int key, ddprun_communicator** part) {
    return guarded([&] {
        if (part == nullptr) refuse_argument("the place for the result is NULL");
        *part = nullptr;
        auto made = checked(comm).split(color, key);
        if (made) *part = new ddprun_communicator{std::move(*made)};
    });
}

int ddprun_subgroup(ddprun_communicator* comm, const int* ranks, size_t count, const char* name,
                    const ddprun_options* options, ddprun_communicator** part) {
    return make_handle(part, [&] {
        Communicator& own = checked(comm);
        if (name == nullptr) refuse_argument("the name is NULL");
        const std::vector<int> members = ranks_of(own, ranks, count);
        return options == nullptr ? own.subgroup(members, name)
                                  : own.subgroup(members, name, options_of(options));
    });
}

int ddprun_shrink(ddprun_communicator* comm, const int* excluded, size_t count, ddprun_communicator** rest) {
    return make_handle(rest, [&] {
        Communicator& own = checked(comm);
        return own.shrink(ranks_of(own, excluded, count));
    });
}

int ddprun_finalize(ddprun_communicator* comm, int64_t timeout_ms) {
    return guarded([&] {
        Communicator& own = checked(comm);
        timeout_ms < 0 ? own.finalize() : own.finalize(std::chrono::milliseconds(timeout_ms));
    });
}

int ddprun_status(const ddprun_communicator* comm) {
    return guarded([&] {
        if (comm == nullptr) refuse_argument("the communicator is NULL");
        comm->communicator.status().throw_if_failed();
    });
}

int ddprun_on_end(ddprun_communicator* comm, void (*ended)(void* context, int code), void* context) {
    return guarded([&] { checked(comm).on_end(telling(ended, context)); });
}

int ddprun_set_timeout(ddprun_communicator* comm, int64_t operation_timeout_ms) {
    return guarded([&] { checked(comm).set_timeout(std::chrono::milliseconds(operation_timeout_ms)); });
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

int ddprun_run_group(ddprun_communicator* comm, const ddprun_transfer* transfers, size_t count) {
    return guarded([&] { group_of(comm, transfers, count).run(); });
}

int ddprun_allocate(ddprun_communicator* comm, size_t bytes, ddprun_buffer** buffer) {
    return make_handle(buffer, [&] { return checked(comm).allocate<unsigned char>(bytes); });
}

void* ddprun_buffer_data(const ddprun_buffer* buffer) {
    return buffer == nullptr ? nullptr : buffer->memory.data();
}

void ddprun_buffer_release(ddprun_buffer* buffer) { delete buffer; }

int ddprun_owns(const ddprun_communicator* comm, const void* data) {
    return comm != nullptr && comm->communicator.owns(data) ? 1 : 0;
}

int ddprun_start(ddprun_communicator* comm, const ddprun_request* request, ddprun_work** work) {
    return make_handle(work, [&] {
        Communicator& own = checked(comm);
        return with_request(own, request, [&](const OperationRequest& what) {
            return own.async(request->stream).submit(what);
        });
    });
}

int ddprun_run(ddprun_communicator* comm, const ddprun_request* request) {
    return guarded([&] {
        Communicator& own = checked(comm);
        with_request(own, request, [&](const OperationRequest& what) { own.submit(what); });
    });
}

int ddprun_start_group(ddprun_communicator* comm, const ddprun_transfer* transfers, size_t count,
                       void* stream, ddprun_work** work) {
    return make_handle(work, [&] { return group_of(comm, transfers, count).start(stream); });
}

int ddprun_work_wait(ddprun_work* work) {
    return guarded([&] {
        if (work == nullptr) refuse_argument("the work is NULL");
        work->work.wait();
    });
}

int ddprun_work_test(const ddprun_work* work) {
    if (work == nullptr) return -1;
    return work->work.test() ? 1 : 0;
}

int ddprun_work_on_done(ddprun_work* work, void (*done)(void* context, int code), void* context) {
    return guarded([&] {
        if (work == nullptr) refuse_argument("the work is NULL");
        work->work.then(telling(done, context));
    });
}

size_t ddprun_work_error(const ddprun_work* work, char* text, size_t capacity) {
    const auto error = work == nullptr ? std::nullopt : work->work.error();
    const std::string_view what = error ? error->what() : "";
    if (text != nullptr && capacity > 0) text[what.copy(text, capacity - 1)] = '\0';
    return what.size();
}

size_t ddprun_work_culprits(const ddprun_work* work, int* ranks, size_t capacity) {
    const auto error = work == nullptr ? std::nullopt : work->work.error();
    return error ? copy_ranks(error->culprits(), ranks, capacity) : 0;
}

void ddprun_work_release(ddprun_work* work) { delete work; }

int ddprun_abort(ddprun_communicator* comm, const char* reason) {
    return guarded([&] { checked(comm).abort(reason == nullptr ? "" : reason); });
}

const char* ddprun_last_error(void) { return last_error().text.c_str(); }

size_t ddprun_last_error_culprits(int* ranks, size_t capacity) {
    return copy_ranks(last_error().culprits, ranks, capacity);
}

const char* ddprun_code_name(int code) {
    if (code == DDPRUN_OK) return "ok";
    if (code < DDPRUN_OK || code > DDPRUN_SYSTEM) return "unknown";
    return name_of(static_cast<CollectiveErrorCode>(code - 1)).data();
}
