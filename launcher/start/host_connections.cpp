#include "launcher/start/host_connections.hpp"

#include <signal.h>
#include <sys/socket.h>

#include <algorithm>

#include "launcher/start/remote_shell.hpp"

namespace ddprun {
inline namespace launch {

HostConnections::HostConnections(const boost::asio::any_io_executor& executor, HostEvents events)
    : executor_(executor), events_(std::move(events)) {
    tools_.environment = current_environment();
    tools_.identity = build_identity();
    tools_.file = own_program();
}

void HostConnections::begin(const StartPlan& whole, std::vector<std::vector<StartNode>> branches) {
    for (auto& branch : branches)
        starts_.push_back(std::make_unique<HostConnection>(
            executor_, tools_, plan_of_branch(whole, std::move(branch)), events_));
    for (const auto& start : starts_) start->begin();
}

void HostConnections::send(const DownMessage& message) {
    for (const auto& start : starts_) start->send(message);
}

void HostConnections::send_to(int rank, const DownMessage& message) {
    for (const auto& start : starts_) {
        if (start->node().rank == rank) start->send(message);
    }
}

void HostConnections::hold(bool is_held) {
    if (is_held == is_held_) return;
    is_held_ = is_held;
    for (const auto& start : starts_) start->hold(is_held);
}

void HostConnections::kill() {
    for (const auto& start : starts_) start->kill();
}

bool HostConnections::are_over() const {
    return std::all_of(starts_.begin(), starts_.end(), [](const auto& start) { return start->is_over(); });
}

bool HostConnections::are_settled() const {
    return std::none_of(starts_.begin(), starts_.end(),
                        [](const auto& start) { return start->is_connecting(); });
}

std::vector<std::string> HostConnections::left() const {
    std::vector<std::string> targets;
    for (const auto& start : starts_) {
        if (!start->is_over()) targets.push_back(start->node().target);
    }
    return targets;
}

}  // namespace launch
}  // namespace ddprun
