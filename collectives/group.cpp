#include "collectives/group.hpp"

#include <fmt/core.h>

#include <utility>

#include "collectives/call/checked_task.hpp"
#include "collectives/call/task.hpp"
#include "collectives/session/call_guard.hpp"
#include "collectives/session/session.hpp"

namespace ddprun {

Group::Group(Communicator& communicator) noexcept : communicator_(&communicator) {}
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;
Group::~Group() = default;

void Group::send(const void* data, std::size_t count, DataType type, int peer) {
    add({Operation::send, data, nullptr, count, type, ReduceOp::sum, peer});
}

void Group::recv(void* data, std::size_t count, DataType type, int peer) {
    add({Operation::recv, nullptr, data, count, type, ReduceOp::sum, peer});
}

void Group::add(const OperationRequest& request) {
    if (size() == kMaxGroupTransfers)
        refuse(Operation::group, fmt::format("more than {} transfers", +kMaxGroupTransfers));
    Task task = checked_task(request, communicator_->rank(), communicator_->world_size());
    if (!transfers_) transfers_ = std::make_shared<std::vector<Task>>();
    transfers_->push_back(std::move(task));
}

std::size_t Group::size() const noexcept { return transfers_ ? transfers_->size() : 0; }

Task Group::take() { return checked_group(std::exchange(transfers_, nullptr)); }

void Group::run() {
    const Task task = take();
    Session& session = communicator_->session();
    const CallGuard guard(session, Operation::group);
    if (task.members) session.executor->run(task);
}

Work Group::start(void* stream) {
    Task task = take();
    task.stream = stream;
    Session& session = communicator_->session();
    const CallGuard guard(session, Operation::group);
    return task.members ? session.executor->start(task) : Work();
}

Status Group::attempt() noexcept {
    return Status::of([&] { run(); });
}

}  // namespace ddprun
