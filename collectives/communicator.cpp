#include "collectives/communicator.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "collectives/call/checked_task.hpp"
#include "collectives/call/task.hpp"
#include "collectives/call/work_state.hpp"
#include "collectives/messages/message_work.hpp"
#include "collectives/messages/messenger.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/session/call_guard.hpp"
#include "collectives/session/executor.hpp"
#include "collectives/session/place.hpp"
#include "collectives/session/session.hpp"
#include "collectives/session/split.hpp"
#include "collectives/work.hpp"

namespace ddprun {
namespace {

// This is what a Work is in a forked child, whether it had ended before or not: the thread that would say so
// may have been about to.
std::optional<CollectiveError> refusal(const std::shared_ptr<WorkState>& state) {
    if (!state || !state->is_of_parent()) return std::nullopt;
    return CollectiveError(CollectiveErrorCode::invalid_argument,
                           "this operation was started by another process, which this one was forked from");
}

Place numbered_place(const Environment& environment, const CommunicatorOptions& options, int rank,
                     int world_size) {
    Place place = read_place(environment, options, -1);
    place.rank = rank;
    place.world_size = world_size;
    const auto is_given = [&](const char* name, int number) {
        const std::string* given = find_variable(environment, name);
        return given != nullptr && *given == std::to_string(number);
    };
    place.own_numbers = environment.contains("DDPRUN_RUN_ID") &&
                        !(is_given("RANK", rank) && is_given("WORLD_SIZE", world_size));
    return place;
}

std::string text_of(const Environment& environment, const char* name) {
    const std::string* text = find_variable(environment, name);
    return text == nullptr ? "" : *text;
}

}  // namespace

void Work::wait() const {
    if (!state_) return;
    if (const auto refused = refusal(state_)) throw *refused;
    state_->wait_until(Deadline::max());
    if (const auto error = state_->error()) throw *error;
}

bool Work::wait_for(std::chrono::milliseconds timeout) const {
    if (!state_) return true;
    if (const auto refused = refusal(state_)) throw *refused;
    // Beyond a year the clock could overflow.
    const auto bounded = std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
    if (!state_->wait_until(Deadline::clock::now() + bounded)) return false;
    if (const auto error = state_->error()) throw *error;
    return true;
}

void Work::then(std::function<void(const Status&)> done) const {
    if (!state_) return done(Status());
    if (const auto refused = refusal(state_)) return done(Status(*refused));
    state_->then([state = state_, done = std::move(done)] {
        const auto error = state->error();
        done(error ? Status(*error) : Status());
    });
}

bool Work::test() const { return !state_ || state_->is_of_parent() || state_->ended(); }

std::optional<CollectiveError> Work::error() const {
    if (auto refused = refusal(state_)) return refused;
    if (!test() || !state_) return std::nullopt;
    return state_->error();
}

int Work::source() const {
    return state_ && !state_->is_of_parent() && state_->ended() ? state_->source() : -1;
}

void Communicator::SessionEnd::operator()(Session* session) const noexcept {
    is_of_parent(*session) ? forget(session) : delete session;
}

Communicator::Communicator(std::unique_ptr<Session> session) : session_(session.release()) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::from_env(const CommunicatorOptions& options) {
    return Communicator(open_session_from(current_environment(), options));
}

Communicator Communicator::connect(const std::string& url, int rank, int world_size,
                                   const CommunicatorOptions& options) {
    const Place place = numbered_place(current_environment(), options, rank, world_size);
    return Communicator(open_session(parse_url(url), place, options));
}

Communicator Communicator::join(std::shared_ptr<KeyValueStore> store, int rank, int world_size,
                                const CommunicatorOptions& options) {
    if (!store) refuse("join", "the store is null");
    const Environment environment = current_environment();
    Place place = numbered_place(environment, options, rank, world_size);
    place.node_addr = text_of(environment, "DDPRUN_NODE_ADDR");
    place.host_addr = text_of(environment, "DDPRUN_MASTER_ADDR");
    const StoreMeeting meeting{store_over(std::move(store)), text_of(environment, "MASTER_ADDR")};
    return Communicator(open_session(meeting, place, options));
}

Session& Communicator::session() const {
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
    const CallGuard guard(own, request.operation);
    own.executor->run(checked_task(request, own.rank, own.world_size));
}

Work AsyncOperations::submit(const OperationRequest& request) {
    Session& own = communicator_->session();
    const CallGuard guard(own, request.operation);
    Task task = checked_task(request, own.rank, own.world_size);
    task.stream = stream_;
    return own.executor->start(task);
}

Status AttemptedOperations::submit(const OperationRequest& request) noexcept {
    return Status::of([&] { communicator_->submit(request); });
}

int AttemptedOperations::world_size() const noexcept {
    int size = 1;
    // Its error comes back when the operation is submitted.
    static_cast<void>(Status::of([&] { size = communicator_->world_size(); }));
    return size;
}

Status Communicator::status() const noexcept {
    return Status::of([&] {
        Session& own = session();
        if (is_of_parent(own)) refuse("status", kOfParent);
        const std::lock_guard lock(own.end_mutex);
        if (!own.executor) refuse("status", kFinalized);
        own.status().throw_if_failed();
    });
}

void Communicator::on_end(std::function<void(const Status&)> ended) {
    Session& own = session();
    if (is_of_parent(own)) refuse("on_end", kOfParent);
    own.end_watch->add(std::move(ended));
    const std::lock_guard lock(own.end_mutex);
    if (own.lifeline == nullptr) return;
    own.lifeline->on_end([watch = own.end_watch](const Verdict& verdict) {
        watch->tell(Status(CollectiveError(verdict.code, verdict.text, verdict.culprits)));
    });
}

void Communicator::set_timeout(std::chrono::milliseconds operation_timeout) {
    Session& own = session();
    const CallGuard guard(own, "set_timeout");
    if (operation_timeout.count() < 1 || operation_timeout > kLongestTimeout) {
        refuse("set_timeout",
               fmt::format("a timeout of {} ms is not between 1 ms and 10 years", operation_timeout.count()));
    }
    {
        const std::lock_guard lock(own.end_mutex);
        own.options.operation_timeout = operation_timeout;
    }
    own.executor->set_timeout(operation_timeout);
    if (own.messenger) own.messenger->set_timeout(operation_timeout);
}

int AsyncOperations::world_size() const { return communicator_->world_size(); }

SharedMemory Communicator::allocate(std::size_t count, std::size_t element) {
    Session& own = session();
    const CallGuard guard(own, "allocate");
    if (backend() == BackendChoice::nccl)
        refuse("allocate", "NCCL's buffers are in the device's memory, which the caller allocates");
    const std::size_t ranks = static_cast<std::size_t>(own.world_size);
    if (count > std::numeric_limits<std::size_t>::max() / 16 / element / ranks)
        refuse("allocate", fmt::format("a count of {} is larger than any memory", count));
    return own.executor->backend().allocate(count * element);
}

bool Communicator::owns(const void* data) const {
    return !is_of_parent(session()) && session().executor->backend().owns(data);
}

std::optional<Communicator> Communicator::split(int color, int key) {
    const CallGuard guard(session(), Operation::split);
    auto made = open_split_session(session(), color, key);
    if (!made) return std::nullopt;
    return Communicator(std::move(made));
}

Communicator Communicator::shrink(const std::vector<int>& excluded) {
    const CallGuard guard(session(), "shrink");
    return Communicator(open_shrunk_session(session(), excluded));
}

Communicator Communicator::subgroup(const std::vector<int>& ranks, const std::string& name) {
    return subgroup(ranks, name, session().current_options());
}

Communicator Communicator::subgroup(const std::vector<int>& ranks, const std::string& name,
                                    const CommunicatorOptions& options) {
    const CallGuard guard(session(), "subgroup");
    require_valid(options);
    return Communicator(open_subgroup_session(session(), ranks, name, options));
}

Messenger& Communicator::messenger(const char* name) const {
    Session& own = session();
    if (is_of_parent(own)) refuse(name, kOfParent);
    if (!own.messenger) refuse(name, "NCCL's buffers are in the device's memory; use send and recv");
    return *own.messenger;
}

void Communicator::send_tagged(const void* data, std::size_t bytes, int peer, std::uint64_t tag,
                               std::chrono::milliseconds timeout) {
    messenger("send_tagged").run({true, data, nullptr, bytes, peer, tag, timeout});
}

int Communicator::recv_tagged(void* data, std::size_t bytes, int peer, std::uint64_t tag,
                              std::chrono::milliseconds timeout) {
    int source = -1;
    messenger("recv_tagged").run({false, nullptr, data, bytes, peer, tag, timeout}, &source);
    return source;
}

Work Communicator::start_send_tagged(const void* data, std::size_t bytes, int peer, std::uint64_t tag,
                                     std::chrono::milliseconds timeout) {
    return Work(
        MessageWork::start(messenger("send_tagged"), {true, data, nullptr, bytes, peer, tag, timeout}));
}

Work Communicator::start_recv_tagged(void* data, std::size_t bytes, int peer, std::uint64_t tag,
                                     std::chrono::milliseconds timeout) {
    return Work(
        MessageWork::start(messenger("recv_tagged"), {false, nullptr, data, bytes, peer, tag, timeout}));
}

void Communicator::finalize() { finalize(session().options.leave_timeout); }

void Communicator::finalize(std::chrono::milliseconds timeout) {
    const CallGuard guard(session(), "finalize");
    if (timeout.count() < 0 || timeout > kLongestTimeout)
        refuse("finalize", fmt::format("a deadline of {} ms is not between 0 and 10 years", timeout.count()));
    session().finalize(timeout);
}

void Communicator::abort(const std::string& reason) {
    Session& own = session();
    if (is_of_parent(own)) refuse("abort", kOfParent);
    const std::lock_guard lock(own.end_mutex);
    if (!own.executor) refuse("abort", kFinalized);
    own.executor->abort(reason);
    own.end_watch->tell(own.status());
}

}  // namespace ddprun
