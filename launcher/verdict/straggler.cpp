#include "launcher/verdict/straggler.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/verdict/rank_state.hpp"
#include "launcher/verdict/sentence.hpp"

namespace ddprun {
inline namespace launch {

void WaitHistory::add(const std::vector<Observation>& observations) {
    std::map<int, Moment> look;
    for (const RankState& state : rank_states(observations)) {
        if (!state.is_alive()) continue;
        const bool waits = state.role == Role::meets || state.role == Role::syncs || state.role == Role::asks;
        const std::uint64_t call = state.seen->call ? state.seen->call->number : 0;
        look[state.rank()] = {waits, call, doing_text(state)};
        hosts_[state.rank()] = harmless_line(state.seen->host);
    }
    const auto same_rank = [](const auto& one, const auto& other) { return one.first == other.first; };
    const bool are_same = !looks_.empty() && std::equal(look.begin(), look.end(), looks_.back().begin(),
                                                        looks_.back().end(), same_rank);
    if (!are_same) looks_.clear();
    looks_.push_back(std::move(look));
    if (looks_.size() > kMostLooks) looks_.pop_front();
}

std::size_t WaitHistory::percent_of(int rank) const {
    const auto waits =
        std::count_if(looks_.begin(), looks_.end(), [&](const auto& look) { return look.at(rank).waits; });
    return static_cast<std::size_t>(waits) * 100 / looks_.size();
}

std::optional<double> WaitHistory::waiting_ratio(int rank) const {
    if (looks_.size() < kLeastLooks || !looks_.back().contains(rank)) return std::nullopt;
    return static_cast<double>(percent_of(rank)) / 100;
}

bool WaitHistory::gets_on(int rank) const {
    const Moment& first = looks_.front().at(rank);
    return std::any_of(looks_.begin(), looks_.end(),
                       [&](const auto& look) { return !(look.at(rank) == first); });
}

std::optional<HangVerdict> WaitHistory::straggler() const {
    if (looks_.size() < kLeastLooks) return std::nullopt;
    HangVerdict verdict;
    std::size_t least = 100, most = 0;
    for (const auto& [rank, moment] : looks_.back()) {
        const std::size_t percent = percent_of(rank);
        if (percent > kWaitsLittle && percent < kWaitsMuch) return std::nullopt;
        if (percent >= kWaitsMuch && !gets_on(rank)) return std::nullopt;
        (percent <= kWaitsLittle ? verdict.suspects : verdict.waiting).push_back(rank);
        if (percent <= kWaitsLittle)
            most = std::max(most, percent);
        else
            least = std::min(least, percent);
    }
    if (verdict.suspects.empty() || verdict.suspects.size() >= verdict.waiting.size()) return std::nullopt;
    const int first = verdict.suspects.front();
    const std::string host = verdict.suspects.size() == 1 && !hosts_.at(first).empty()
                                 ? fmt::format(" ({})", hosts_.at(first))
                                 : std::string();
    verdict.kind = VerdictKind::straggler;
    verdict.sentence = fmt::format("{} wait {} % of their time for {}{}", named_ranks(verdict.waiting), least,
                                   named_ranks(verdict.suspects), host);
    verdict.evidence = {
        fmt::format("{} looks; {} waits {} % at most", looks_.size(), named_ranks(verdict.suspects), most),
        fmt::format("rank {} {}", first, looks_.back().at(first).doing)};
    return verdict;
}

}  // namespace launch
}  // namespace ddprun
