#include "launcher/join_status.hpp"

#include "rendezvous/coordinator.hpp"

namespace ddprun {

std::string JoinStatus::trouble(const std::string& cause, TimePoint now) {
    std::string line = "waiting for node 0: " + cause;
    if (now < speaks_from_ || line == last_line_) return {};
    return last_line_ = line;
}

std::string JoinStatus::waiting(const Waiting& status) {
    std::string line = to_text(status);
    if (line == last_line_) return {};
    return last_line_ = line;
}

}  // namespace ddprun
