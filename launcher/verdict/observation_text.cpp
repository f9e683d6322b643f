#include "launcher/verdict/observation_text.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "launcher/verdict/look_json.hpp"

namespace ddprun {
inline namespace launch {

struct ObservationList {
    std::vector<Observation> ranks;
};
BOOST_DESCRIBE_STRUCT(ObservationList, (), (ranks))
constexpr std::size_t limit_of(Of<&ObservationList::ranks>) { return kMaxObservations; }

static bool is_sound(const ObservationList& list) {
    std::set<int> ranks;
    return std::all_of(list.ranks.begin(), list.ranks.end(),
                       [&](const Observation& one) { return ranks.insert(one.rank).second; });
}

namespace {

// The least that one frame takes as JSON.
constexpr std::size_t kFrameText = 48;

struct Detail {
    std::size_t threads;
    std::size_t frames;
    bool words;  // of waits
};
constexpr Detail kDetails[] = {
    {kMaxTold, kMaxFrames, true}, {0, kMaxFrames, true}, {0, 16, true}, {0, 0, false}};

template <class T>
void keep_first(std::vector<T>& list, std::size_t count) {
    if (list.size() > count) list.erase(list.begin() + static_cast<std::ptrdiff_t>(count), list.end());
}

Observation with_detail(Observation one, const Detail& detail) {
    keep_first(one.frames, detail.frames);
    keep_first(one.threads, detail.threads);
    for (ThreadObservation& thread : one.threads) keep_first(thread.frames, detail.frames);
    keep_first(one.peers, kMaxPeers);
    if (one.call) keep_first(one.call->awaited, kMaxAwaited);
    if (!detail.words) {
        keep_first(one.peers, kMaxAwaited);
        one.why_unreadable = cut_text(one.why_unreadable, 128);
        if (one.wait) one.wait->object = one.wait->path = one.wait->mount = "";
        if (one.wait) one.wait->own = one.wait->other = std::nullopt;
    }
    return one;
}

std::size_t frames_of(const ObservationList& list) {
    std::size_t frames = 0;
    for (const Observation& one : list.ranks) {
        frames += one.frames.size();
        for (const ThreadObservation& thread : one.threads) frames += thread.frames.size();
    }
    return frames;
}

}  // namespace

Observation within_limits(Observation one) { return with_detail(std::move(one), kDetails[0]); }

std::string to_json(const std::vector<Observation>& observations, std::size_t limit) {
    std::string text;
    for (const Detail& detail : kDetails) {
        ObservationList list;
        for (const Observation& one : observations) list.ranks.push_back(with_detail(one, detail));
        keep_first(list.ranks, kMaxObservations);
        if (frames_of(list) * kFrameText > limit) continue;
        text = boost::json::serialize(json_of<LookRules>(list));
        if (text.size() <= limit) break;
    }
    return text;
}

std::optional<std::vector<Observation>> parse_observations(std::string_view text) {
    if (text.size() > kMaxObservationsText) return std::nullopt;
    const auto object = parse_json_object(text, LookRules::kMaxDepth);
    ObservationList list;
    if (!object || !from_json<LookRules>(*object, list)) return std::nullopt;
    return std::move(list.ranks);
}

}  // namespace launch
}  // namespace ddprun
