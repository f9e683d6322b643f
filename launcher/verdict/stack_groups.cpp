#include "launcher/verdict/stack_groups.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>
#include <utility>

#include "launcher/verdict/look_json.hpp"
#include "launcher/verdict/observation_text.hpp"
#include "launcher/verdict/rank_state.hpp"
#include "launcher/verdict/sentence.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxShownFrames = 12;

// What is told here is bounded already.
struct StackRules : LookRules {
    static constexpr std::size_t kMaxItems = 1'000'000;
    static constexpr std::size_t kMaxText = 4096;
};

struct FailedRank {
    int rank = 0;
    std::string why;
};
BOOST_DESCRIBE_STRUCT(FailedRank, (), (rank, why))

std::string frame_text(const Frame& frame) {
    const std::string name = harmless_line(frame.function, 80);
    const std::string line = frame.native ? std::string() : line_text(frame);
    return fmt::format("{}{}{}", name.empty() ? "?" : name, line.empty() ? "" : " ", line);
}

// "read < next_batch data.py:88 < main train.py:131"
std::string chain_text(const std::vector<Frame>& frames, bool native) {
    const bool has_python =
        std::any_of(frames.begin(), frames.end(), [](auto& frame) { return !frame.native; });
    std::string text;
    std::size_t shown = 0, left = 0;
    for (const Frame& frame : frames) {
        if (frame.native && !native && has_python && &frame != &frames.front()) continue;
        if (shown == kMaxShownFrames && !native) {
            ++left;
            continue;
        }
        text += (shown++ == 0 ? "" : " < ") + frame_text(frame);
    }
    if (left != 0) text += fmt::format(" < {} more", left);
    return text;
}

// Parts of a sentence on lines of their own, below each other.
std::string stacked(const std::string& sentence, std::size_t indent) {
    std::string text;
    for (std::size_t begin = 0; begin < sentence.size();) {
        const auto end = std::min(sentence.find("; ", begin), sentence.size() - 1) + 1;
        text += (text.empty() ? "" : "\n" + std::string(indent, ' ')) + sentence.substr(begin, end - begin);
        begin = end == sentence.size() ? end : end + 1;
    }
    return text;
}

// A job that is looked at once may get on in the next moment: it hangs where it is known since when.
std::string head_text(const StacksTaking& taking, const HangVerdict& verdict) {
    if (verdict.kind == VerdictKind::none) return taking.id + "\n";
    const std::string sentence = stacked(verdict.sentence, taking.id.size() + 2);
    if (verdict.kind == VerdictKind::straggler) return fmt::format("{}  is slow:  {}\n", taking.id, sentence);
    if (!taking.quiet_since_unix_ms) return fmt::format("{}  at this moment:  {}\n", taking.id, sentence);
    const std::int64_t age = std::max<std::int64_t>(taking.taken_unix_ms - *taking.quiet_since_unix_ms, 0);
    return fmt::format("{}  {} since {} s:  {}\n", taking.id,
                       verdict.kind == VerdictKind::waiting ? "waits" : "HANGS", age / 1000, sentence);
}

std::string threads_text(const Observation& one, bool native) {
    std::string text = fmt::format(" rank {}, process {}\n", one.rank, one.pid);
    for (const ThreadObservation& thread : one.threads) {
        const std::string doing = thread.wait ? harmless_line(words_of(*thread.wait)) : "is not known";
        text += fmt::format("  {} {} {}: {}\n", thread.id, harmless_line(thread.name), doing,
                            chain_text(thread.frames, native));
    }
    return text;
}

// The last calls of those ranks of which one is known.
boost::json::array calls_json(const std::vector<Observation>& observations) {
    boost::json::array calls;
    for (const Observation& one : observations) {
        if (!one.call) continue;
        const CollectiveCall& call = *one.call;
        boost::json::object object{{"rank", one.rank},
                                   {"number", call.number},
                                   {"operation", harmless_line(call.operation)},
                                   {"group", harmless_line(call.group)},
                                   {"since_s", nullptr},
                                   {"awaits", boost::json::value_from(call.awaited)}};
        if (call.for_ms) object["since_s"] = static_cast<double>(*call.for_ms) / 1000;
        calls.push_back(std::move(object));
    }
    return calls;
}

}  // namespace

