#include "launcher/agent/grace_notice.hpp"

#include <fmt/core.h>

#include "launcher/report/end_summary.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {

std::string to_text(const GraceNotice& notice) {
    const auto seconds = [](std::chrono::milliseconds time) {
        return static_cast<double>(time.count()) / 1000;
    };
    const auto passed = notice.is_over ? notice.grace_period : notice.grace_period / 2;
    const std::string who =
        notice.ranks.empty()
            ? fmt::format("processes that {} left behind have", ranks_text(notice.leftover))
            : fmt::format("{} {}", ranks_text(notice.ranks), notice.ranks.size() == 1 ? "has" : "have");
    const std::string next = notice.is_over
                                 ? ": SIGKILL"
                                 : fmt::format("; SIGKILL in {} s", seconds(notice.grace_period - passed));
    return fmt::format("{} not ended {} s after {}{} (--grace {})", who, seconds(passed),
                       signal_text(notice.signal), next, seconds(notice.grace_period));
}

}  // namespace ddprun
