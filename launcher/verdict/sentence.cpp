#include "launcher/verdict/sentence.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "launcher/harmless_text.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxPhrases = 3;  // of one sentence
constexpr std::size_t kMaxName = 120;   // bytes of a function or a file

// A number as people read it: "41,201".
std::string grouped(std::uint64_t number) {
    std::string text = fmt::format("{}", number);
    for (auto place = static_cast<std::ptrdiff_t>(text.size()) - 3; place > 0; place -= 3)
        text.insert(static_cast<std::size_t>(place), ",");
    return text;
}

std::string seconds(std::int64_t milliseconds) { return fmt::format("{} s", milliseconds / 1000); }

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
    std::string text;
    for (const std::string& part : parts) text += text.empty() ? part : std::string(between) + part;
    return text;
}

// " in next_batch (data.py:88)"
std::string in_place(const std::string& function, const Frame* place) {
    const std::string name = harmless_line(function, kMaxName);
    const std::string line = place == nullptr ? std::string() : line_text(*place);
    if (name.empty()) return line.empty() ? line : " in " + line;
    return line.empty() ? " in " + name : fmt::format(" in {} ({})", name, line);
}

std::string own_place(const RankState& state) {
    return state.place == nullptr ? std::string() : in_place(state.place->function, state.place);
}

std::string meeting_place(const RankState& state) {
    return state.operation.empty() ? own_place(state) : in_place(state.operation, state.place);
}

std::string call_text(const RankState& state) {
    const auto& call = state.seen->call;
    return call && call->number != 0 ? ", call " + grouped(call->number) : std::string();
}

// Objects that are things stand behind the place; those that go on with the words stay with them.
bool is_thing(WaitKind kind) {
    return kind != WaitKind::lock && kind != WaitKind::child && kind != WaitKind::traced;
}

std::string kernel_text(const RankState& state) {
    Wait wait = *state.seen->wait;
    const bool is_same = wait.kind == state.kind;
    std::string object = is_same ? harmless_line(wait.object) : std::string();
    wait.kind = state.kind;
    wait.object = is_thing(state.kind) ? std::string() : object;
    if (wait.kind == WaitKind::child && object.empty()) wait.object = "a child";
    const std::string words = words_of(wait) + own_place(state);
    return is_thing(state.kind) && !object.empty() ? fmt::format("{}, {}", words, object) : words;
}

// kAnotherRank: as long as it is not said which one. In a ring of ranks each waits for one of its own.
constexpr std::string_view kAnotherRank = "another rank";

// True for a rank that waits for certain others, which the kernel tells, and no call.
bool is_awaiting(const RankState& state) {
    return state.role == Role::meets && state.kind != WaitKind::collective && !state.awaited.empty();
}

struct Phrase {
    std::string doing;
    std::vector<int> ranks;
    std::vector<int> awaited = {};  // by all of them; empty: nothing is awaited, or not the same
    std::vector<std::string> hosts;
    std::int64_t for_ms = 0;  // the longest
};

std::vector<Phrase> phrases_of(const std::vector<RankState>& states, const std::vector<int>& ranks) {
    std::vector<Phrase> phrases;
    for (const RankState& state : states) {
        if (!std::binary_search(ranks.begin(), ranks.end(), state.rank())) continue;
        const std::string doing = doing_text(state);
        auto phrase = std::find_if(phrases.begin(), phrases.end(),
                                   [&](const Phrase& one) { return one.doing == doing; });
        if (phrase == phrases.end())
            phrase =
                phrases.insert(phrases.end(), Phrase{.doing = doing, .ranks = {}, .awaited = state.awaited});
        if (phrase->awaited != state.awaited) phrase->awaited.clear();
        phrase->ranks.push_back(state.rank());
        phrase->hosts.push_back(harmless_line(state.seen->host, kMaxName));
        const bool is_called = state.role == Role::meets && state.seen->call && state.seen->call->for_ms;
        if (is_called) phrase->for_ms = std::max(phrase->for_ms, *state.seen->call->for_ms);
    }
    return phrases;
}

