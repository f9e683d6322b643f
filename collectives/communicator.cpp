#include "collectives/communicator.hpp"

#include <limits>

#include "collectives/bootstrap.hpp"
#include "collectives/checked_task.hpp"
#include "collectives/session.hpp"
#include "collectives/split.hpp"

namespace ddprun {
namespace {

// Keeps a second thread out while a call runs.
class Guard {
  public:
    Guard(Communicator::Session& session, Operation operation) : session_(session) {
        if (session.in_use.exchange(true, std::memory_order_acquire)) {
            refuse(operation, "another thread is in a call of this communicator");
        }
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { session_.in_use.store(false, std::memory_order_release); }

  private:
    Communicator::Session& session_;
};

}  // namespace

void require_equal(const char* operation, std::size_t in, std::size_t out) {
    if (in == out) return;
    throw CollectiveError(CollectiveErrorCode::invalid_argument,
                          std::string(operation) + ": input of " + std::to_string(in) +
                              " elements, but output of " + std::to_string(out),
                          {}, operation);
}

void require_world_multiple(const char* operation, int world_size, std::size_t whole, std::size_t part) {
    const auto ranks = static_cast<std::size_t>(world_size);
    if (whole / ranks == part && whole % ranks == 0) return;
    throw CollectiveError(CollectiveErrorCode::invalid_argument,
                          std::string(operation) + ": " + std::to_string(whole) + " elements are not " +
                              std::to_string(ranks) + " ranks times " + std::to_string(part),
                          {}, operation);
}

Communicator::Communicator(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::from_env(const CommunicatorOptions& options) {
    return Communicator(open_session_from(current_environment(), options));
}

Communicator Communicator::connect(const std::string& url, int rank, int world_size,
                                   const CommunicatorOptions& options) {
    const Environment environment = current_environment();
    const Place place{rank,
                      world_size,
                      -1,
                      -1,
                      0,
                      read_transport(environment),
                      read_host_settings(environment),
                      read_nccl_settings(environment, options, -1),
                      read_life_seat(environment)};
    return Communicator(open_session(parse_url(url), place, options));
}

Communicator::Session& Communicator::session() const {
    if (session_) return *session_;
    throw CollectiveError(CollectiveErrorCode::invalid_argument, "this communicator has been moved from");
}

int Communicator::rank() const { return session().rank; }
int Communicator::world_size() const { return session().world_size; }
int Communicator::local_rank() const { return session().local_rank; }
int Communicator::local_world_size() const { return session().local_world_size; }
BackendChoice Communicator::backend() const {
    return session().nccl ? BackendChoice::nccl : BackendChoice::cpu;
}
int Communicator::device() const { return session().nccl ? session().nccl->device : -1; }
const CommunicatorOptions& Communicator::options() const { return session().options; }

void Communicator::submit(const OperationRequest& request) {
    Session& own = session();
    const Guard guard(own, request.operation);
    own.executor->run(checked_task(request, own.rank, own.world_size));
}

Work AsyncOperations::submit(const OperationRequest& request) {
    Communicator::Session& own = communicator_->session();
    const Guard guard(own, request.operation);
    Task task = checked_task(request, own.rank, own.world_size);
    if (stream_ != nullptr && !own.executor->on_device()) {
        refuse(request.operation, "a stream was given, but this communicator's backend is not nccl");
    }
    task.stream = stream_;
    return own.executor->start(task);
}

int AsyncOperations::rank() const { return communicator_->rank(); }
int AsyncOperations::world_size() const { return communicator_->world_size(); }

SharedMemory Communicator::allocate(std::size_t count, std::size_t element) {
    Session& own = session();
    const Guard guard(own, Operation::allocate);
    const std::size_t ranks = static_cast<std::size_t>(own.world_size);
    if (count > std::numeric_limits<std::size_t>::max() / 16 / element / ranks)
        refuse(Operation::allocate, "a count of " + std::to_string(count) + " is larger than any memory");
    return own.executor->allocate(count * element);
}

std::optional<Communicator> Communicator::split(int color, int key) {
    const Guard guard(session(), Operation::split);
    auto made = open_split_session(session(), color, key);
    if (!made) return std::nullopt;
    return Communicator(std::move(made));
}

void Communicator::abort(const std::string& reason) { session().executor->abort(reason); }

}  // namespace ddprun
