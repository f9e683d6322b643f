#include "launcher/agent/grace_notice.hpp"

#include <fmt/core.h>

#include "launcher/report/failure_report.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun::inline launch {
namespace {

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

std::string to_text(const StopNotice& notice) {
    const std::string next = !notice.is_interrupt
                                 ? ""
                                 : fmt::format("; Ctrl-C again in a second or later ends {} now",
                                               notice.is_impatience_local ? "this node's part" : "it");
    return fmt::format("stopping {} rank{}{}{}, up to {} s (--grace){}", notice.ranks,
                       notice.ranks == 1 ? "" : "s", notice.is_of_node ? " of this node" : "",
                       notice.signal != 0 ? " by " + signal_text(notice.signal) : "",
                       seconds(notice.grace_period), next);
}

std::string to_text(const GraceNotice& notice) {
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

}  // namespace ddprun::inline launch
