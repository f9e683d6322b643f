#include "collectives/communicator.hpp"

#include <cstdint>
#include <limits>

#include "collectives/bootstrap.hpp"
#include "collectives/call.hpp"
#include "collectives/session.hpp"

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

    void require_op(ReduceOp op) const {
        if (!is_known(op)) refuse(operation_, "unknown ReduceOp " + std::to_string(static_cast<int>(op)));
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

void Communicator::all_reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
    const Guard guard(session(), Operation::all_reduce);
    guard.require_type(type);
    guard.require_op(op);
    guard.require_buffer("input", in, count, type);
    guard.require_buffer("output", out, count, type);
    guard.require_apart(out, count, in, count, 0, type);
    session().backend->all_reduce(in, out, count, type, op);
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

void Communicator::reduce_scatter(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
    const Guard guard(session(), Operation::reduce_scatter);
    guard.require_type(type);
    guard.require_op(op);
    guard.require_buffer("input", in, count, type);
    guard.require_buffer("output", out, count, type);
    const auto place = static_cast<std::size_t>(rank()) * count;
    guard.require_apart(in, count * static_cast<std::size_t>(world_size()), out, count, place, type);
    session().backend->reduce_scatter(in, out, count, type, op);
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

void Communicator::abort(const std::string& reason) { session().backend->abort(reason); }

}  // namespace ddprun