struct VerbRow {
    std::string_view one;
    std::string_view several;
    std::string_view past;
};
constexpr VerbRow kVerbs[] = {
    {"waits", "wait", "waited"}, {"sleeps", "sleep", "slept"}, {"runs", "run", "ran"},   {"is", "are", "was"},
    {"has", "have", "had"},      {"writes", "write", "wrote"}, {"reads", "read", "read"}};

std::string with_verb(const std::string& doing, std::string_view VerbRow::*form) {
    const std::string_view verb = std::string_view(doing).substr(0, doing.find(' '));
    const auto row = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                  [&](const VerbRow& one) { return one.one == verb; });
    return row == std::end(kVerbs) ? doing : std::string(row->*form) + doing.substr(verb.size());
}

std::string for_several(const std::string& doing) { return with_verb(doing, &VerbRow::several); }

std::string subject(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
    const bool is_one_host = !hosts.empty() && !hosts[0].empty() && ranks.size() == 1;
    return is_one_host ? fmt::format("{} ({})", named_ranks(ranks), hosts[0]) : named_ranks(ranks);
}

std::string text_of(const Phrase& phrase) {
    const std::string time = phrase.for_ms >= 1000 ? ", for " + seconds(phrase.for_ms) : std::string();
    std::string doing = phrase.ranks.size() == 1 ? phrase.doing : for_several(phrase.doing);
    const std::size_t another = doing.find(kAnotherRank);
    if (another != std::string::npos && !phrase.awaited.empty())
        doing.replace(another, kAnotherRank.size(), named_ranks(phrase.awaited));
    return fmt::format("{} {}{}", subject(phrase.ranks, phrase.hosts), doing, time);
}

// The first groups of ranks, and how many ranks are in others.
std::vector<std::string> texts_of(const std::vector<RankState>& states, const std::vector<int>& ranks) {
    std::vector<std::string> texts;
    std::size_t more = 0;
    for (const Phrase& phrase : phrases_of(states, ranks)) {
        if (texts.size() < kMaxPhrases)
            texts.push_back(text_of(phrase));
        else
            more += phrase.ranks.size();
    }
    if (more != 0) texts.push_back(fmt::format("{} more ranks do something else", more));
    return texts;
}

const RankState& state_of(const std::vector<RankState>& states, int rank) {
    return *std::find_if(states.begin(), states.end(), [&](auto& state) { return state.rank() == rank; });
}

std::string ring_text(const std::vector<RankState>& states, const std::vector<int>& ranks) {
    constexpr std::size_t kMaxLinks = 4;
    std::vector<std::string> links;
    for (const int rank : ranks) {
        if (links.size() == kMaxLinks) {
            links.emplace_back("...");
            break;
        }
        const RankState& state = state_of(states, rank);
        links.push_back(
            fmt::format("rank {} for {}{}", rank, named_ranks(state.awaited), meeting_place(state)));
    }
    return fmt::format("{} wait for each other: {}", named_ranks(ranks), joined(links, ", "));
}

std::string own_progress(const RankState& state) {
    const OwnProgress& own = state.seen->own;
    if (own.written_per_s == 0 && own.read_per_s == 0) return "has children that compute" + own_place(state);
    const bool writes = own.written_per_s >= own.read_per_s;
    return fmt::format("{} {}/s{}", writes ? "writes" : "reads",
                       size_text(writes ? own.written_per_s : own.read_per_s), own_place(state));
}

std::string awaited_text(const std::vector<RankState>& states, const HangVerdict& found) {
    const RankState& first = state_of(states, found.suspects.front());
    const std::string one = subject({first.rank()}, {harmless_line(first.seen->host, kMaxName)});
    const bool is_one = found.suspects.size() == 1;
    const std::string whom =
        is_one ? one + ", which" : fmt::format("{}, of which {}", named_ranks(found.suspects), one);
    return fmt::format("{} {} for {} {}", named_ranks(found.waiting),
                       found.waiting.size() == 1 ? "waits" : "wait", whom, own_progress(first));
}

