#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/options/launcher_words.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::string_view kHelp = "--help";
constexpr std::string_view kEndOfOptions = "--";
// These options of torchrun's are no rows here.
constexpr std::array<std::string_view, 2> kTorchrunsOwn{"--help", "--print-completion"};

// An OptionWord is a word that begins like an option: its name with dashes, and where that ends in the word.
struct OptionWord {
    std::string typed;
    std::string name;
    std::size_t end = 0;
    bool is_long = false;
};

std::optional<OptionWord> as_option(const std::string& word) {
    if (word.size() < 2 || word.front() != '-') return std::nullopt;
    OptionWord option;
    option.is_long = word[1] == '-';
    option.end = option.is_long ? std::min(word.find('='), word.size()) : 2;
    option.typed = option.name = word.substr(0, option.end);
    std::replace(option.name.begin() + 2, option.name.end(), '_', '-');
    return option;
}

// Returns the names as OptionRow has them; CLI11's get_name() has none of hidden options.
std::string names_of(const CLI::Option& option) {
    std::string names;
    for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ",--") + name;
    for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ",-") + name;
    return names;
}

// A KnownOption is one of CLI11's, or a row, which CLI11 is told of only once it was typed.
struct KnownOption {
    std::string_view names;  // as OptionRow has them
    bool needs_value = false;
    bool is_torchruns = false;

    bool is_called(std::string_view name) const {
        const auto all = split_at(names, ',');
        return std::find(all.begin(), all.end(), name) != all.end();
    }
    bool has_name_beginning(std::string_view begin) const {
        const auto all = split_at(names, ',');
        return std::any_of(all.begin(), all.end(), [&](auto name) { return name.starts_with(begin); });
    }
};

// KnownOptions are those that the command line may name.
class KnownOptions {
  public:
    KnownOptions(const CLI::App& app, const std::vector<OptionGroup>& groups) {
        for (const CLI::Option* option : app.get_options()) {
            const std::string& names = names_.emplace_back(names_of(*option));
            const bool is_torchruns =
                std::count(kTorchrunsOwn.begin(), kTorchrunsOwn.end(), long_name(names)) > 0;
            auto& options = option->get_group().empty() ? hidden_ : options_;
            options.push_back({names, option->get_items_expected_min() > 0, is_torchruns});
        }
        for (const OptionGroup& group : groups) {
            for (const OptionRow& row : group.rows)
                options_.push_back({row.names, !row.metavar.empty() && !row.metavar.starts_with('['),
                                    row.has(kTorchruns | kLikeTorchruns)});
        }
    }

    // Returns null for a word that is no option.
    const KnownOption* find(const OptionWord& word) const {
        if (const KnownOption* option = find_named(word.name)) return option;
        const auto begins = abbreviated(word);
        if (begins.size() < 2) return begins.empty() ? nullptr : begins.front();
        std::vector<std::string> names;
        for (const KnownOption* option : begins) names.push_back(long_name(option->names));
        throw UsageError(fmt::format("{}: ambiguous, it may be {}", word.typed, alternatives(names)));
    }

    // Returns the option with exactly this name.
    const KnownOption* find_named(std::string_view name) const {
        for (const auto* options : {&options_, &hidden_}) {
            for (const KnownOption& option : *options) {
                if (option.is_called(name)) return &option;
            }
        }
        return nullptr;
    }

    // Says whether a word means an option, or may mean several.
    bool is_option(const std::string& word) const {
        const auto option = as_option(word);
        return option && (find_named(option->name) != nullptr || !abbreviated(*option).empty());
    }

    std::vector<std::string> shown_names() const {
        std::vector<std::string> names;
        for (const KnownOption& option : options_) {
            for (const std::string_view name : split_at(option.names, ',')) {
                if (name.starts_with("--")) names.emplace_back(name);
            }
        }
        return names;
    }

  private:
    // torchrun's options that begin so, or else ours.
    std::vector<const KnownOption*> abbreviated(const OptionWord& word) const {
        std::vector<const KnownOption*> torchruns, ours;
        if (!word.is_long || word.name == kEndOfOptions) return ours;
        for (const KnownOption& option : options_) {
            if (option.has_name_beginning(word.name))
                (option.is_torchruns ? torchruns : ours).push_back(&option);
        }
        return torchruns.empty() ? ours : torchruns;
    }

    std::deque<std::string> names_;  // of those that are no rows
    std::vector<KnownOption> options_;
    std::vector<KnownOption> hidden_;  // which nobody is told of
};

class WordReader {
  public:
    WordReader(const KnownOptions& known, const std::vector<std::string>& words, bool by_torchruns_name)
        : known_(known), words_(words), by_torchruns_name_(by_torchruns_name) {}

    LauncherWords read() {
        for (; at_ < words_.size() && words_[at_] != kEndOfOptions; ++at_) {
            if (!take(words_[at_])) break;
        }
        take_program();
        return std::move(taken_);
    }

