#include "apps/ddprun/explain/shown_words.hpp"

#include <algorithm>
#include <string_view>

#include "apps/ddprun/explain/environment_change.hpp"

namespace ddprun::inline app {

std::string shown_option_value(const std::string& option, const std::string& value) {
    const bool has_ranks = option == "--env-rank";
    if (!has_ranks && option != "--env") return value;
    const std::size_t name = has_ranks ? value.find(':') + 1 : 0;  // Without one, npos + 1 is 0.
    const std::size_t equals = std::min(value.find('=', name), value.size());
    const EnvironmentChange change{value.substr(name, equals - name),
                                   value.substr(std::min(equals + 1, value.size())), ""};
    return value.substr(0, std::min(equals + 1, value.size())) + shown_value(change);
}

std::vector<std::string> shown_launcher_words(std::vector<std::string> words) {
    for (std::string& word : words) {
        if (word == "--") break;
        const std::size_t equals = word.find('=');
        if (equals == word.npos) continue;
        word =
            word.substr(0, equals + 1) + shown_option_value(word.substr(0, equals), word.substr(equals + 1));
    }
    return words;
}

}  // namespace ddprun::inline app
