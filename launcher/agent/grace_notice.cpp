#include "launcher/agent/grace_notice.hpp"

#include "launcher/report/end_summary.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
namespace {

// "30", "0.5".
std::string seconds_text(std::chrono::milliseconds time) {
    std::string text = std::to_string(time.count() / 1000);
    if (auto rest = time.count() % 1000; rest != 0) {
        text += "." + std::to_string(rest + 1000).substr(1);
        text.erase(text.find_last_not_of('0') + 1);
    }
    return text;
}

}  // namespace

std::string to_text(const GraceNotice& notice) {
    const auto passed = notice.is_over ? notice.grace : notice.grace / 2;
    const auto left = notice.grace - passed;
    const std::string who = notice.ranks.empty()
                                ? "processes that " + ranks_text(notice.leftover) + " left behind have"
                                : ranks_text(notice.ranks) + (notice.ranks.size() == 1 ? " has" : " have");
    return who + " not ended " + seconds_text(passed) + " s after " + signal_text(notice.signal) +
           (notice.is_over ? ": SIGKILL" : "; SIGKILL in " + seconds_text(left) + " s") + " (--grace " +
           seconds_text(notice.grace) + ")";
}

}  // namespace ddprun