// "call 41,201: ranks 0-2; call 41,200: rank 3"; empty where all known calls have one number, or are of
// several groups, each of which counts its own.
std::string numbers_text(const std::vector<RankState>& states) {
    std::map<std::uint64_t, std::vector<int>, std::greater<>> calls;
    std::set<std::string_view> groups;
    for (const RankState& state : states) {
        const auto& call = state.seen->call;
        if (!call || call->number == 0) continue;
        calls[call->number].push_back(state.rank());
        groups.insert(call->group);
    }
    if (calls.size() < 2 || groups.size() > 1) return {};
    std::vector<std::string> parts;
    for (const auto& [number, ranks] : calls) {
        if (parts.size() < kMaxPhrases)
            parts.push_back(fmt::format("call {}: {}", grouped(number), named_ranks(ranks)));
    }
    return joined(parts, "; ");
}

std::string kernel_evidence(const RankState& state) {
    const Observation& seen = *state.seen;
    std::vector<std::string> parts;
    if (seen.wait && !seen.wait->system_call.empty())
        parts.push_back("in the system call " + harmless_line(seen.wait->system_call, kMaxName));
    if (seen.wait && !seen.wait->mount.empty())
        parts.push_back("on " + harmless_line(seen.wait->mount, kMaxName));
    if (seen.is_collecting) parts.emplace_back("collects garbage");
    return parts.empty() ? std::string() : fmt::format("rank {}: {}", state.rank(), joined(parts, ", "));
}

}  // namespace

std::string named_ranks(const std::vector<int>& ranks) {
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", number_set_text(spans_of(ranks)));
}

std::string line_text(const Frame& frame) {
    const std::string name = harmless_line(frame.file.substr(frame.file.rfind('/') + 1), kMaxName);
    return frame.line == 0 || name.empty() ? name : fmt::format("{}:{}", name, frame.line);
}

std::string doing_text(const RankState& state) {
    const Observation& seen = *state.seen;
    if (!state.is_alive()) {
        return seen.exit_code ? fmt::format("has ended with exit code {}", *seen.exit_code) : "has ended";
    }
    if (state.role == Role::unknown) {
        const std::string why =
            seen.why_unreadable.empty() ? "no answer" : harmless_line(seen.why_unreadable);
        return "is not known: " + why;
    }
    const bool is_named = !state.operation.empty();
    if (state.role == Role::meets && is_named) return "waits" + meeting_place(state) + call_text(state);
    if (is_awaiting(state)) return fmt::format("waits for {}{}", kAnotherRank, own_place(state));
    if (state.kind == WaitKind::collective)
        return "waits for other ranks" + own_place(state) + call_text(state);
    return kernel_text(state);
}

std::string past_text(const std::string& doing) { return with_verb(doing, &VerbRow::past); }

std::string sentence_of(const std::vector<RankState>& states, const HangVerdict& found) {
    if (found.kind == VerdictKind::none) return {};
    if (found.kind == VerdictKind::waiting) return awaited_text(states, found);
    const bool is_ring = found.kind == VerdictKind::deadlock;
    auto parts = is_ring ? std::vector{ring_text(states, found.suspects)} : texts_of(states, found.suspects);
    for (const std::string& text : texts_of(states, found.waiting)) parts.push_back(text);
    if (found.suspects.empty() && found.kind == VerdictKind::hang) parts.emplace_back("no rank is missing");
    return joined(parts, "; ");
}

std::vector<std::string> evidence_of(const std::vector<RankState>& states, const HangVerdict& found,
                                     std::chrono::milliseconds quiet) {
    constexpr std::size_t kMaxSuspects = 8;
    std::vector<std::string> evidence;
    const auto say = [&](const std::string& text) {
        if (!text.empty()) evidence.push_back(text);
    };
    if (quiet >= std::chrono::seconds(1)) say("no progress for " + seconds(quiet.count()));
    std::vector<int> rest;
    for (const RankState& state : states) {
        const auto is_in = [&](const std::vector<int>& ranks) {
            return std::binary_search(ranks.begin(), ranks.end(), state.rank());
        };
        if (is_in(found.suspects) && evidence.size() < kMaxSuspects) say(kernel_evidence(state));
        if (!is_in(found.suspects) && !is_in(found.waiting)) rest.push_back(state.rank());
    }
    say(numbers_text(states));
    for (const std::string& text : texts_of(states, rest)) say(text);
    if (found.kind == VerdictKind::hang && found.suspects.empty())
        say("all ranks have come: what is between them does not deliver, or it is none of them");
    return evidence;
}

}  // namespace launch
}  // namespace ddprun