std::vector<StackGroup> stack_groups(const std::vector<Observation>& observations) {
    std::vector<StackGroup> groups;
    for (const RankState& state : rank_states(observations)) {
        const Observation& seen = *state.seen;
        if (state.role == Role::unknown) continue;
        const bool has_object = seen.wait && !seen.wait->object.empty();
        const auto object = has_object ? std::optional(seen.wait->object) : std::nullopt;
        auto group = std::find_if(groups.begin(), groups.end(), [&](const StackGroup& one) {
            return one.kind == state.kind && one.frames == seen.frames && one.source == seen.source;
        });
        if (group == groups.end()) {
            const auto where = state.place == nullptr ? std::nullopt : std::optional<Frame>(*state.place);
            group = groups.insert(groups.end(), {{}, state.kind, object, where, seen.frames, seen.source});
        }
        if (group->object != object) group->object.reset();
        group->ranks.push_back(state.rank());
    }
    std::stable_sort(groups.begin(), groups.end(), [](const StackGroup& one, const StackGroup& other) {
        return one.ranks.size() < other.ranks.size();
    });
    return groups;
}

boost::json::value verdict_json(const HangVerdict& verdict, const StacksTaking& taking) {
    if (verdict.kind == VerdictKind::none) return nullptr;
    auto object = json_of<StackRules>(verdict).as_object();
    object["since_unix_ms"] = nullptr;
    object["age_s"] = nullptr;
    if (taking.quiet_since_unix_ms) {
        object["since_unix_ms"] = *taking.quiet_since_unix_ms;
        object["age_s"] = static_cast<double>(taking.taken_unix_ms - *taking.quiet_since_unix_ms) / 1000;
    }
    return object;
}

boost::json::object stacks_json(const StacksTaking& taking, const std::vector<Observation>& observations,
                                const HangVerdict& verdict) {
    std::vector<FailedRank> failed;
    std::vector<Observation> details;
    for (const Observation& one : observations) {
        if (taking.threads) details.push_back(within_limits(one));
        if (!one.why_unreadable.empty()) failed.push_back({one.rank, one.why_unreadable});
    }
    boost::json::object object{{"schema", 1},
                               {"id", taking.id},
                               {"taken_unix_ms", taking.taken_unix_ms},
                               {"took_ms", taking.took_ms},
                               {"ranks_asked", taking.ranks_asked},
                               {"ranks_answered", observations.size() - failed.size()},
                               {"groups", json_of<StackRules>(stack_groups(observations))},
                               {"calls", calls_json(observations)},
                               {"failed", json_of<StackRules>(failed)},
                               {"verdict", verdict_json(verdict, taking)},
                               {"nccl", nullptr}};
    if (taking.threads) object["ranks_detail"] = json_of<StackRules>(details);
    return object;
}

std::string stacks_text(const StacksTaking& taking, const std::vector<Observation>& observations,
                        const HangVerdict& verdict) {
    std::string text = head_text(taking, verdict);
    for (const std::string& line : verdict.evidence) text += fmt::format(" why: {}\n", line);
    const auto groups = stack_groups(observations);
    std::size_t width = 0;
    for (const StackGroup& group : groups)
        width = std::max(width, number_set_text(spans_of(group.ranks)).size());
    for (const StackGroup& group : groups) {
        const std::string chain = chain_text(group.frames, taking.native);
        text +=
            fmt::format(" {:>5} {:<5}  {:<{}}  {}\n", group.ranks.size(),
                        group.ranks.size() == 1 ? "rank" : "ranks", number_set_text(spans_of(group.ranks)),
                        width, chain.empty() ? fmt::format("({})", name_of(group.kind)) : chain);
    }
    for (const Observation& one : observations) {
        if (!one.why_unreadable.empty())
            text += fmt::format(" rank {} was not read: {}\n", one.rank, harmless_line(one.why_unreadable));
    }
    if (taking.threads) {
        for (const Observation& one : observations) text += threads_text(one, taking.native);
    }
    return text;
}

}  // namespace launch
}  // namespace ddprun
