#include "collectives/communicator.hpp"

#include <cstdint>
#include <limits>
#include <new>

#include "collectives/bootstrap.hpp"
#include "collectives/call.hpp"
#include "collectives/reduce.hpp"
#include "collectives/session.hpp"
#include "collectives/split.hpp"

namespace ddprun {
namespace {

[[noreturn]] void refuse(Operation operation, const std::string& what) {
    const std::string name(name_of(operation));
    throw CollectiveError(CollectiveErrorCode::invalid_argument, name + ": " + what, {}, name);
}

// The checks of one call, and the guard that keeps a second thread out while it runs.
class Guard {
  public:
    Guard(Communicator::Session& session, Operation operation) : session_(session), operation_(operation) {
        if (session.in_use.exchange(true, std::memory_order_acquire)) {
            refuse(operation, "another thread is in a call of this communicator");
        }
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { session_.in_use.store(false, std::memory_order_release); }

    void require_type(DataType type) const {
        if (!is_known(type)) refuse(operation_, "unknown DataType " + std::to_string(static_cast<int>(type)));
    }

    void require_op(ReduceOp op, DataType type) const {
        if (!is_known(op)) refuse(operation_, "unknown ReduceOp " + std::to_string(static_cast<int>(op)));
        if (is_defined(op, type)) return;
        refuse(operation_, std::string(name_of(op)) + " is not defined for " + std::string(name_of(type)));
    }

    void require_buffer(const char* name, const void* data, std::size_t count, DataType type) const {
        if (count == 0) return;
        if (data == nullptr)
            refuse(operation_, std::string(name) + " is null, but count is " + std::to_string(count));
        const std::size_t largest = std::numeric_limits<std::size_t>::max() / 16 / size_of(type);
        if (count > largest / static_cast<std::size_t>(session_.world_size)) {
            refuse(operation_, "a count of " + std::to_string(count) + " is larger than any memory");
        }
        if (reinterpret_cast<std::uintptr_t>(data) % size_of(type) != 0) {
            refuse(operation_, std::string(name) + " is not aligned for " + std::string(name_of(type)));
        }
    }

    // `part`, of `part_count`, may be exactly element `place` of `whole`; no other overlap.
    void require_apart(const void* whole, std::size_t whole_count, const void* part, std::size_t part_count,
                       std::size_t place, DataType type) const {
        const auto whole_at = reinterpret_cast<std::uintptr_t>(whole);
        const auto part_at = reinterpret_cast<std::uintptr_t>(part);
        const std::size_t element = size_of(type);
        if (part_count == 0 || part_at == whole_at + place * element) return;
        if (part_at + part_count * element <= whole_at || whole_at + whole_count * element <= part_at) return;
        refuse(operation_, "input and output overlap, and not as in-place use does");
    }

    void require_rank(const char* name, int rank) const {
        if (rank >= 0 && rank < session_.world_size) return;
        refuse(operation_, std::string(name) + ' ' + std::to_string(rank) +
                               " is not a rank of this communicator (0.." +
                               std::to_string(session_.world_size - 1) + ')');
    }

    void require_peer(int peer) const {
        require_rank("peer", peer);
        if (peer == session_.rank)
            refuse(operation_, "peer " + std::to_string(peer) + " is this rank itself");
    }

  private:
    Communicator::Session& session_;
    Operation operation_;
};

// The input of a reduction as the backend sums it: of premul_sum multiplied, at `place`, or where that is
// null in memory of the session.
const void* prepared(Communicator::Session& session, const Reduction& op, const void* in, void* place,
                     std::size_t count, DataType type) {
    if (op.op != ReduceOp::premul_sum || count == 0) return in;
    if (place == nullptr) {
        const std::size_t bytes = count * size_of(type);
        try {
            if (session.scaled.size() < bytes) session.scaled.resize(bytes);
        } catch (const std::bad_alloc&) {
            // The others have begun: they must not wait for this rank. Its own call throws this then, too.
            session.backend->abort("no memory for " + std::to_string(bytes) + " bytes of premul_sum");
            return in;
        }
        place = session.scaled.data();
    }
    scale(type, place, in, count, op.scalar);
    return place;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::from_env(const CommunicatorOptions& options) {
    return Communicator(open_session_from(current_environment(), options));
}

Communicator Communicator::connect(const std::string& url, int rank, int world_size,
                                   const CommunicatorOptions& options) {
    return Communicator(open_session(
        parse_url(url), Place{rank, world_size, -1, -1, 0, read_transport(current_environment())}, options));
}

Communicator::Session& Communicator::session() const {
    if (session_) return *session_;
    throw CollectiveError(CollectiveErrorCode::invalid_argument, "this communicator has been moved from");
}

int Communicator::rank() const { return session().rank; }
int Communicator::world_size() const { return session().world_size; }
int Communicator::local_rank() const { return session().local_rank; }
int Communicator::local_world_size() const { return session().local_world_size; }

void Communicator::require_equal(const char* operation, std::size_t in, std::size_t out) const {
    if (in == out) return;
    throw CollectiveError(CollectiveErrorCode::invalid_argument,
                          std::string(operation) + ": input of " + std::to_string(in) +
                              " elements, but output of " + std::to_string(out),
                          {}, operation);
}

void Communicator::require_world_multiple(const char* operation, std::size_t whole, std::size_t part) const {
    const auto ranks = static_cast<std::size_t>(world_size());
    if (whole / ranks == part && whole % ranks == 0) return;
    throw CollectiveError(CollectiveErrorCode::invalid_argument,
                          std::string(operation) + ": " + std::to_string(whole) + " elements are not " +
                              std::to_string(ranks) + " ranks times " + std::to_string(part),
                          {}, operation);
}

void Communicator::all_reduce(const void* in, void* out, std::size_t count, DataType type,
                              const Reduction& op) {
    const Guard guard(session(), Operation::all_reduce);
    guard.require_type(type);
    guard.require_op(op.op, type);
    guard.require_buffer("input", in, count, type);
    guard.require_buffer("output", out, count, type);
    guard.require_apart(out, count, in, count, 0, type);
    session().backend->all_reduce(prepared(session(), op, in, out, count, type), out, count, type, op.op);
}

void Communicator::broadcast(void* data, std::size_t count, DataType type, int root) {
    const Guard guard(session(), Operation::broadcast);
    guard.require_type(type);
    guard.require_buffer("data", data, count, type);
    guard.require_rank("root", root);
    session().backend->broadcast(data, count, type, root);
}

void Communicator::all_gather(const void* in, void* out, std::size_t count, DataType type) {
    const Guard guard(session(), Operation::all_gather);
    guard.require_type(type);
    guard.require_buffer("input", in, count, type);
    guard.require_buffer("output", out, count, type);
    const auto place = static_cast<std::size_t>(rank()) * count;
    guard.require_apart(out, count * static_cast<std::size_t>(world_size()), in, count, place, type);
    session().backend->all_gather(in, out, count, type);
}

void Communicator::reduce_scatter(const void* in, void* out, std::size_t count, DataType type,
                                  const Reduction& op) {
    const Guard guard(session(), Operation::reduce_scatter);
    guard.require_type(type);
    guard.require_op(op.op, type);
    guard.require_buffer("input", in, count, type);
    guard.require_buffer("output", out, count, type);
    const auto place = static_cast<std::size_t>(rank()) * count;
    const std::size_t whole = count * static_cast<std::size_t>(world_size());
    guard.require_apart(in, whole, out, count, place, type);
    session().backend->reduce_scatter(prepared(session(), op, in, nullptr, whole, type), out, count, type,
                                      op.op);
}

void Communicator::reduce(const void* in, void* out, std::size_t count, DataType type, const Reduction& op,
                          int root) {
    const Guard guard(session(), Operation::reduce);
    guard.require_type(type);
    guard.require_op(op.op, type);
    guard.require_rank("root", root);
    guard.require_buffer("input", in, count, type);
    const bool is_root = rank() == root;
    if (is_root) {
        guard.require_buffer("output", out, count, type);
        guard.require_apart(out, count, in, count, 0, type);
    }
    const void* input = prepared(session(), op, in, is_root ? out : nullptr, count, type);
    session().backend->reduce(input, out, count, type, op.op, root);
}

void Communicator::gather(const void* in, void* out, std::size_t count, DataType type, int root) {
    const Guard guard(session(), Operation::gather);
    guard.require_type(type);
    guard.require_rank("root", root);
    guard.require_buffer("input", in, count, type);
    if (rank() == root) {
        guard.require_buffer("output", out, count, type);
        const auto place = static_cast<std::size_t>(rank()) * count;
        guard.require_apart(out, count * static_cast<std::size_t>(world_size()), in, count, place, type);
    }
    session().backend->gather(in, out, count, type, root);
}

void Communicator::scatter(const void* in, void* out, std::size_t count, DataType type, int root) {
    const Guard guard(session(), Operation::scatter);
    guard.require_type(type);
    guard.require_rank("root", root);
    guard.require_buffer("output", out, count, type);
    if (rank() == root) {
        guard.require_buffer("input", in, count, type);
        const auto place = static_cast<std::size_t>(rank()) * count;
        guard.require_apart(in, count * static_cast<std::size_t>(world_size()), out, count, place, type);
    }
    session().backend->scatter(in, out, count, type, root);
}

void Communicator::all_to_all(const void* in, void* out, std::size_t count, DataType type) {
    const Guard guard(session(), Operation::all_to_all);
    guard.require_type(type);
    guard.require_buffer("input", in, count, type);
    guard.require_buffer("output", out, count, type);
    const std::size_t whole = count * static_cast<std::size_t>(world_size());
    guard.require_apart(out, whole, in, whole, 0, type);
    session().backend->all_to_all(in, out, count, type);
}

void Communicator::barrier() {
    const Guard guard(session(), Operation::barrier);
    session().backend->barrier();
}

void Communicator::send(const void* data, std::size_t count, DataType type, int peer) {
    const Guard guard(session(), Operation::send);
    guard.require_type(type);
    guard.require_buffer("data", data, count, type);
    guard.require_peer(peer);
    session().backend->send(data, count, type, peer);
}

void Communicator::recv(void* data, std::size_t count, DataType type, int peer) {
    const Guard guard(session(), Operation::recv);
    guard.require_type(type);
    guard.require_buffer("data", data, count, type);
    guard.require_peer(peer);
    session().backend->recv(data, count, type, peer);
}

std::optional<Communicator> Communicator::split(int color, int key) {
    const Guard guard(session(), Operation::split);
    auto made = open_split_session(session(), color, key);
    if (!made) return std::nullopt;
    return Communicator(std::move(made));
}

void Communicator::abort(const std::string& reason) { session().backend->abort(reason); }

}  // namespace ddprun
