#include "launcher/join/join_reporter.hpp"

#include <variant>

#include "rendezvous/control/control_text.hpp"

namespace ddprun {
inline namespace launch {

void JoinReporter::hear(const ControlMessage& message) {
    taken_.reset();
    if (const auto* status = std::get_if<Waiting>(&message)) {
        const TimePoint now = TimePoint::clock::now();
        if (std::exchange(ended_, false)) status_.begin_again(now);
        say(status_.waiting(*status, now));
        update();
    } else if (const auto* parked = std::get_if<Parked>(&message)) {
        log_.info(status_.parked(*parked));
        if (updates_) log_.update({});
    } else if (const auto* other = std::get_if<PeerRefused>(&message)) {
        log_.info(status_.refused(*other));
        update();
    } else if (const auto* differ = std::get_if<NodesDiffer>(&message)) {
        for (const std::string& difference : differ->differences) log_.warn(harmless_line(difference));
    } else if (const auto* stop = std::get_if<Stop>(&message)) {
        tell_loss(stop->cause);
    } else if (const auto* remark = std::get_if<Remark>(&message)) {
        log_.info(harmless_line(remark->text));
    }
}

void JoinReporter::tell_loss(const Failure& cause) {
    if (cause.kind == Failure::Kind::node_lost) log_.warn(harmless_line(loss_text(cause)));
}

}  // namespace launch
}  // namespace ddprun
