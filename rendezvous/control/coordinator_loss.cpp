#include "rendezvous/control/coordinator_loss.hpp"

#include <fmt/core.h>

#include "rendezvous/control/control_text.hpp"

namespace ddprun::inline job {
namespace {

// Says how long an agent has stood still.
std::string standstill_text(const HeartbeatLease& lease) {
    const auto stood = std::chrono::duration_cast<std::chrono::seconds>(*lease.stood());
    return fmt::format("it stood still for about {} s (stopped, or its machine was frozen)", stood.count());
}

}  // namespace

CoordinatorLoss stranger_loss(const Endpoint& called) {
    return {CoordinatorLoss::Kind::stranger,
            fmt::format("what listens at {} ended the connection without an answer", to_string(called))};
}

CoordinatorLoss unanswered_loss(const Endpoint& called) {
    return {CoordinatorLoss::Kind::broken,
            fmt::format("what listens at {} does not answer", to_string(called))};
}

CoordinatorLoss lease_loss(const HeartbeatLease& lease) {
    const HeartbeatTerms& terms = lease.terms();
    // An agent that stood still for less than the limit was not given up for that: it is the other side that is silent.
    if (!lease.stood() || *lease.stood() < terms.limit)
        return {CoordinatorLoss::Kind::silent, silence_text(terms.limit)};
    return {
        CoordinatorLoss::Kind::given_up,
        fmt::format("{}, and nobody has said since that the job goes on with it", standstill_text(lease))};
}

CoordinatorLoss given_up_loss(const std::optional<HeartbeatLease>& lease, const std::string& reason) {
    if (!lease || !lease->stood()) return {CoordinatorLoss::Kind::given_up, reason};
    return {CoordinatorLoss::Kind::given_up,
            fmt::format("{}, and the others have given it up: {}", standstill_text(*lease), reason)};
}

}  // namespace ddprun::inline job
