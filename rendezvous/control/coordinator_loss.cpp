#include "rendezvous/control/coordinator_loss.hpp"

#include <fmt/core.h>

#include "rendezvous/control/control_text.hpp"

namespace ddprun {

CoordinatorLoss stranger_loss(const Endpoint& called) {
    return {CoordinatorLoss::Kind::stranger,
            fmt::format("what listens at {} ended the connection without an answer", to_string(called))};
}

CoordinatorLoss unanswered_loss(const Endpoint& called) {
    return {CoordinatorLoss::Kind::broken,
            fmt::format("what listens at {} does not answer", to_string(called))};
}

CoordinatorLoss lease_loss(const HeartbeatLease& lease, std::chrono::steady_clock::time_point now) {
    const HeartbeatTerms& terms = lease.terms();
    const auto late = now - lease.end();
    if (late < terms.margin()) return {CoordinatorLoss::Kind::silent, silence_text(terms.limit)};
    const auto stood =
        std::chrono::duration_cast<std::chrono::seconds>(late + terms.patience() - terms.margin());
    return {CoordinatorLoss::Kind::given_up,
            fmt::format("it stood still for about {} s (stopped, or its machine was frozen)", stood.count())};
}

}  // namespace ddprun
