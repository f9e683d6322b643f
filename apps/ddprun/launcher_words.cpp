#include "apps/ddprun/launcher_words.hpp"

#include <algorithm>

#include "apps/ddprun/option_values.hpp"

namespace ddprun {
namespace {

[[noreturn]] void refuse_unknown(const std::string& flag, const std::vector<const CLI::Option*>& options) {
    std::vector<std::string> names;
    for (const CLI::Option* option : options) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    auto meant = nearest(flag, names);
    throw UsageError(flag + ": no such flag" +
                     (meant ? "; did you mean " + *meant + "?" : "; see ddprun --help"));
}

}  // namespace

std::vector<std::string> take_launcher_words(const CLI::App& app, const std::vector<std::string>& words,
                                             std::vector<std::string>& program) {
    const std::vector<const CLI::Option*> options = app.get_options();
    std::vector<std::string> launcher;
    std::size_t i = 0;
    for (; i < words.size(); ++i) {
        std::string word = words[i];
        if (word == "--") {
            ++i;
            break;
        }
        if (word.size() < 2 || word.front() != '-') break;
        const bool is_long = word[1] == '-';
        const std::size_t name_end = is_long ? std::min(word.find('='), word.size()) : 2;
        std::string name = word.substr(0, name_end);
        std::replace(name.begin() + 2, name.end(), '_', '-');
        auto match = std::find_if(options.begin(), options.end(),
                                  [&](const CLI::Option* option) { return option->check_name(name); });
        if (match == options.end()) refuse_unknown(name, options);
        launcher.push_back(name + word.substr(name_end));
        // One whose value is optional takes it only behind an "=".
        const bool wants_value = (*match)->get_items_expected_min() > 0;
        if (!wants_value || name_end < word.size()) continue;
        if (i + 1 == words.size()) throw UsageError(name + ": needs a value");
        // "--name=value" keeps a value that begins with a dash from being read as an option.
        launcher.back() += (is_long ? "=" : "") + words[++i];
    }
    program.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())), words.end());
    return launcher;
}

}  // namespace ddprun
