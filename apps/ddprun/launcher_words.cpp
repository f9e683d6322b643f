#include "apps/ddprun/launcher_words.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "apps/cli/option_values.hpp"

namespace ddprun {
namespace {

constexpr std::string_view kEndOfOptions = "--";

[[noreturn]] void refuse_unknown(const std::string& flag, const std::vector<const CLI::Option*>& options) {
    std::vector<std::string> names;
    for (const CLI::Option* option : options) {
        if (option->get_group().empty()) continue;
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    throw UsageError(
        fmt::format("{}: no such flag{}", flag, did_you_mean(flag, names, "; see ddprun --help")));
}

// A word that begins like an option: its name with dashes, and where that ends in the word.
struct OptionWord {
    std::string name;
    std::size_t end = 0;
    bool is_long = false;
};

std::optional<OptionWord> as_option(const std::string& word) {
    if (word.size() < 2 || word.front() != '-') return std::nullopt;
    OptionWord option;
    option.is_long = word[1] == '-';
    option.end = option.is_long ? std::min(word.find('='), word.size()) : 2;
    option.name = word.substr(0, option.end);
    std::replace(option.name.begin() + 2, option.name.end(), '_', '-');
    return option;
}

const CLI::Option* find_option(const std::vector<const CLI::Option*>& options, const std::string& name) {
    auto match = std::find_if(options.begin(), options.end(),
                              [&](const CLI::Option* option) { return option->check_name(name); });
    return match == options.end() ? nullptr : *match;
}

// The value that stands in a word of its own. An option there is not it: an unset shell variable has left the
// value out.
std::string separate_value(const std::vector<const CLI::Option*>& options, const std::string& name,
                           const std::vector<std::string>& words, std::size_t at) {
    if (at == words.size()) throw UsageError(name + ": needs a value");
    const auto option = as_option(words[at]);
    if (words[at] == kEndOfOptions || (option && find_option(options, option->name) != nullptr)) {
        throw UsageError(
            fmt::format("{0}: needs a value, but {1} follows; write {0}{2}VALUE for one that begins so", name,
                        words[at], name.starts_with("--") ? "=" : ""));
    }
    return words[at];
}

}  // namespace

std::vector<std::string> take_launcher_words(const CLI::App& app, const std::vector<std::string>& words,
                                             std::vector<std::string>& program) {
    const std::vector<const CLI::Option*> options = app.get_options();
    std::vector<std::string> launcher;
    std::size_t i = 0;
    for (; i < words.size() && words[i] != kEndOfOptions; ++i) {
        const auto word = as_option(words[i]);
        if (!word) break;
        const CLI::Option* option = find_option(options, word->name);
        if (option == nullptr) refuse_unknown(word->name, options);
        // One whose value is optional takes it only behind an "=".
        if (option->get_items_expected_min() == 0) {
            launcher.push_back(word->name + words[i].substr(word->end));
            continue;
        }
        const bool is_joined = word->end < words[i].size();
        const std::string value = is_joined ? words[i].substr(word->end + (word->is_long ? 1 : 0))
                                            : separate_value(options, word->name, words, ++i);
        // CLI11 would take the next word for an empty one. And "--name=value" keeps a value that begins with
        // a dash from being read as an option.
        if (!value.empty()) launcher.push_back(word->name + (word->is_long ? "=" : "") + value);
    }
    // argparse swallows one in all, and launch lines are written for that.
    const bool swallowed = i < words.size() && words[i] == kEndOfOptions;
    program.assign(words.begin() + static_cast<std::ptrdiff_t>(i + (swallowed ? 1 : 0)), words.end());
    if (!swallowed && program.size() > 1 && program[1] == kEndOfOptions) program.erase(program.begin() + 1);
    return launcher;
}

}  // namespace ddprun
