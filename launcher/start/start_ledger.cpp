#include "launcher/start/start_ledger.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/job/exit_code.hpp"

namespace ddprun::inline launch {

bool StartLedger::is_gone(int rank) const {
    return nodes_.at(static_cast<std::size_t>(rank)) != Node::awaited;
}

int StartLedger::gone() const {
    return static_cast<int>(
        nodes_.size() - static_cast<std::size_t>(std::count(nodes_.begin(), nodes_.end(), Node::awaited)));
}

std::optional<std::string> StartLedger::learn(const HostFailed& failed) {
    int news = 0;
    for (const int rank : failed.ranks) {
        if (rank < 0 || rank >= terms_.nodes || is_gone(rank)) continue;
        nodes_[static_cast<std::size_t>(rank)] = Node::failed;
        ++news;
    }
    if (news == 0) return std::nullopt;
    std::string line = failed.text;
    if (!begun_) unstarted_ += news;
    if (begun_) line += "; what its agent says is not shown any more";
    if (news > 1) line += fmt::format(", nor that of {} hosts behind it", news - 1);
    return line;
}

void StartLedger::learn(const AgentRuns&) { begun_ = true; }

void StartLedger::learn(const AgentEnded& ended) {
    if (ended.rank < 0 || ended.rank >= terms_.nodes) return;
    nodes_[static_cast<std::size_t>(ended.rank)] = Node::ended;
    last_code_ = ended.code;
    if (ended.rank == 0 && !(ended.by_signal && terms_.may_outlive_0)) code_of_0_ = ended.code;
    if (!begun_ && !first_code_) first_code_ = ended.code;
}

bool StartLedger::is_hopeless() const {
    return !begun_ && (is_gone(0) || terms_.nodes - gone() < terms_.least);
}

int StartLedger::exit_code() const {
    if (!begun_ && unstarted_ > 0 && terms_.nodes - unstarted_ < terms_.least) return kExitSystem;
    if (!begun_ && first_code_) return *first_code_;
    if (code_of_0_) return *code_of_0_;
    return last_code_.value_or(kExitSystem);
}

std::optional<std::string> StartLedger::why_not_begun() const {
    if (begun_ || unstarted_ == 0 || terms_.nodes - unstarted_ >= terms_.least) return std::nullopt;
    return fmt::format("{} of {} hosts could not be started, so the job is not run", unstarted_,
                       terms_.nodes);
}

}  // namespace ddprun::inline launch