  private:
    // False for a word that is no option.
    bool take(const std::string& word) {
        const auto begin = as_option(word);
        if (!begin) return false;
        refuse_signs(word);
        taken_.valueless.clear();
        if (!begin->is_long || known_.find_named(begin->name) == nullptr) refuse_other(word, *begin);
        const KnownOption* option = known_.find(*begin);
        if (option == nullptr)
            throw UsageError(fmt::format("{}: no such flag{}", begin->typed,
                                         did_you_mean(begin->name, known_.shown_names(), place_of_others())));
        // A short option is printed by its long name, too.
        const std::string whole = long_name(option->names);
        const std::string name = begin->is_long ? whole : begin->name;
        taken_.typed[whole] = begin->typed;
        const std::string rest = word.substr(begin->end);
        if (whole == kHelp) return take_help(rest, !begin->is_long);
        // An option whose value is optional takes it only behind an "=".
        if (!option->needs_value) {
            const bool is_joined = !begin->is_long && !rest.empty();
            taken_.options.push_back(is_joined ? name : name + rest);
            return !is_joined || take_joined(word, begin->typed, rest);
        }
        const std::string value =
            rest.empty() ? separate_value(begin->typed) : rest.substr(rest.front() == '=' ? 1 : 0);
        if (value.empty() && !rest.empty()) taken_.valueless = begin->typed;
        // CLI11 would take the next word for an empty one. And "--name=value" keeps a value that begins with
        // a dash from being read as an option.
        if (!value.empty()) taken_.options.push_back(name + (begin->is_long ? "=" : "") + value);
        return true;
    }

    // Throws where the word is no option here, but is one elsewhere or nearly one.
    void refuse_other(const std::string& word, const OptionWord& begin) const {
        const std::string longer = "-" + word;
        const bool is_long_name = !begin.is_long && word.size() > 2;
        const bool is_exact = is_long_name && known_.find_named(as_option(longer)->name) != nullptr;
        const bool keeps = by_torchruns_name_ && known_.find(begin) != nullptr;
        if (!is_exact && !keeps) refuse_habit(word, at_ + 1 < words_.size() ? words_[at_ + 1] : "");
        const bool is_begun =
            is_long_name && known_.find_named(begin.name) == nullptr && known_.is_option(longer);
        if (is_exact || is_begun) throw UsageError(fmt::format("{}: has two dashes here: {}", word, longer));
    }

    // Says where a flag belongs that may be the program's.
    std::string place_of_others() const {
        // Directly behind the flag its value may stand.
        const auto is_program = [this](const std::string& word) {
            const bool is_next = &word == words_.data() + at_ + 1;
            return word.ends_with(".py") || word.starts_with("./") || (word.starts_with('/') && !is_next);
        };
        const auto program =
            std::find_if(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end(), is_program);
        if (program == words_.end()) return "; see ddprun --help";
        return fmt::format("; if it is for {0}, write it behind {0}", *program);
    }

    // The topic of help stands behind "=", or is the last of all words. Further words are a program's, as in
    // a line to which --help was added.
    bool take_help(const std::string& rest, bool is_short) {
        taken_.options.emplace_back(kHelp);
        if (rest.starts_with('=')) taken_.topic = rest.substr(1);
        if (rest.empty() && at_ + 2 == words_.size()) taken_.topic = words_[++at_];
        taken_.asks_short_help = is_short && taken_.topic.empty();
        return true;
    }

    // Further short options in the same word, and nothing else.
    bool take_joined(const std::string& word, const std::string& typed, const std::string& rest) {
        if (!known_.is_option("-" + rest))
            throw UsageError(
                fmt::format("{}: {} takes no value; write {} as a word of its own", word, typed, typed));
        return take("-" + rest);
    }

    // The value that stands in a word of its own. An option there is not it: an unset shell variable has left
    // the value out.
    std::string separate_value(const std::string& typed) {
        if (++at_ == words_.size()) throw UsageError(typed + ": needs a value");
        const std::string& value = words_[at_];
        refuse_signs(value, true);
        if (value.starts_with('='))
            throw UsageError(fmt::format("{} {}: no blank stands before or behind the =", typed, value));
        if (value == kEndOfOptions || known_.is_option(value)) {
            throw UsageError(
                fmt::format("{0}: needs a value, but {1} follows; write {0}{2}VALUE for one that begins so",
                            typed, value, typed.starts_with("--") ? "=" : ""));
        }
        return value;
    }

    // argparse swallows one "--" in all, and launch lines are written for that.
    void take_program() {
        const bool swallowed = at_ < words_.size() && words_[at_] == kEndOfOptions;
        std::vector<std::string>& program = taken_.program;
        program.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_ + (swallowed ? 1 : 0)), words_.end());
        if (!swallowed && program.size() > 1 && program[1] == kEndOfOptions)
            program.erase(program.begin() + 1);
        if (program.empty()) return;
        refuse_signs(program.front());
        if (program.front().empty())
            throw UsageError("the program's name is empty; is a variable of the shell not set?");
    }

    const KnownOptions& known_;
    const std::vector<std::string>& words_;
    const bool by_torchruns_name_;
    std::size_t at_ = 0;
    LauncherWords taken_;
};

}  // namespace

LauncherWords split_words(const CLI::App& app, const std::vector<OptionGroup>& groups,
                          const std::vector<std::string>& words, bool by_torchruns_name) {
    return WordReader(KnownOptions(app, groups), words, by_torchruns_name).read();
}

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

}  // namespace app
}  // namespace ddprun
