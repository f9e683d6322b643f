#include "apps/ddprun/node_programs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/cli/option_values.hpp"
#include "rendezvous/job/number_limits.hpp"

namespace ddprun::inline app {
namespace {

constexpr std::string_view kSeparator = ":";
constexpr std::string_view kWorkers = "--nproc-per-node";
constexpr std::string_view kProgramFollows = "--";

using Word = std::vector<std::string>::iterator;

// The name with dashes, and what stands behind "=".
std::pair<std::string, std::optional<std::string>> taken_apart(const std::string& word) {
    const auto equals = word.find('=');
    std::string name = word.substr(0, equals);
    std::replace(name.begin(), name.end(), '_', '-');
    if (equals == std::string::npos) return {std::move(name), std::nullopt};
    return {std::move(name), word.substr(equals + 1)};
}

Word find_separator(Word from, Word end) {
    for (; from != end; ++from) {
        const Word next = std::next(from);
        if (*from == kSeparator && next != end && taken_apart(*next).first == kWorkers) return from;
    }
    return end;
}

int workers_of(const std::string& text) {
    if (text.empty()) return 1;  // Of a shell's variable that is not set: not given.
    try {
        return number(1, kMaxWorkersPerNode)(text);
    } catch (const BadValue& bad) {
        throw UsageError(fmt::format(": {} {}: {}", kWorkers, text, bad.what()));
    }
}

}  // namespace

std::vector<NodeProgram> take_further_programs(std::vector<std::string>& program) {
    std::vector<NodeProgram> further;
    const Word first = find_separator(program.begin(), program.end());
    if (first == program.begin() && first != program.end())
        throw UsageError(fmt::format("no program in front of \": {}\"", kWorkers));
    for (Word at = first; at != program.end();) {
        const Word end = find_separator(std::next(at), program.end());
        auto value = taken_apart(*++at).second;
        ++at;
        if (!value && at != end) value = *at++;
        if (!value) throw UsageError(fmt::format(": {}: needs a value", kWorkers));
        const std::string number = fmt::format(": {}{}{}", kWorkers, value->empty() ? "" : " ", *value);
        const bool is_ended = at != end && *at == kProgramFollows;
        if (is_ended) ++at;
        if (at == end) throw UsageError(number + ": no program follows");
        if (!is_ended && at->starts_with('-'))
            throw UsageError(
                fmt::format("{}: {} stands where its program should; no other option may", number, *at));
        std::vector<std::string> words(at, end);
        if (!is_ended && words.size() > 1 && words[1] == kProgramFollows) words.erase(words.begin() + 1);
        further.push_back({workers_of(*value), std::move(words)});
        at = end;
    }
    program.erase(first, program.end());
    return further;
}

}  // namespace ddprun::inline app
