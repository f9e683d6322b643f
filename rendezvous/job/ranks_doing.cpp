#include "rendezvous/job/ranks_doing.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace ddprun {
inline namespace job {
namespace {

using Manner = RanksDoing::Manner;

constexpr std::size_t kMaxShown = 3;  // of those that waited, and of the others

bool is_one(const std::vector<RankRange>& ranks) {
    return ranks.size() == 1 && ranks.front().first == ranks.front().last;
}

std::vector<RankRange> united(std::vector<RankRange> ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const RankRange& a, const RankRange& b) { return a.first < b.first; });
    std::vector<RankRange> whole;
    for (const RankRange& range : ranges) {
        if (whole.empty() || range.first - 1 > whole.back().last)
            whole.push_back(range);
        else
            whole.back().last = std::max(whole.back().last, range.last);
    }
    if (whole.size() > kMaxDoingRanges) whole.resize(kMaxDoingRanges);
    return whole;
}

// "waited in all_reduce" becomes "waited for it in all_reduce".
std::string told(const RanksDoing& one, std::string_view awaited) {
    constexpr std::string_view kWas = "was ", kWaitedIn = "waited in ";
    const std::string_view doing = one.doing;
    const std::string who =
        fmt::format("{} {}", is_one(one.ranks) ? "rank" : "ranks", number_set_text(one.ranks));
    if (!is_one(one.ranks) && doing.starts_with(kWas))
        return fmt::format("{} were {}", who, doing.substr(kWas.size()));
    if (!awaited.empty() && one.manner == Manner::waited && doing.starts_with(kWaitedIn))
        return fmt::format("{} waited for {} in {}", who, awaited, doing.substr(kWaitedIn.size()));
    return fmt::format("{} {}", who, doing);
}

}  // namespace

void add_doings(std::vector<RanksDoing>& all, const std::vector<RanksDoing>& more) {
    for (const RanksDoing& one : more) {
        const auto same = std::find_if(all.begin(), all.end(), [&](const RanksDoing& other) {
            return other.manner == one.manner && other.doing == one.doing;
        });
        if (same != all.end()) {
            same->ranks.insert(same->ranks.end(), one.ranks.begin(), one.ranks.end());
            same->ranks = united(std::move(same->ranks));
            continue;
        }
        all.insert(
            std::upper_bound(all.begin(), all.end(), one,
                             [](const RanksDoing& a, const RanksDoing& b) { return a.manner < b.manner; }),
            one);
        if (all.size() > kMaxDoings) all.pop_back();
    }
}

std::vector<RanksDoing> worth_telling(std::vector<RanksDoing> all) {
    const bool is_quiet = std::all_of(all.begin(), all.end(),
                                      [](const RanksDoing& one) { return one.manner == Manner::other; });
    return is_quiet ? std::vector<RanksDoing>() : std::move(all);
}

std::string doings_text(const std::vector<RanksDoing>& all, int gave_up) {
    std::vector<RanksDoing> others, waiting;
    for (const RanksDoing& one : all) (one.manner == Manner::waited ? waiting : others).push_back(one);
    const bool is_awaited = gave_up >= 0 && !others.empty();
    const bool is_it = others.size() == 1 && is_one(others.front().ranks);
    std::vector<std::string> parts;
    for (const auto* some : {&others, &waiting}) {
        std::vector<RankRange> rest;
        for (std::size_t i = 0; i < some->size(); ++i) {
            const RanksDoing& one = (*some)[i];
            if (i < kMaxShown)
                parts.push_back(told(one, !is_awaited ? "" : is_it ? "it" : "them"));
            else
                rest.insert(rest.end(), one.ranks.begin(), one.ranks.end());
        }
        if (!rest.empty()) parts.push_back(told({united(rest), Manner::other, "did something else"}, {}));
    }
    if (is_awaited) parts.push_back(fmt::format("rank {} gave up first", gave_up));
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
    return text;
}

}  // namespace job
}  // namespace ddprun
